//! Pages of the log that were read, shared by the partitions of a member.
//!
//! - **What**: stretches of the whole log as one group wants them: every event's header, and the event itself
//!   if the filter takes it and its partition is the member's. In the library 64 MiB a member, on a node
//!   `groups.page_cache_bytes_max` a group; the longest unused is let go of first, and all once the group wants
//!   something else.
//! - **Who reads it**: the partitions of that member. They walk the same log at nearly the same pace, each over
//!   all headers; so a page is read once, by whoever is there first, and the others find it. Eight partitions
//!   read the log once and not eight times.
//! - **Why nothing else serves**: the others are of one stream or of the last moment; a group reads all streams
//!   in the log's order, from wherever it is, with who did what in which transaction. And the library is a
//!   process of its own, in which nothing else of a node is.
//!
//! Pages end at multiples of [`PAGE_OFFSETS`], so that those who begin at different positions meet in the same
//! ones.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::assemble::{Assembled, Assembler};
use super::holdings::Holdings;
use super::limits::Limits;
use super::page::{Entry, LogPage, Wants};
use super::{Groups, PAGE_OFFSETS};
use crate::error::StoreError;
use crate::offset::Position;

/// What keeping a page costs besides its events.
const PAGE_COST_BYTES: usize = 256;

/// Pages that were read, by where they begin. One for each member, or for each group on a node.
#[derive(Debug)]
pub struct Pages {
    bytes_max: usize,
    /// Held for a moment and never across a wait, hence a lock of the standard library.
    kept: Mutex<CachedPages>,
    /// Held while the log is read: others then find what was read.
    reading: tokio::sync::Mutex<()>,
}

/// Pages do not overlap, and all were read for the same wants. `bytes <= bytes_max`.
#[derive(Debug, Default)]
struct CachedPages {
    wants: Option<Arc<Wants>>,
    /// By the place after which they begin, with when they were last asked for.
    pages: BTreeMap<Position, (Arc<LogPage>, u64)>,
    /// The same by that time: the first is let go of first.
    uses: BTreeMap<u64, Position>,
    clock: u64,
    bytes: usize,
}

impl Pages {
    /// None yet; of all that will be read, so many bytes are kept.
    pub fn new(bytes_max: usize) -> Pages {
        Pages { bytes_max, kept: Mutex::default(), reading: tokio::sync::Mutex::default() }
    }

    /// The page that holds what follows a position, from memory or from the log; it may begin before that.
    /// Nothing past the tip is read, so at the tip it is empty. Who wants something else than those before
    /// finds nothing in memory.
    pub async fn after(
        &self,
        log: &dyn Groups,
        wants: &Arc<Wants>,
        after: Position,
        tip: Position,
    ) -> Result<Arc<LogPage>, StoreError> {
        if let Some(page) = self.kept().find(wants, after) {
            return Ok(page);
        }
        let _turn = self.reading.lock().await;
        let (up_to, ahead) = {
            let mut kept = self.kept();
            if let Some(page) = kept.find(wants, after) {
                return Ok(page);
            }
            let up_to = kept.end_of_read(after).min(tip);
            (up_to, kept.reads_ahead(up_to, tip, self.bytes_max))
        };
        if up_to <= after {
            let (wants, entries) = (Arc::clone(wants), Vec::new());
            return Ok(Arc::new(LogPage { wants, after, scanned_to: after, entries, bytes: 0 }));
        }
        let ahead = async {
            match ahead {
                Some(end) => log.log_page(up_to, end, wants).await.ok(),
                None => None,
            }
        };
        let (page, ahead) = tokio::join!(log.log_page(after, up_to, wants), ahead);
        let page = Arc::new(page?);
        let mut kept = self.kept();
        kept.keep(&page, self.bytes_max);
        if let Some(ahead) = ahead {
            kept.keep(&Arc::new(ahead), self.bytes_max);
        }
        Ok(page)
    }

