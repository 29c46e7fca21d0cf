//! One stream's newest events in memory, for the readers that wait for it.
//!
//! - **What**: of each stream that someone waits for the chunks that the follower brought since they came: the
//!   very ones that the shards push, with the forms that followers share, so that remembering them copies
//!   nothing. At most 512 events and 1 MiB a stream, and none once nobody waits.
//! - **Who reads it**: long-polls; readers by SSE that are a little behind; subscriptions as they go from the
//!   past to the present. Each asks with a position, and the topic knows exactly which positions it covers, so
//!   that "nothing" and "not here" are told apart.
//! - **Why nothing else serves**: the end of the log that the embedded store remembers is of all streams, so
//!   one busy stream would push out all others, and a reader would look through everybody's events for its
//!   own; and it is there on SQLite only. Pages that were read (`streams::pages`) are bytes that begin where
//!   somebody began to read, and who waits at the end of a stream begins where nobody has read yet.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use tokio::sync::watch;

use tidewire_store::{Control, Event, Position, TailEvent};

use super::chunk::Chunk;
use crate::row_filter::View;

/// Events kept for readers that are a little behind. One that is further behind reads the store.
const EVENTS_MAX: usize = 512;
/// Payload bytes kept likewise.
const BYTES_MAX: usize = 1 << 20;

/// What one look at the log brought for a stream.
#[derive(Debug)]
pub struct StreamSlice {
    pub topic: Arc<Topic>,
    /// Its new events.
    pub chunk: Option<Arc<Chunk>>,
    /// Up to here there were events that were read without their payload, because nobody attended
    /// when the reading began. Who has not got them from the store must.
    pub unseen: Option<Position>,
    /// After those events the columns of its table are others.
    pub(crate) notice: Option<Arc<SchemaChange>>,
    /// Nothing more will come.
    pub ending: Option<Ending>,
}

/// The columns of a stream's table changed.
#[derive(Debug)]
pub struct SchemaChange {
    pub position: Position,
    /// What is different, in words.
    pub what: Box<str>,
}

impl SchemaChange {
    /// Reads the payload of a control event: `{"what": "…"}`.
    fn new(position: Position, payload: Option<&[u8]>) -> SchemaChange {
        #[derive(Deserialize)]
        struct ControlEventJson {
            what: Box<str>,
        }
        let document = payload.and_then(|payload| serde_json::from_slice(payload).ok());
        // Nobody followed the stream when the log was read, so the payload was left there.
        let unknown = || ControlEventJson { what: "the table was changed".into() };
        let ControlEventJson { what } = document.unwrap_or_else(unknown);
        SchemaChange { position, what }
    }
}

impl SchemaChange {
    /// What is told to one who sees the table so.
    pub(crate) fn told_to(&self, view: Option<&View>) -> &str {
        match view {
            Some(view) if view.hides_columns() => "the table was changed",
            _ => &self.what,
        }
    }
}

/// How a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Closed,
    Gone,
}

/// What a reader at some position finds.
#[derive(Debug)]
pub enum TopicRead {
    /// The reader is further behind than memory reaches: read the store.
    Behind,
    /// What comes next, and whether that is all.
    Events { events: Vec<Event>, are_all: bool },
    /// Nothing yet.
    Nothing,
    /// Nothing more will come: the stream is closed and ends here.
    Closed,
    /// The stream is gone.
    Ended,
}

/// A stream that readers of this node wait for.
#[derive(Debug)]
pub struct Topic {
    stream: Arc<str>,
    readers: AtomicUsize,
    recent: Mutex<Recent>,
    version: watch::Sender<u64>,
}

#[derive(Debug)]
struct Recent {
    /// `chunks` holds all of the stream's events in `covered_from < position <= covered_to`.
    covered_from: Position,
    covered_to: Position,
    chunks: VecDeque<Arc<Chunk>>,
    bytes: usize,
    events: usize,
    closed: bool,
    ended: bool,
}

impl Topic {
    pub(super) fn new(stream: &str, position: Position) -> Topic {
        Topic {
            stream: stream.into(),
            readers: AtomicUsize::new(0),
            recent: Mutex::new(Recent {
                covered_from: position,
                covered_to: position,
                chunks: VecDeque::new(),
                bytes: 0,
                events: 0,
                closed: false,
                ended: false,
            }),
            version: watch::Sender::new(0),
        }
    }

    pub fn stream(&self) -> &Arc<str> {
        &self.stream
    }

