//! The control channel: what a node must tell all others, such as that a key was revoked.
//!
//! A message is a row and a signal. The signal says "look"; the row is there for those who missed
//! it, because they started later or had lost their connection. So a reader looks when it is
//! signalled, and now and then besides.
//!
//! # Why not "everything after the last id"
//!
//! ```text
//!   transaction 1:  draws id 7 ───────────────────────── commits: 7 is visible
//!   transaction 2:       draws id 8 ── commits: 8 is visible
//!   a reader:                              sees 8            would never look for 7
//! ```
//!
//! Ids are drawn before their rows are visible. The log has a lock against that, and readers that
//! may trust the last position; here nobody is made to wait, so a reader keeps a [`ControlCursor`]
//! of all it has seen above a *floor*. Below the floor nothing is expected any more: it rises over
//! messages that are [`SETTLED_AFTER_MS`] old, by the database's clock. That is far longer than the
//! time between drawing an id and its commit, since messages are written when their transaction ends
//! (see the migration).

use std::collections::BTreeSet;

use async_trait::async_trait;
use tokio::sync::watch;

use crate::error::StoreError;

/// The age at which a message is beyond being overtaken: none that was drawn before it is still to
/// come.
pub const SETTLED_AFTER_MS: i64 = 600_000;

/// Rows of each kind that a sweep removes: few enough that others do not notice.
pub const SWEPT_MAX: usize = 1_000;

/// What was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlMessage {
    /// Its number. Not without gaps, and not in the order in which messages become visible.
    pub id: i64,
    /// What it is about, such as `key_changed`.
    pub kind: String,
    /// The rest of it: JSON.
    pub body: String,
}

/// What one reader has seen.
///
/// The default has seen nothing, so its first reading gives all that is kept. Whoever cares for what
/// happens from now on leaves that aside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ControlCursor {
    /// Messages up to this one are not looked at again.
    floor: i64,
    /// What was there above the floor at the last reading. All of `seen` > `floor`.
    seen: BTreeSet<i64>,
}

/// A message that is there, above a cursor's floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Present {
    pub id: i64,
    /// [`SETTLED_AFTER_MS`] old.
    pub settled: bool,
}

impl ControlCursor {
    /// Only messages above this are to be looked at.
    pub fn floor(&self) -> i64 {
        self.floor
    }

    /// Takes note of the messages that are there above the floor, in order of id, and returns those
    /// that are news.
    ///
    /// What is no longer there has been swept and does not come back, so it need not be remembered:
    /// the cursor is never larger than what is kept in the table.
    pub fn advance(&mut self, present: &[Present]) -> Vec<i64> {
        let news = present.iter().map(|message| message.id).filter(|id| !self.seen.contains(id));
        let news: Vec<i64> = news.collect();
        // Not over a younger message: one that was drawn about then may still be on its way.
        let settled = present.iter().take_while(|message| message.settled).last();
        self.floor = settled.map_or(self.floor, |message| message.id.max(self.floor));
        let above = present.iter().map(|message| message.id).filter(|id| *id > self.floor);
        self.seen = above.collect();
        news
    }
}

/// The channel. See the [module documentation](self) for what holds.
#[async_trait]
pub trait ControlChannel: Send + Sync {
    /// Tells all nodes something, this one too. `body` is JSON.
    async fn send_control(&self, kind: &str, body: &str) -> Result<(), StoreError>;

    /// Changes whenever something may have been said: look. A hint only: a reader also looks now and
    /// then, because what another process does to SQLite's file is not signalled.
    fn control_signals(&self) -> watch::Receiver<u64>;

    /// What has been said and this cursor has not seen, each message once, in order of id. An error
    /// leaves the cursor as it was.
    ///
    /// All of it, however much: what is kept is bounded by the sweep.
    async fn control_since(
        &self,
        cursor: &mut ControlCursor,
    ) -> Result<Vec<ControlMessage>, StoreError>;

    /// Upkeep: removes messages older than `keep_ms` and tickets whose time is over, a bounded number
    /// a call, and says how many. `keep_ms` is longer than a reader may be away: one that was away
    /// for longer has missed messages, and forgets all it knows.
    async fn sweep_control(&self, keep_ms: u64) -> Result<usize, StoreError>;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn young(ids: &[i64]) -> Vec<Present> {
        ids.iter().map(|id| Present { id: *id, settled: false }).collect()
    }

