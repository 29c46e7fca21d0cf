//! What is on its way from one stream to one circle of its followers.

use std::cell::OnceCell;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use tidewire_query::Effort;
use tidewire_store::{Epoch, Event, Position};

use super::audience::{Circle, Member};
use super::frames::{Dialect, Envelope};
use crate::hub::lens::{Opened, Tables};
use crate::hub::reader_frame::{Extent, Frame, Voice};
use crate::hub::tail::{Chunk, Ending, Glimpse, Notice, Topic};
use crate::wire::websocket::deflate::Deflater;

/// Payload bytes that one round takes along. What comes while a large audience is served goes out
/// with the next round, in one write for each follower; more than this would be too much for a
/// socket to take at once.
const ROUND_BYTES_MAX: usize = 128 << 10;

/// One round through a circle: chunks, and perhaps the stream's end after them.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) topic: Arc<Topic>,
    pub(super) circle: Circle,
    members: Arc<Vec<Member>>,
    /// `next <= members.len()`: those before it have been served.
    next: usize,
    pub(super) chunks: Vec<Arc<Chunk>>,
    /// `seen <= chunks.len()`: those before it are as the circle sees them.
    seen: usize,
    /// After the chunks the columns of the stream's table are others.
    pub(super) notice: Option<Arc<Notice>>,
    pub(super) ending: Option<Ending>,
    /// There is nothing else to serve in this turn: what a socket takes at once need not wait for
    /// company.
    pub(super) alone: bool,
    /// Events that went straight to their sockets.
    pub(super) straight: u64,
    /// The chunks as bytes, in each dialect that was needed so far.
    bytes: [Option<Bytes>; 4],
    /// The same for readers.
    frame: Option<Frame>,
}

impl Job {
    pub(super) fn new(glimpse: &Glimpse, circle: &Circle, members: &Arc<Vec<Member>>) -> Job {
        let Glimpse { topic, chunk, notice, ending, .. } = glimpse;
        Job {
            topic: Arc::clone(topic),
            circle: circle.clone(),
            members: Arc::clone(members),
            next: 0,
            chunks: chunk.clone().into_iter().collect(),
            seen: 0,
            notice: notice.clone(),
            ending: *ending,
            alone: false,
            straight: 0,
            bytes: [const { None }; 4],
            frame: None,
        }
    }

    /// The next so many followers.
    pub(super) fn take(&mut self, count: usize) -> (Arc<Vec<Member>>, std::ops::Range<usize>) {
        let end = self.members.len().min(self.next.saturating_add(count));
        let taken = self.next..end;
        self.next = end;
        (Arc::clone(&self.members), taken)
    }

    pub(super) fn is_done(&self) -> bool {
        self.next >= self.members.len()
    }

    /// Takes along what comes after it for the same circle, if it has not begun. Gives it back if it
    /// must be a round of its own.
    pub(super) fn absorb(&mut self, later: Job) -> Option<Job> {
        let bytes = |job: &Job| job.chunks.iter().map(|chunk| chunk.bytes()).sum::<usize>();
        let fits = self.next == 0
            && self.ending.is_none()
            && self.notice.is_none()
            && self.circle == later.circle
            && bytes(self) + bytes(&later) <= ROUND_BYTES_MAX;
        if !fits {
            return Some(later);
        }
        self.chunks.extend(later.chunks);
        self.notice = later.notice;
        self.ending = later.ending;
        // One who came since the earlier chunk may need the later one; one who left is not found.
        self.members = later.members;
        None
    }

    /// Whether it has yet to be found out what the circle sees.
    pub(super) fn is_unseen(&self) -> bool {
        self.circle.view().is_some() && self.seen < self.chunks.len()
    }