    pub(super) fn enter(&self) {
        self.readers.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether that was the last reader.
    pub(super) fn leave(&self) -> bool {
        self.readers.fetch_sub(1, Ordering::Relaxed) == 1
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Signals when there may be something new.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// What there is after `cursor`, up to about so many bytes of payload, and up to which position
    /// that is all there is.
    pub fn look(&self, cursor: Position, bytes_max: usize) -> (TopicRead, Position) {
        let recent = self.recent();
        let covered_to = recent.covered_to.max(cursor);
        if recent.ended {
            return (TopicRead::Ended, covered_to);
        }
        if cursor < recent.covered_from {
            return (TopicRead::Behind, cursor);
        }
        let older = recent.chunks.partition_point(|chunk| chunk.last() <= cursor);
        let newer = recent.chunks.range(older..).flat_map(|chunk| &chunk.events);
        let mut newer = newer.filter(|event| event.position > cursor).peekable();
        let (mut events, mut bytes) = (Vec::new(), 0);
        while bytes < bytes_max
            && let Some(event) = newer.next()
        {
            bytes += event.payload.len();
            events.push(event.clone());
        }
        match events.last().map(|last| last.position) {
            None if recent.closed => (TopicRead::Closed, covered_to),
            None => (TopicRead::Nothing, covered_to),
            Some(last) if newer.peek().is_some() => {
                (TopicRead::Events { events, are_all: false }, last)
            }
            Some(_) => (TopicRead::Events { events, are_all: true }, covered_to),
        }
    }

    /// Whether the stream was closed while this topic watched, and ends here.
    pub fn closes_at(&self, cursor: Position) -> bool {
        self.closed() && matches!(self.look(cursor, 1).0, TopicRead::Closed)
    }

    /// Whether the stream was closed while this topic watched.
    fn closed(&self) -> bool {
        self.recent().closed
    }

    /// Whether the stream is gone. What comes under its name later is another topic's.
    pub fn ended(&self) -> bool {
        self.recent().ended
    }

    /// The events after one position up to another that the follower has passed, unless memory
    /// does not reach back that far.
    pub fn between(&self, after: Position, up_to: Position) -> Option<Vec<Event>> {
        let recent = self.recent();
        if after < recent.covered_from {
            return None;
        }
        let all = recent.chunks.iter().flat_map(|chunk| &chunk.events);
        let within = |event: &&Event| event.position > after && event.position <= up_to;
        Some(all.filter(within).cloned().collect())
    }

    /// Takes the stream's events of one look at the log, which reached `position`.
    pub(super) fn extend(
        self: &Arc<Self>,
        events: &[&TailEvent],
        position: Position,
    ) -> StreamSlice {
        let mut recent = self.recent();
        let mut chunk = Vec::new();
        let mut stream_slice = StreamSlice {
            topic: Arc::clone(self),
            chunk: None,
            unseen: None,
            notice: None,
            ending: None,
        };
        for event in events {
            match (event.control, &event.payload) {
                (Some(Control::Close), _) => {
                    recent.closed = true;
                    stream_slice.ending = Some(Ending::Closed);
                }
                (Some(Control::Delete | Control::Expire), _) => {
                    // What follows under this name belongs to another stream, and another topic.
                    recent.ended = true;
                    stream_slice.ending = Some(Ending::Gone);
                    break;
                }
                (Some(Control::Schema), what) => {
                    let notice = SchemaChange::new(event.position, what.as_deref());
                    stream_slice.notice = Some(Arc::new(notice));
                }
                (Some(Control::Create | Control::Subscription | Control::Mark), _) => {}
                (None, Some(payload)) => chunk.push(Event {
                    position: event.position,
                    append_id: event.position,
                    payload: payload.clone(),
                    row: event.row.clone(),
                }),
                (None, None) => {
                    // The log was read before anyone attended, so the payload was left there.
                    recent.forget_up_to(event.position);
                    chunk.clear();
                    stream_slice.unseen = Some(event.position);
                }
            }
        }
        let created_at_ms = events.first().map_or(0, |event| event.created_at_ms);
        stream_slice.chunk = recent.push(chunk, created_at_ms);
        recent.covered_to = position;
        drop(recent);
        self.version.send_modify(|version| *version += 1);
        stream_slice
    }
}

impl Recent {
    fn push(&mut self, events: Vec<Event>, created_at_ms: i64) -> Option<Arc<Chunk>> {
        if events.is_empty() {
            return None;
        }
        let chunk = Arc::new(Chunk::new(events, created_at_ms));
        self.bytes += chunk.bytes();
        self.events += chunk.events.len();
        if let Some(before) = self.chunks.back() {
            before.retire();
        }
        self.chunks.push_back(Arc::clone(&chunk));
        while self.chunks.len() > 1 && (self.bytes > BYTES_MAX || self.events > EVENTS_MAX) {
            if let Some(oldest) = self.chunks.pop_front() {
                self.bytes -= oldest.bytes();
                self.events -= oldest.events.len();
                self.covered_from = oldest.last();
            }
        }
        Some(chunk)
    }

    fn forget_up_to(&mut self, position: Position) {
        self.chunks.clear();
        self.bytes = 0;
        self.events = 0;
        self.covered_from = position;
    }
}
