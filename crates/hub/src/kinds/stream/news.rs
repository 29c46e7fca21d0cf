//! What happened to a stream, on its way to those of its followers who get the same bytes.

use std::cell::OnceCell;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use tidewire_query::Effort;
use tidewire_store::{Epoch, Event, Position};

use crate::audience::EncodingGroup;
use crate::forms::Forms;
use crate::frames::{Dialect, Envelope};
use crate::reader_frame::{Extent, Frame, ReaderFormat};
use crate::round::ROUND_BYTES_MAX;
use crate::row_filter::{Opened, Tables};
use crate::tail::{Chunk, Ending, SchemaChange, StreamSlice, Topic};
use tidewire_wire::websocket::deflate::Deflater;

/// Chunks of a stream, and perhaps its end after them.
#[derive(Debug)]
pub struct StreamNews {
    pub topic: Arc<Topic>,
    pub(crate) encoding_group: EncodingGroup,
    pub chunks: Vec<Arc<Chunk>>,
    /// `seen <= chunks.len()`: those before it are as the group sees them.
    seen: usize,
    /// What the group sees cannot be said without another look at the table.
    pub in_doubt: bool,
    /// After the chunks the columns of the stream's table are others.
    pub(super) notice: Option<Arc<SchemaChange>>,
    pub(super) ending: Option<Ending>,
    /// The chunks as bytes, in each dialect that was needed so far.
    bytes: Forms,
    /// The same for readers.
    frame: Option<Frame>,
}

impl StreamNews {
    pub(crate) fn new(stream_slice: &StreamSlice, encoding_group: &EncodingGroup) -> StreamNews {
        let StreamSlice { topic, chunk, notice, ending, .. } = stream_slice;
        StreamNews {
            topic: Arc::clone(topic),
            encoding_group: encoding_group.clone(),
            chunks: chunk.clone().into_iter().collect(),
            seen: 0,
            in_doubt: false,
            notice: notice.clone(),
            ending: *ending,
            bytes: Forms::default(),
            frame: None,
        }
    }

    /// Takes along what comes after it for the same group. Gives it back if it must be a round of its
    /// own.
    pub(crate) fn absorb(&mut self, later: Box<StreamNews>) -> Result<(), Box<StreamNews>> {
        let bytes =
            |news: &StreamNews| news.chunks.iter().map(|chunk| chunk.bytes()).sum::<usize>();
        let fits = self.ending.is_none()
            && self.notice.is_none()
            && self.encoding_group == later.encoding_group
            && bytes(self) + bytes(&later) <= ROUND_BYTES_MAX;
        if !fits {
            return Err(later);
        }
        self.chunks.extend(later.chunks);
        self.notice = later.notice;
        self.ending = later.ending;
        Ok(())
    }

    /// Whether it has yet to be found out what the group sees.
    pub(crate) fn is_unseen(&self) -> bool {
        self.encoding_group.view().is_some() && self.seen < self.chunks.len()
    }

    /// Puts what the group sees in place of all that happened. False if that cannot be said without
    /// another look at the table, so that whoever is in the group has to read the store.
    pub(crate) fn look(&mut self, tables: &Tables, epoch: Epoch) -> bool {
        let unseen = self.seen..self.chunks.len();
        let Some(view) = self.encoding_group.view().filter(|_| !unseen.is_empty()) else {
            return true;
        };
        let Some(row_filter) = tables.current(view) else { return false };
        for chunk in &mut self.chunks[unseen] {
            let Ok(seen) =
                chunk.seen_through(view, || row_filter.sift(&chunk.events, epoch, Effort::Shared))
            else {
                return false;
            };
            *chunk = seen;
            self.seen += 1;
        }
        true
    }

    /// The same for several at once, which look at the same events: those are read once.
    pub(crate) fn look_together<'n>(
        several: impl Iterator<Item = &'n mut StreamNews>,
        tables: &Tables,
        epoch: Epoch,
    ) {
        let is_unseen = |news: &&'n mut StreamNews| news.seen == 0 && news.chunks.len() == 1;
        let mut several = several.filter(is_unseen).peekable();
        let Some(chunk) = several.peek().map(|news| Arc::clone(&news.chunks[0])) else { return };
        let opened = OnceCell::new();
        for news in several.filter(|news| Arc::ptr_eq(&news.chunks[0], &chunk)) {
            let Some(view) = news.encoding_group.view() else { continue };
            let Some(row_filter) = tables.current(view) else { continue };
            let see = || {
                let opened = opened.get_or_init(|| Opened::all(&chunk.events));
                row_filter.see_all(opened, epoch, Effort::Shared)
            };
            // In doubt the row filter is not current any more, and the news is found to be unseen.
            if let Ok(seen) = chunk.seen_through(view, see) {
                news.chunks[0] = seen;
                news.seen = 1;
            }
        }
    }

    /// The first event.
    pub(crate) fn first(&self) -> Position {
        self.chunks.first().map_or(Position::START, |chunk| chunk.first())
    }

    /// The last event.
    pub(crate) fn last(&self) -> Position {
        self.chunks.last().map_or(Position::START, |chunk| chunk.last())
    }

    /// When the first event was appended.
    pub(crate) fn created_at_ms(&self) -> i64 {
        self.chunks.first().map_or(0, |chunk| chunk.created_at_ms)
    }

    pub(crate) fn event_count(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.events.len()).sum()
    }

    /// The events after a position.
    pub(crate) fn events_after(&self, position: Position) -> Vec<Event> {
        let all = self.chunks.iter().flat_map(|chunk| &chunk.events);
        all.filter(|event| event.position > position).cloned().collect()
    }

    /// All events as messages, made once.
    pub(crate) fn bytes(
        &mut self,
        dialect: Dialect,
        envelope: &Envelope,
        deflater: &mut Option<Deflater>,
    ) -> Bytes {
        let EncodingGroup::Named(query_id, _) = &self.encoding_group else { return Bytes::new() };
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
        self.bytes.of(dialect, encode)
    }

    /// All events as readers get them, made once.
    pub(crate) fn frame(&mut self, reader_format: ReaderFormat, now_ms: i64) -> Frame {
        let (reader_format, extent, last) = (reader_format.common(), self.extent(), self.last());
        let chunks = &self.chunks;
        let encode = || match &chunks[..] {
            [only] if extent == Extent::UpToDate && !only.events.is_empty() => only
                .frame
                .get_or_init(|| reader_format.frame(&only.events, last, extent, now_ms))
                .clone(),
            _ => {
                let all = chunks.iter().flat_map(|chunk| &chunk.events);
                let all: Vec<Event> = all.cloned().collect();
                reader_format.frame(&all, last, extent, now_ms)
            }
        };
        self.frame.get_or_insert_with(encode).clone()
    }

    /// How far it brings a reader who is live.
    pub(crate) fn extent(&self) -> Extent {
        match self.ending {
            Some(Ending::Closed) => Extent::Closed,
            _ => Extent::UpToDate,
        }
    }
}
