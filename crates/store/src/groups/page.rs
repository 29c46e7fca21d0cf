//! Pages of the log as groups read them.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;

use bytes::Bytes;

use super::filter::Filter;
use super::key::{Key, partition_of};
use crate::offset::Position;
use crate::row::RowChange;

/// One event as a consumer gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupEvent {
    /// Its place in the log.
    pub position: Position,
    /// Which append brought it: the position of that append's first event.
    pub append_id: Position,
    /// The stream it belongs to.
    pub stream: String,
    /// The tenant.
    pub host_id: Option<String>,
    /// Who did it.
    pub user_id: Option<String>,
    /// The transaction that it comes from; none of what no transaction of users wrote.
    pub txid: Option<i64>,
    /// Whether it is the last event of that transaction, or of its append.
    pub tx_last: bool,
    /// When it was made, by the store's clock.
    pub created_at_ms: i64,
    /// What tracing sent along.
    pub trace_context: Option<String>,
    /// The change of a row, in the stream of a table.
    pub change: Option<Arc<RowChange>>,
    /// The document, in any other stream.
    pub payload: Option<Bytes>,
    /// What the document is.
    pub content_type: Option<String>,
}

impl GroupEvent {
    /// Whose it is.
    pub fn key(&self) -> Key {
        Key::of(self.host_id.as_deref(), self.user_id.as_deref())
    }

    /// Whether the next event of the key was made by the same source transaction; what no transaction wrote, by the
    /// same append.
    pub(crate) fn is_of_one_unit(&self, next: &GroupEvent) -> bool {
        match (self.txid, next.txid) {
            (None, None) => self.append_id == next.append_id,
            (a, b) => a == b,
        }
    }

    /// Bytes it takes to hold, roughly.
    pub fn bytes(&self) -> usize {
        let document = self.payload.as_ref().map_or(0, Bytes::len);
        let row = self.change.as_ref().map_or(0, |change| change.bytes());
        200 + self.stream.len() + document + row
    }
}

/// One event of a page: its header always, itself if it is wanted.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its place in the log.
    pub position: Position,
    /// The partition of its host.
    pub partition: u32,
    /// The transaction that it comes from.
    pub txid: Option<i64>,
    /// Which append brought it.
    pub append_id: Position,
    /// Whether it is the last event of that transaction, or of its append.
    pub tx_last: bool,
    /// It says something about a stream and is handed to nobody.
    pub control: bool,
    /// When it was made.
    pub created_at_ms: i64,
    /// The event, if its partition is wanted and the filter takes it.
    pub event: Option<Arc<GroupEvent>>,
}

/// What a reader of pages needs whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wants {
    /// Of which streams.
    pub filter: Filter,
    /// How many partitions there are.
    pub total: NonZeroU32,
    /// Which of them; none: all.
    pub partitions: Option<BTreeSet<u32>>,
    /// Bytes of events that one page holds, as the store measures them; a single larger event still
    /// makes a page. [`PAGE_BYTES_MAX`](super::PAGE_BYTES_MAX), but where pages are to be small.
    pub page_bytes: usize,
}

impl Wants {
    /// The partition of a host.
    pub fn partition(&self, host: Option<&str>) -> u32 {
        partition_of(host.unwrap_or_default(), self.total)
    }

    /// Whether an event of a stream and a partition is wanted whole.
    pub fn takes(&self, stream: &str, partition: u32) -> bool {
        self.partitions.as_ref().is_none_or(|wanted| wanted.contains(&partition))
            && self.filter.takes(stream)
    }
}

/// A stretch of the log. Everything in `(after, scanned_to]` was looked at.
#[derive(Debug, Clone)]
pub struct LogPage {
    /// What was asked for.
    pub wants: Arc<Wants>,
    /// It begins after this.
    pub after: Position,
    /// It ends with this.
    pub scanned_to: Position,
    /// What lies in it, in order. There are holes where retention took events.
    pub entries: Vec<Entry>,
    /// What it takes to hold, roughly.
    pub bytes: usize,
}
