//! Pages over a log that counts how often it is read.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Semaphore, watch};

use super::*;
use crate::groups::*;
use crate::log::PageLimit;
use crate::offset::Epoch;
use crate::sql::Statements;

/// A log without events. Reads wait while a test holds the gate.
#[derive(Debug)]
struct Log {
    reads: AtomicUsize,
    gate: Semaphore,
    page_bytes: usize,
    /// What begins here or later cannot be read.
    broken_from: u64,
}

impl Log {
    fn new(page_bytes: usize) -> Log {
        let (reads, gate) = (AtomicUsize::new(0), Semaphore::new(1));
        Log { reads, gate, page_bytes, broken_from: u64::MAX }
    }

    fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }
}

fn wants(partitions: &[u32]) -> Arc<Wants> {
    let total = NonZeroU32::new(8).expect("eight");
    let partitions = Some(partitions.iter().copied().collect::<BTreeSet<u32>>());
    Arc::new(Wants { filter: Filter::default(), total, partitions, page_bytes: PAGE_BYTES_MAX })
}

/// Reads after a place, and says which stretch came.
async fn stretch(pages: &Pages, log: &Log, wants: &Arc<Wants>, after: u64, tip: u64) -> (u64, u64) {
    let (after, tip) = (Position::new(after), Position::new(tip));
    let page = pages.after(log, wants, after, tip).await.expect("a page");
    (page.after.number(), page.scanned_to.number())
}

#[tokio::test]
async fn a_page_is_read_once_for_all_who_begin_in_it() {
    let (pages, log, wants) = (Pages::new(1 << 20), Log::new(0), wants(&[1]));
    assert_eq!(stretch(&pages, &log, &wants, 0, 1_500).await, (0, 1_000));
    assert_eq!(stretch(&pages, &log, &wants, 0, 1_500).await, (0, 1_000));
    assert_eq!(stretch(&pages, &log, &wants, 999, 1_500).await, (0, 1_000));
    assert_eq!(log.reads(), 1);
    assert_eq!(stretch(&pages, &log, &wants, 1_000, 1_500).await, (1_000, 1_500));
    assert_eq!(log.reads(), 2);
}

#[tokio::test]
async fn who_is_far_behind_reads_two_pages_at_once() {
    let (pages, log, wants) = (Pages::new(1 << 20), Log::new(10), wants(&[1]));
    assert_eq!(stretch(&pages, &log, &wants, 300, 3_500).await, (300, 1_000));
    assert_eq!(log.reads(), 2, "the next is whole");
    assert_eq!(stretch(&pages, &log, &wants, 1_000, 3_500).await, (1_000, 2_000));
    assert_eq!(log.reads(), 2, "it is there");
    assert_eq!(stretch(&pages, &log, &wants, 2_000, 3_500).await, (2_000, 3_000));
    assert_eq!(log.reads(), 3, "the next is not whole yet");
    assert_eq!(stretch(&pages, &log, &wants, 0, 3_500).await, (0, 300));
    assert_eq!(log.reads(), 4, "the next is there");
    let (pages, log) = (Pages::new(1 << 20), Log::new(10));
    stretch(&pages, &log, &wants, 1_000, 2_500).await;
    assert_eq!(stretch(&pages, &log, &wants, 0, 2_500).await, (0, 1_000));
    assert_eq!(log.reads(), 2, "the next is there, and whole");
}

#[tokio::test]
async fn a_page_is_given_though_the_one_after_it_cannot_be_read() {
    let log = Log { broken_from: 1_000, ..Log::new(10) };
    let (pages, wants) = (Pages::new(1 << 20), wants(&[1]));
    assert_eq!(stretch(&pages, &log, &wants, 0, 3_500).await, (0, 1_000));
    let next = pages.after(&log, &wants, Position::new(1_000), Position::new(3_500)).await;
    assert!(next.is_err(), "who wants that one is told");
}

#[tokio::test]
async fn a_read_ends_where_the_next_page_begins() {
    let (pages, log, wants) = (Pages::new(1 << 20), Log::new(0), wants(&[1]));
    assert_eq!(stretch(&pages, &log, &wants, 700, 1_500).await, (700, 1_000));
    assert_eq!(stretch(&pages, &log, &wants, 200, 1_500).await, (200, 700));
    assert_eq!(stretch(&pages, &log, &wants, 650, 1_500).await, (200, 700));
    assert_eq!(log.reads(), 2);
}

