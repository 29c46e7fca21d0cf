//! Pages of streams that were read lately, as they were sent.
//!
//! - **What**: bodies of answers, by stream, offset and format, of any part of the past; at most
//!   `streams.page_cache_bytes_max` of them, held from the node's budget of answers, the oldest let go of first.
//! - **Who reads it**: those who catch up on a stream by `GET`. Many come to the same pages, one after the
//!   other, and get the same bytes: neither the database is asked for the events nor anything made of them.
//! - **Why nothing else serves**: what a stream's topic remembers is its last 512 events while someone waits;
//!   who catches up begins anywhere before that, mostly where nobody waits. And what is saved here is above
//!   all making the answer, which events in memory would not save.
//!
//! Events never change, so a page that is full stays right, and one that reached the stream's end stays right
//! until the stream grows. Every read still asks the store what the stream is now: a page is used only if it
//! belongs to this very stream, which has lost nothing since, and ends where the stream's state says it should.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use tidewire_store::{Page, Position, StreamView};

use tidewire_access::budget::{Account, Reclaimable};

/// Smaller pages are as quickly read as found.
const PAGE_BYTES_MIN: usize = 4 << 10;

type Key = (String, Position, Format);

/// How events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Format {
    /// As the protocol says: a JSON array, or bytes.
    Plain,
    /// `[{"offset": …, "payload": …}]`.
    Events,
}

/// A page as it is sent.
#[derive(Debug, Clone)]
pub(crate) struct Rendered {
    /// Where the next read continues.
    pub(crate) next: Position,
    /// Whether it reaches the stream's end.
    pub(crate) up_to_date: bool,
    pub(crate) body: Bytes,
}

/// A page that was sent.
#[derive(Debug)]
pub(crate) struct CachedPage {
    /// Which stream of this name it is from.
    created: Position,
    /// What that had lost.
    lost: Position,
    next: Position,
    /// It was cut off by a limit: it will never hold more.
    full: bool,
    /// Held from the node's budget, for as long as it is here or on its way to someone.
    body: Bytes,
    /// Whose share of the budget that takes from.
    made_for: Arc<Account>,
}

impl CachedPage {
    /// The page, if it is still what a read would give.
    pub(crate) fn as_of(&self, view: &StreamView) -> Option<Rendered> {
        let same = self.created == view.state.created && self.lost == view.lost;
        let right = same && (self.full || self.next == view.tail);
        right.then(|| Rendered {
            next: self.next,
            up_to_date: self.next >= view.tail,
            body: self.body.clone(),
        })
    }
}

/// The pages kept, within a bound on their bytes. The oldest goes first.
#[derive(Debug)]
pub(crate) struct Pages {
    bytes_max: usize,
    kept: Mutex<PageCache>,
}

#[derive(Debug, Default)]
struct PageCache {
    pages: HashMap<Key, Arc<CachedPage>>,
    order: VecDeque<Key>,
    bytes: usize,
}

impl Pages {
    pub(crate) fn new(bytes_max: usize) -> Pages {
        Pages { bytes_max, kept: Mutex::default() }
    }

    /// A page of this name, place and format. Whether it is still right is for the caller to see.
    pub(crate) fn find(
        &self,
        stream: &str,
        after: Position,
        format: Format,
    ) -> Option<Arc<CachedPage>> {
        let shelf = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        shelf.pages.get(&(stream.to_owned(), after, format)).cloned()
    }

    /// Keeps a page that was just made.
    pub(crate) fn keep(
        &self,
        page: &Page,
        after: Position,
        format: Format,
        rendered: &Rendered,
        made_for: &Arc<Account>,
    ) {
        let bytes = rendered.body.len();
        if page.events.is_empty() || bytes < PAGE_BYTES_MIN || bytes > self.bytes_max / 4 {
            return;
        }
        let state = &page.view.state;
        let kept = CachedPage {
            created: state.created,
            lost: page.view.lost,
            next: rendered.next,
            full: !rendered.up_to_date,
            body: rendered.body.clone(),
            made_for: Arc::clone(made_for),
        };
        let key = (state.name.clone(), after, format);
        let mut shelf = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        shelf.bytes += bytes;
        match shelf.pages.insert(key.clone(), Arc::new(kept)) {
            Some(replaced) => shelf.bytes -= replaced.body.len(),
            None => shelf.order.push_back(key),
        }
        while shelf.bytes > self.bytes_max {
            let Some(oldest) = shelf.order.pop_front() else { break };
            if let Some(gone) = shelf.pages.remove(&oldest) {
                shelf.bytes -= gone.body.len();
            }
        }
    }
}

impl Reclaimable for Pages {
    fn forget(&self, made_for: Option<&Arc<Account>>) {
        let mut shelf = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let PageCache { pages, order, bytes } = &mut *shelf;
        pages.retain(|_, kept| {
            made_for.is_some_and(|account| !Arc::ptr_eq(account, &kept.made_for))
        });
        order.retain(|key| pages.contains_key(key));
        *bytes = pages.values().map(|kept| kept.body.len()).sum();
    }
}
