//! One stream's newest events in memory, for the readers that wait for it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use tokio::sync::watch;

use tidewire_store::{Control, Event, Position, TailEvent};

/// Events kept for readers that are a little behind. One that is further behind reads the store.
const EVENTS_MAX: usize = 512;
/// Payload bytes kept likewise.
const BYTES_MAX: usize = 1 << 20;

/// The stream's events of one look at the log.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) events: Vec<Event>,
    bytes: usize,
    /// The chunk as an SSE frame, made by the first reader that needs it and shared by all.
    pub(crate) sse: OnceLock<Bytes>,
}

/// What a reader at some position finds.
#[derive(Debug)]
pub(crate) enum Look {
    /// The reader is further behind than memory reaches: read the store.
    Behind,
    /// Exactly the newest chunk: what everyone who is up to date gets.
    Newest(Arc<Chunk>),
    /// Several chunks, or part of one: for a reader that is a little behind.
    Events(Vec<Event>),
    /// Nothing yet.
    Nothing,
    /// Nothing more will come: the stream is closed and ends here.
    Closed,
    /// The stream is gone.
    Ended,
}

/// A stream that readers of this node wait for.
#[derive(Debug)]
pub(crate) struct Topic {
    stream: String,
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
            stream: stream.to_owned(),
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

    pub(crate) fn stream(&self) -> &str {
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
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// What there is after `cursor`, and up to which position that is all there is.
    pub(crate) fn look(&self, cursor: Position) -> (Look, Position) {
        let recent = self.recent();
        let covered_to = recent.covered_to.max(cursor);
        if recent.ended {
            return (Look::Ended, covered_to);
        }
        if cursor < recent.covered_from {
            return (Look::Behind, cursor);
        }
        let mut newer = recent
            .chunks
            .iter()
            .rev()
            .take_while(|chunk| chunk.events.last().is_some_and(|last| last.position > cursor));
        let look = match (newer.next(), newer.next()) {
            (None, _) if recent.closed => Look::Closed,
            (None, _) => Look::Nothing,
            (Some(newest), None) if newest.events.first().is_some_and(|e| e.position > cursor) => {
                Look::Newest(Arc::clone(newest))
            }
            _ => {
                let all = recent.chunks.iter().flat_map(|chunk| &chunk.events);
                Look::Events(all.filter(|event| event.position > cursor).cloned().collect())
            }
        };
        (look, covered_to)
    }

    /// Whether the stream was closed while this topic watched.
    pub(crate) fn closed(&self) -> bool {
        self.recent().closed
    }

    /// Takes the stream's events of one look at the log, which reached `position`. Returns whether
    /// the stream is gone.
    pub(super) fn extend(&self, events: &[&TailEvent], position: Position) -> bool {
        let mut recent = self.recent();
        let mut chunk = Vec::new();
        for event in events {
            match (event.control, &event.payload) {
                (Some(Control::Close), _) => recent.closed = true,
                (Some(Control::Delete | Control::Expire), _) => {
                    // What follows under this name belongs to another stream, and another topic.
                    recent.ended = true;
                    break;
                }
                (Some(Control::Create | Control::Subscription), _) => {}
                (None, Some(payload)) => chunk.push(Event {
                    position: event.position,
                    append_id: event.position,
                    payload: payload.clone(),
                }),
                (None, None) => {
                    // The log was read before anyone attended, so the payload was left there.
                    recent.forget_up_to(event.position);
                    chunk.clear();
                }
            }
        }
        recent.push(chunk);
        recent.covered_to = position;
        let ended = recent.ended;
        drop(recent);
        self.version.send_modify(|version| *version += 1);
        ended
    }
}

impl Recent {
    fn push(&mut self, events: Vec<Event>) {
        if events.is_empty() {
            return;
        }
        let bytes = events.iter().map(|event| event.payload.len()).sum();
        self.bytes += bytes;
        self.events += events.len();
        self.chunks.push_back(Arc::new(Chunk { events, bytes, sse: OnceLock::new() }));
        while self.chunks.len() > 1 && (self.bytes > BYTES_MAX || self.events > EVENTS_MAX) {
            if let Some(oldest) = self.chunks.pop_front() {
                self.bytes -= oldest.bytes;
                self.events -= oldest.events.len();
                if let Some(last) = oldest.events.last() {
                    self.covered_from = last.position;
                }
            }
        }
    }

    fn forget_up_to(&mut self, position: Position) {
        self.chunks.clear();
        self.bytes = 0;
        self.events = 0;
        self.covered_from = position;
    }
}