#[tokio::test]
async fn at_the_tip_nothing_is_read() {
    let (pages, log, wants) = (Pages::new(1 << 20), Log::new(0), wants(&[1]));
    assert_eq!(stretch(&pages, &log, &wants, 40, 40).await, (40, 40));
    assert_eq!(stretch(&pages, &log, &wants, 50, 40).await, (50, 50));
    assert_eq!(log.reads(), 0);
    assert_eq!(stretch(&pages, &log, &wants, 40, 41).await, (40, 41), "what came since is read");
    assert_eq!(stretch(&pages, &log, &wants, 41, 60).await, (41, 60));
}

#[tokio::test]
async fn those_who_wait_for_a_read_find_it() {
    let (pages, log, wants) = (Pages::new(1 << 20), Log::new(0), wants(&[1]));
    let held = log.gate.acquire().await.expect("never closed");
    let asked = async {
        tokio::join!(
            stretch(&pages, &log, &wants, 0, 900),
            stretch(&pages, &log, &wants, 10, 900),
            stretch(&pages, &log, &wants, 20, 900),
        )
    };
    let let_go = async { drop(held) };
    let (((first, _), second, third), ()) = tokio::join!(asked, let_go);
    assert_eq!((first, second, third), (0, (0, 900), (0, 900)));
    assert_eq!(log.reads(), 1);
}

#[tokio::test]
async fn other_wants_find_nothing_of_those_before() {
    let (pages, log) = (Pages::new(1 << 20), Log::new(0));
    stretch(&pages, &log, &wants(&[1]), 0, 900).await;
    stretch(&pages, &log, &wants(&[1]), 0, 900).await;
    assert_eq!(log.reads(), 1, "equal wants are the same");
    let two = wants(&[1, 2]);
    let page = pages.after(&log, &two, Position::START, Position::new(900)).await.expect("a page");
    assert_eq!((log.reads(), page.wants.as_ref()), (2, two.as_ref()));
    stretch(&pages, &log, &wants(&[1]), 0, 900).await;
    assert_eq!(log.reads(), 3);
}

#[tokio::test]
async fn what_was_not_used_for_longest_goes_when_there_are_too_many_bytes() {
    let (pages, log, wants) = (Pages::new(3 * 1_300), Log::new(1_000), wants(&[1]));
    for after in [0, 1_000, 2_000, 0, 3_000] {
        stretch(&pages, &log, &wants, after, 9_000).await;
    }
    assert_eq!(log.reads(), 4);
    for (after, reads) in [(0, 4), (3_000, 4), (2_000, 4), (1_000, 5)] {
        stretch(&pages, &log, &wants, after, 9_000).await;
        assert_eq!(log.reads(), reads, "after {after}");
    }
    let (small, log) = (Pages::new(100), Log::new(1_000));
    assert_eq!(
        stretch(&small, &log, &wants, 0, 9_000).await,
        (0, 1_000),
        "it is given all the same"
    );
    assert_eq!(small.kept().bytes, 0);
}

#[tokio::test]
async fn what_all_have_passed_is_let_go_of() {
    let (pages, log, wants) = (Pages::new(1 << 20), Log::new(10), wants(&[1]));
    for after in [0, 1_000, 2_000] {
        stretch(&pages, &log, &wants, after, 3_000).await;
    }
    pages.forget_up_to(Position::new(1_999));
    assert_eq!(pages.kept().pages.len(), 2);
    pages.forget_up_to(Position::new(2_000));
    assert_eq!(pages.kept().pages.len(), 1);
    pages.forget();
    let kept = pages.kept();
    assert_eq!((kept.pages.len(), kept.uses.len(), kept.bytes), (0, 0, 0));
}

