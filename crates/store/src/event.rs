//! Events as they lie in the log.

use std::sync::Arc;

use bytes::Bytes;

use crate::entity::EntityChange;
use crate::offset::Position;
use crate::row::RowChange;

/// What a control event says about its stream. Control events have positions in the log like any
/// other, so that waiting readers on every node learn of them in order; they are not data, and
/// reading a stream does not show them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// The stream came into being.
    Create,
    /// No more data will come.
    Close,
    /// The stream was deleted.
    Delete,
    /// The stream's time to live ran out.
    Expire,
    /// A `__ds` subscription named by the stream id was made, changed or removed.
    Subscription,
    /// The columns of the stream's table changed; the payload says how.
    Schema,
    /// A place by which everything is in the log that was committed before it was asked for. Of no
    /// stream.
    Mark,
}

const CONTROLS: [Control; 7] = [
    Control::Create,
    Control::Close,
    Control::Delete,
    Control::Expire,
    Control::Subscription,
    Control::Schema,
    Control::Mark,
];

impl Control {
    /// The word kept in the log's `control` column.
    pub fn as_str(self) -> &'static str {
        match self {
            Control::Create => "create",
            Control::Close => "close",
            Control::Delete => "delete",
            Control::Expire => "expire",
            Control::Subscription => "subscription",
            Control::Schema => "schema",
            Control::Mark => "mark",
        }
    }

    /// Reads the `control` column; a word this version does not know is ignored by its reader.
    pub fn parse(word: &str) -> Option<Control> {
        CONTROLS.into_iter().find(|control| control.as_str() == word)
    }
}

/// One event as a reader of its stream gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its place in the log.
    pub position: Position,
    /// Which append brought it: the position of that append's first event.
    pub append_id: Position,
    /// The document: one JSON message, or one append's bytes. Empty where `row` is set.
    pub payload: Bytes,
    /// The change of a row, in the stream of a table.
    pub row: Option<Arc<RowChange>>,
}

/// One event as a node that follows the log sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TailEvent {
    /// Its place in the log.
    pub position: Position,
    /// The stream it belongs to.
    pub stream: String,
    /// Set on control events. Of those only [`Control::Schema`] has a payload.
    pub control: Option<Control>,
    /// The document, present only if the follower asked for this stream's payloads.
    pub payload: Option<Bytes>,
    /// The change of a row, in place of a document; present under the same condition.
    pub row: Option<Arc<RowChange>>,
    /// The change of an entity, if it is one.
    pub entity: Option<EntityChange>,
    /// The transaction that it comes from, by the database's own number; none of what no transaction of
    /// users wrote.
    pub txid: Option<i64>,
    /// Whether it is the last event of that transaction.
    pub tx_last: bool,
    /// When it was appended, by the store's clock.
    pub created_at_ms: i64,
}

impl TailEvent {
    /// Bytes of what it carries.
    pub fn bytes(&self) -> usize {
        let row = self.row.as_ref().map_or(0, |row| row.bytes());
        self.payload.as_ref().map_or(0, Bytes::len) + row
    }
}