    /// The first messages are settled, the others are not.
    fn mixed(settled: &[i64], ids: &[i64]) -> Vec<Present> {
        let settled = settled.iter().map(|id| Present { id: *id, settled: true });
        settled.chain(young(ids)).collect()
    }

    #[test]
    fn a_message_is_news_once() {
        let mut cursor = ControlCursor::default();
        assert_eq!(cursor.advance(&young(&[1, 2])), [1, 2]);
        assert_eq!(cursor.advance(&young(&[1, 2])), [0; 0]);
        assert_eq!(cursor.advance(&young(&[1, 2, 3])), [3]);
        assert_eq!(cursor.advance(&[]), [0; 0]);
    }

    #[test]
    fn a_message_that_comes_late_is_news() {
        let mut cursor = ControlCursor::default();
        assert_eq!(cursor.advance(&young(&[8])), [8]);
        assert_eq!(cursor.advance(&young(&[7, 8, 9])), [7, 9]);
        assert_eq!(cursor.advance(&mixed(&[5], &[7, 8, 9])), [5], "however old it is");
    }

    #[test]
    fn the_floor_rises_over_settled_messages() {
        let mut cursor = ControlCursor::default();
        assert_eq!((cursor.advance(&young(&[1, 2, 3])), cursor.floor()), (vec![1, 2, 3], 0));
        assert_eq!((cursor.advance(&mixed(&[1, 2], &[3, 4])), cursor.floor()), (vec![4], 2));
        assert_eq!(cursor.seen, BTreeSet::from([3, 4]));
        assert_eq!((cursor.advance(&mixed(&[3, 4], &[])), cursor.floor()), (vec![], 4));
        assert_eq!(cursor, ControlCursor { floor: 4, seen: BTreeSet::new() });
        assert_eq!((cursor.advance(&[]), cursor.floor()), (vec![], 4), "and never falls");
    }

    #[test]
    fn the_floor_does_not_rise_over_a_young_message() {
        let mut cursor = ControlCursor::default();
        let odd = [(1, true), (2, false), (3, true)].map(|(id, settled)| Present { id, settled });
        assert_eq!((cursor.advance(&odd), cursor.floor()), (vec![1, 2, 3], 1));
        assert_eq!((cursor.advance(&odd[1..]), cursor.floor()), (vec![], 1));
    }

    #[test]
    fn a_settled_message_that_nobody_saw_is_still_news() {
        let mut cursor = ControlCursor::default();
        assert_eq!((cursor.advance(&mixed(&[1, 2], &[])), cursor.floor()), (vec![1, 2], 2));
    }

    #[test]
    fn what_was_swept_is_not_remembered() {
        let mut cursor = ControlCursor::default();
        cursor.advance(&young(&[1, 2, 3]));
        cursor.advance(&young(&[3]));
        assert_eq!(cursor.seen, BTreeSet::from([3]));
    }

    /// When a message becomes visible, given in the order of ids; when it was made is its id.
    fn commits() -> impl Strategy<Value = Vec<i64>> {
        let late = prop_oneof![3 => Just(0), 1 => 0..20i64];
        prop::collection::vec(late, 1..60)
            .prop_map(|late| (1..).zip(late).map(|(id, late): (i64, i64)| id + late).collect())
    }

    proptest! {
        /// Messages are made at moments 1, 2, 3, … and become visible up to 19 later; they settle at
        /// an age of 20 and are swept later still. A reader is never away for that long.
        #[test]
        fn every_message_is_news_exactly_once(
            commits in commits(),
            pauses in prop::collection::vec(1..15i64, 1..30),
            keep in 35..60i64,
        ) {
            let mut cursor = ControlCursor::default();
            let mut news = Vec::new();
            let mut now = 0;
            for pause in pauses {
                now += pause;
                let floor = cursor.floor();
                let there = (1..).zip(&commits).filter(|(id, visible)| {
                    **visible <= now && *id > floor && now - id < keep
                });
                let present: Vec<Present> =
                    there.map(|(id, _)| Present { id, settled: now - id >= 20 }).collect();
                let read = cursor.advance(&present);
                prop_assert!(read.is_sorted());
                prop_assert!(cursor.seen.iter().all(|id| *id > cursor.floor));
                news.extend(read);
            }
            let visible = (1..).zip(&commits).filter(|(_, visible)| **visible <= now);
            let expected: Vec<i64> = visible.map(|(id, _)| id).collect();
            news.sort_unstable();
            prop_assert_eq!(news, expected);
        }
    }
}