#[async_trait::async_trait]
impl Groups for Log {
    fn log_epoch(&self) -> Epoch {
        unreachable!("pages only read")
    }
    async fn log_tip(&self) -> Result<Position, StoreError> {
        unreachable!("pages only read")
    }
    fn log_grown(&self) -> watch::Receiver<u64> {
        unreachable!("pages only read")
    }
    fn group_signals(&self) -> watch::Receiver<u64> {
        unreachable!("pages only read")
    }
    async fn put_group(&self, _: &str, _: &GroupSettings) -> Result<(GroupView, bool), GroupError> {
        unreachable!("pages only read")
    }
    async fn change_group(&self, _: &str, _: &GroupChange) -> Result<GroupView, GroupError> {
        unreachable!("pages only read")
    }
    async fn finish_change(&self, _: &str) -> Result<bool, GroupError> {
        unreachable!("pages only read")
    }
    async fn reset_group(
        &self,
        _: &str,
        _: Start,
        _: Option<u32>,
        _: bool,
    ) -> Result<GroupView, GroupError> {
        unreachable!("pages only read")
    }
    async fn remove_group(&self, _: &str) -> Result<bool, StoreError> {
        unreachable!("pages only read")
    }
    async fn group(&self, _: &str) -> Result<Option<GroupView>, StoreError> {
        unreachable!("pages only read")
    }
    async fn list_groups(&self) -> Result<Vec<GroupView>, StoreError> {
        unreachable!("pages only read")
    }
    async fn renew_member(&self, _: &MemberReport, _: u64) -> Result<Renewed, GroupError> {
        unreachable!("pages only read")
    }
    async fn remove_member(&self, _: &str, _: &str) -> Result<(), StoreError> {
        unreachable!("pages only read")
    }
    async fn log_page(
        &self,
        after: Position,
        up_to: Position,
        wants: &Arc<Wants>,
    ) -> Result<LogPage, StoreError> {
        let _turn = self.gate.acquire().await.expect("never closed");
        self.reads.fetch_add(1, Ordering::SeqCst);
        if after.number() >= self.broken_from {
            return Err(StoreError::Unavailable("it is broken".to_owned()));
        }
        let (wants, entries) = (Arc::clone(wants), Vec::new());
        Ok(LogPage { wants, after, scanned_to: up_to, entries, bytes: self.page_bytes })
    }
    async fn place_at(&self, _: Start) -> Result<Position, GroupError> {
        unreachable!("pages only read")
    }
    async fn holdings(&self, _: &str, _: u32) -> Result<Holdings, GroupError> {
        unreachable!("pages only read")
    }
    async fn begin(&self, _: &Claim) -> Result<Begun, GroupError> {
        unreachable!("pages only read")
    }
    async fn note_failures(&self, _: &Claim, _: &[Failure], _: u64) -> Result<(), GroupError> {
        unreachable!("pages only read")
    }
    async fn skip(&self, _: &Claim, _: Position) -> Result<bool, GroupError> {
        unreachable!("pages only read")
    }
    async fn set_trouble(&self, _: &Claim, _: Option<&str>) -> Result<(), GroupError> {
        unreachable!("pages only read")
    }
    async fn letters_due(
        &self,
        _: &str,
        _: u32,
        _: PageLimit,
    ) -> Result<Option<Batch>, StoreError> {
        unreachable!("pages only read")
    }
    async fn lease(&self, _: &Claim, _: Position, _: u64) -> Result<Option<u64>, GroupError> {
        unreachable!("pages only read")
    }
    async fn extend_lease(&self, _: &LeaseRef, _: u64) -> Result<(), GroupError> {
        unreachable!("pages only read")
    }
    async fn ack(&self, _: &LeaseRef, _: &Ending, _: Vec<Statements>) -> Result<Acked, GroupError> {
        unreachable!("pages only read")
    }
    async fn nack(
        &self,
        _: &LeaseRef,
        _: &[Failure],
        _: &Ending,
        _: u64,
    ) -> Result<(), GroupError> {
        unreachable!("pages only read")
    }
    async fn letters(
        &self,
        _: &str,
        _: Position,
        _: PageLimit,
        _: Option<LetterState>,
    ) -> Result<LetterPage, StoreError> {
        unreachable!("pages only read")
    }
    async fn redrive(&self, _: &str, _: &LetterSelection) -> Result<u64, GroupError> {
        unreachable!("pages only read")
    }
    async fn drop_letters(&self, _: &str, _: &LetterSelection, _: bool) -> Result<u64, GroupError> {
        unreachable!("pages only read")
    }
}