    /// Puts what the circle sees in place of all that happened. False if that cannot be said without
    /// another look at the table, so that whoever is in the circle has to read the store.
    pub(super) fn look(&mut self, tables: &Tables, epoch: Epoch) -> bool {
        let unseen = self.seen..self.chunks.len();
        let Some(view) = self.circle.view().filter(|_| !unseen.is_empty()) else { return true };
        let Some(lens) = tables.current(view) else { return false };
        for chunk in &mut self.chunks[unseen] {
            let Ok(seen) =
                chunk.seen_through(view, || lens.sift(&chunk.events, epoch, Effort::Shared))
            else {
                return false;
            };
            *chunk = seen;
            self.seen += 1;
        }
        true
    }

    /// The same for several at once, which look at the same events: those are read once.
    pub(super) fn look_together<'j>(
        jobs: impl Iterator<Item = &'j mut Job>,
        tables: &Tables,
        epoch: Epoch,
    ) {
        let mut jobs = jobs.filter(|job| job.seen == 0 && job.chunks.len() == 1).peekable();
        let Some(chunk) = jobs.peek().map(|job| Arc::clone(&job.chunks[0])) else { return };
        let opened = OnceCell::new();
        for job in jobs.filter(|job| Arc::ptr_eq(&job.chunks[0], &chunk)) {
            let Some(view) = job.circle.view() else { continue };
            let Some(lens) = tables.current(view) else { continue };
            let see = || {
                let opened = opened.get_or_init(|| Opened::all(&chunk.events));
                lens.see_all(opened, epoch, Effort::Shared)
            };
            // In doubt the lens is not current any more, and the job is found to be unseen.
            if let Ok(seen) = chunk.seen_through(view, see) {
                job.chunks[0] = seen;
                job.seen = 1;
            }
        }
    }

    /// The first event.
    pub(super) fn first(&self) -> Position {
        self.chunks.first().map_or(Position::START, |chunk| chunk.first())
    }

    /// The last event.
    pub(super) fn last(&self) -> Position {
        self.chunks.last().map_or(Position::START, |chunk| chunk.last())
    }

    /// When the first event was appended.
    pub(super) fn created_at_ms(&self) -> i64 {
        self.chunks.first().map_or(0, |chunk| chunk.created_at_ms)
    }

    pub(super) fn event_count(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.events.len()).sum()
    }

    /// The events after a position.
    pub(super) fn events_after(&self, position: Position) -> Vec<Event> {
        let all = self.chunks.iter().flat_map(|chunk| &chunk.events);
        all.filter(|event| event.position > position).cloned().collect()
    }

    /// All events as messages, made once.
    pub(super) fn bytes(
        &mut self,
        dialect: Dialect,
        envelope: &Envelope,
        deflater: &mut Option<Deflater>,
    ) -> Bytes {
        let Circle::Named(query_id, _) = &self.circle else { return Bytes::new() };
        let chunks = &self.chunks;
        let encode = || {
            let mut each =
                chunks.iter().map(|c| envelope.encode_shared(dialect, query_id, c, deflater));
            match (chunks.len(), each.next()) {
                (1, Some(only)) => only,
                (_, first) => {
                    let mut all = BytesMut::new();
                    first.into_iter().chain(each).for_each(|bytes| all.extend_from_slice(&bytes));
                    all.freeze()
                }
            }
        };
        self.bytes[dialect as usize].get_or_insert_with(encode).clone()
    }

    /// All events as readers get them, made once.
    pub(super) fn frame(&mut self, voice: Voice, now_ms: i64) -> Frame {
        let (voice, extent, last) = (voice.common(), self.extent(), self.last());
        let chunks = &self.chunks;
        let encode = || match &chunks[..] {
            [only] if extent == Extent::UpToDate && !only.events.is_empty() => {
                only.frame.get_or_init(|| voice.frame(&only.events, last, extent, now_ms)).clone()
            }
            _ => {
                let all = chunks.iter().flat_map(|chunk| &chunk.events);
                let all: Vec<Event> = all.cloned().collect();
                voice.frame(&all, last, extent, now_ms)
            }
        };
        self.frame.get_or_insert_with(encode).clone()
    }

    /// How far it brings a reader who is live.
    pub(super) fn extent(&self) -> Extent {
        match self.ending {
            Some(Ending::Closed) => Extent::Closed,
            _ => Extent::UpToDate,
        }
    }
}
