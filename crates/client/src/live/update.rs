//! The updates that a live connection gives to its caller.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;

use super::result::RowChange;
use crate::error::{ClientError, Problem};

/// Something happened. Updates of one subscription come in order; those about the connection stand
/// between them.
#[derive(Debug)]
#[non_exhaustive]
pub enum Update {
    /// A connection stands.
    Connected {
        /// The node at its other end.
        node: String,
        /// The server's name for the connection.
        connection_id: String,
    },
    /// There is no connection: it was lost, or an attempt to make one failed. The next attempt is
    /// made by itself.
    Disconnected {
        /// What happened.
        error: ClientError,
        /// When the next attempt is made.
        retry_in: Duration,
    },
    /// A subscription stands: every event after `offset` will come.
    Created {
        /// The subscription.
        query_id: Arc<str>,
        /// What it follows.
        stream: Arc<str>,
        /// Where the server begins. After a return some events may come a second time over the
        /// wire; they are not given out again.
        offset: String,
        /// It stood before, and goes on without loss.
        resumed: bool,
    },
    /// One event of a stream.
    Event(LiveEvent),
    /// All events up to `offset` were given out, of every subscription.
    Progress {
        /// What [`Live::ack_progress`](crate::Live::ack_progress) takes.
        offset: String,
    },
    /// Entities changed that a subscription is about. What they are like now is to be asked elsewhere.
    Invalidated {
        /// The subscription.
        query_id: Arc<str>,
        /// What kind of things.
        entity_code: String,
        /// Which, and what became of each: of one that changed several times, the last.
        changes: Vec<EntityChange>,
        /// All changes up to here were given out.
        offset: String,
    },
    /// A query's rows are there, all of them, instead of any that were before:
    /// [`Live::result`](crate::Live::result).
    ResultBegan {
        /// The subscription.
        query_id: Arc<str>,
        /// Where in the log they are exact; none if that is yet to be said.
        offset: Option<String>,
    },
    /// A query's result is another, by one transaction.
    ResultChanged {
        /// The subscription.
        query_id: Arc<str>,
        /// What is different.
        changes: Vec<RowChange>,
        /// Where in the log it is exact; none if that is yet to be said.
        offset: Option<String>,
    },
    /// A query's result, as it was told, is exact at a place of the log: it was told without one, or goes
    /// on there after a lost connection.
    ResultSettled {
        /// The subscription.
        query_id: Arc<str>,
        /// Where.
        offset: Option<String>,
    },
    /// The columns of the table changed whose stream a subscription follows. Rows that come after this
    /// are of the new shape.
    SchemaChanged {
        /// The subscription.
        query_id: Arc<str>,
        /// What it follows.
        stream: Arc<str>,
        /// Where in the log.
        offset: String,
        /// What is different, in words.
        what: String,
    },
    /// Nothing more will come for this subscription.
    Ended {
        /// The subscription.
        query_id: Arc<str>,
        /// What it followed.
        stream: Arc<str>,
        /// `stream_closed`, `stream_deleted`, `session_expired`, or `unsubscribed` by someone else.
        reason: String,
        /// More about that, in a sentence, where the server says it.
        what: Option<String>,
    },
    /// The server refused something. A subscription that cannot be had has ended with this, unless
    /// the problem is temporary: then it is asked for again by itself.
    Problem {
        /// The subscription it is about, if it is about one.
        query_id: Option<Arc<str>>,
        /// What the server said.
        problem: Problem,
    },
}

/// One event of a stream that a subscription follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveEvent {
    /// The subscription.
    pub query_id: Arc<str>,
    /// The stream.
    pub stream: Arc<str>,
    /// Its place in the log.
    pub offset: String,
    /// What it carries; see [`LiveEvent::is_json`].
    pub payload: Bytes,
    /// Whether the payload is JSON, exactly as it was appended. Otherwise it is the text or the
    /// bytes that were appended. (From a server that does not say what a stream holds, text comes as
    /// a JSON string.)
    pub is_json: bool,
}

/// What became of an entity.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EntityChange {
    /// Which one.
    pub entity_id: String,
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub action: String,
}

impl LiveEvent {
    /// The payload as a value, if it is JSON.
    pub fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, ClientError> {
        serde_json::from_slice(&self.payload)
            .map_err(|error| ClientError::NotUnderstood(format!("the payload: {error}")))
    }
}

impl Update {
    /// The subscription it is about, if it is about one.
    pub fn query_id(&self) -> Option<&str> {
        match self {
            Update::Created { query_id, .. }
            | Update::Invalidated { query_id, .. }
            | Update::ResultBegan { query_id, .. }
            | Update::ResultChanged { query_id, .. }
            | Update::ResultSettled { query_id, .. }
            | Update::SchemaChanged { query_id, .. }
            | Update::Ended { query_id, .. } => Some(query_id),
            Update::Event(event) => Some(&event.query_id),
            Update::Problem { query_id, .. } => query_id.as_deref(),
            Update::Connected { .. } | Update::Disconnected { .. } | Update::Progress { .. } => {
                None
            }
        }
    }
}