    /// The batch of a partition that begins at `from`, its `next` or a place past it before which there is nothing,
    /// made of the log up to `tip`.
    pub async fn assemble(
        &self,
        log: &dyn Groups,
        wants: &Arc<Wants>,
        held: &Holdings,
        limits: Limits,
        from: Position,
        tip: Position,
    ) -> Result<Assembled, StoreError> {
        let mut assembler = Assembler::new(held, limits, from);
        let barrier = held.group.barrier;
        let mut after = from.before();
        while after < tip && barrier.is_none_or(|barrier| after.next() < barrier) {
            let page = self.after(log, wants, after, tip).await?;
            if !assembler.feed(&page) || page.scanned_to <= after {
                break;
            }
            after = page.scanned_to;
        }
        Ok(assembler.finish())
    }

    /// Lets go of all.
    pub fn forget(&self) {
        *self.kept() = CachedPages::default();
    }

    /// Lets go of pages that end at or before a position.
    pub fn forget_up_to(&self, position: Position) {
        let mut kept = self.kept();
        while let Some((&after, (page, _))) = kept.pages.first_key_value()
            && page.scanned_to <= position
        {
            kept.remove(after);
        }
    }

    fn kept(&self) -> MutexGuard<'_, CachedPages> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CachedPages {
    /// The page that holds what follows a position, if it is there.
    fn find(&mut self, wants: &Arc<Wants>, after: Position) -> Option<Arc<LogPage>> {
        if !self.wants.as_ref().is_some_and(|kept| Arc::ptr_eq(kept, wants) || kept == wants) {
            *self = CachedPages { wants: Some(Arc::clone(wants)), ..CachedPages::default() };
            return None;
        }
        let (&begin, (page, used)) = self.pages.range_mut(..=after).next_back()?;
        if page.scanned_to <= after {
            return None;
        }
        self.clock += 1;
        self.uses.remove(used);
        self.uses.insert(self.clock, begin);
        *used = self.clock;
        Some(Arc::clone(page))
    }

    /// Where a read after a position ends: where pages end, or where the next one begins that is there.
    fn end_of_read(&self, after: Position) -> Position {
        let end = Position::new((after.number() / PAGE_OFFSETS + 1) * PAGE_OFFSETS);
        let following = self.pages.range(after..).map(|(begin, _)| *begin).find(|b| *b > after);
        following.map_or(end, |begin| end.min(begin))
    }

    /// The end of the page after a position, if that is worth reading along with the one before it: who is a
    /// whole page behind will want it next, and two are read at once in the time of one.
    fn reads_ahead(&self, after: Position, tip: Position, bytes_max: usize) -> Option<Position> {
        let end = Position::new(after.number() + PAGE_OFFSETS);
        let is_free = self.end_of_read(after) == end && !self.pages.contains_key(&after);
        let has_room = self.bytes <= bytes_max / 2;
        (is_free && has_room && end <= tip).then_some(end)
    }

    fn keep(&mut self, page: &Arc<LogPage>, bytes_max: usize) {
        let cost = cost(page);
        let asked_since = self.wants.as_ref().is_some_and(|wants| **wants == *page.wants);
        // One without a stretch would be found by nobody.
        if !asked_since || cost > bytes_max || page.scanned_to <= page.after {
            return;
        }
        self.remove(page.after);
        while self.bytes + cost > bytes_max
            && let Some((_, &longest_unused)) = self.uses.first_key_value()
        {
            self.remove(longest_unused);
        }
        self.clock += 1;
        self.bytes += cost;
        self.uses.insert(self.clock, page.after);
        self.pages.insert(page.after, (Arc::clone(page), self.clock));
    }

    fn remove(&mut self, after: Position) {
        if let Some((page, used)) = self.pages.remove(&after) {
            self.uses.remove(&used);
            self.bytes -= cost(&page);
        }
    }
}

fn cost(page: &LogPage) -> usize {
    PAGE_COST_BYTES + page.bytes.max(size_of::<Entry>() * page.entries.len())
}
