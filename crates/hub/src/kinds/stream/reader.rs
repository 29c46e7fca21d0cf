//! Readers: responses that follow one stream, by `live=sse`.
//!
//! ```text
//!            the socket is full                     memory does not reach back
//!   live ──────────────────────────► behind ─────────────────────────────────► reading
//!     ▲                               │  ▲                                        │
//!     └───── has all there is ────────┘  └──── a page of the store was queued ────┘
//! ```
//!
//! A reader that is live gets each round's frame, which all readers of the stream share, straight to
//! its socket. One whose socket is full gets nothing more: no frame is kept for it, so it costs no
//! more than the frame that is half out. When the socket has taken that, the reader gets on from
//! where it is, a piece at a time, out of what the tail remembers of the stream, or else out of the
//! store, and is live again when it has all there is.
//!
//! What must hold: `position` is a place up to which the reader was given all of the stream. Whoever
//! goes live was given all that the tail remembers, which is at least what this shard has seen; so
//! what the shard sees next, less what lies up to `position`, is exactly what is missing.

use std::sync::Arc;
use std::time::Duration;

use rand::Rng as _;

use tidewire_store::{Page, PageLimit, Position};

use crate::Hub;
use crate::audience::{EncodingGroup, Follower};
use crate::connection::{Connection, Key};
use crate::connection_info::ConnectionInfo;
use crate::kinds::stream::news::StreamNews;
use crate::log_feed::replay::{read_page, renew_every, see_page};
use crate::lookup::Reach;
use crate::outbox::{OutboxItem, Slot};
use crate::reader_frame::{Extent, Frame, ReaderFormat};
use crate::round::Serving;
use crate::row_filter::{RowFilter, SliceVisibility, View};
use crate::shard::{Shard, ms};
use crate::stats::add;
use crate::tail::{Ending, SchemaChange, TopicGuard};
use crate::transport::Transport;
use crate::{Command, Handle, KindCommand};
use tidewire_access::problem::Problem;
use tidewire_wire::clock::now_ms;

/// What a reader is given of the store at a time: what a slow one holds of the server's memory.
pub const PASSAGE_LIMIT: PageLimit = PageLimit { events: 2_000, bytes: 256 << 10 };

/// Payload bytes that a reader is given at a time of what the tail remembers.
const PIECE_BYTES: usize = 64 << 10;

/// A comment is sent when nothing else was for so long, so that proxies keep the connection.
const KEEP_ALIVE_MS: u64 = 15_000;

/// When the server goes away, readers come back after this plus as much again at random.
const RECONNECT_BASE_MS: u64 = 500;

/// A reader that comes, with the first page it is to get.
#[derive(Debug)]
pub struct Arrival {
    connection_info: Arc<ConnectionInfo>,
    topic_guard: TopicGuard,
    reach: Reach,
    view: Option<View>,
    reader_format: ReaderFormat,
    created: Position,
    first: StreamPage,
    renew_every: Option<Duration>,
}

impl Arrival {
    /// A reader of what lies after a position. The topic guard must be older than the page, which is as
    /// the reader sees it.
    pub fn new(
        connection_info: Arc<ConnectionInfo>,
        topic_guard: TopicGuard,
        reach: Reach,
        (view, row_filter): (Option<View>, Option<Arc<RowFilter>>),
        page: &Page,
        after: Position,
        reader_format: ReaderFormat,
    ) -> Arrival {
        let place = ReaderPosition { position: after, offset: after };
        let state = &page.view.state;
        Arrival {
            connection_info,
            topic_guard,
            reach,
            view,
            reader_format,
            created: state.created,
            first: StreamPage::of(page, row_filter, place, reader_format),
            renew_every: renew_every(state),
        }
    }
}

/// How far a reader has got.
#[derive(Debug, Clone, Copy)]
struct ReaderPosition {
    /// It was given all of the stream up to here. `offset <= position`.
    position: Position,
    /// The last offset that it was told.
    offset: Position,
}

/// A page of the store as a reader gets it.
#[derive(Debug)]
pub struct StreamPage {
    /// A `control` event at least.
    frame: Frame,
    events: usize,
    reached: ReaderPosition,
    closed: bool,
    created: Position,
    /// What it was seen through.
    row_filter: Option<Arc<RowFilter>>,
}

impl StreamPage {
    fn of(
        page: &Page,
        row_filter: Option<Arc<RowFilter>>,
        place: ReaderPosition,
        reader_format: ReaderFormat,
    ) -> StreamPage {
        let state = &page.view.state;
        let offset = page.next(place.offset);
        let closed = page.up_to_date() && state.closed.is_some();
        let reach = match page.up_to_date() {
            true if closed => Extent::Closed,
            true => Extent::UpToDate,
            false => Extent::Partly,
        };
        StreamPage {
            frame: reader_format.frame(&page.events, offset, reach, now_ms()),
            events: page.events.len(),
            reached: ReaderPosition {
                position: place.position.max(page.scanned_to).max(offset),
                offset,
            },
            closed,
            created: state.created,
            row_filter,
        }
    }
}

/// What a reader is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// It gets what happens.
    Live,
    /// It lacks something, and gets on when its socket takes more.
    Behind,
    /// A page of the store is being read for it, or waits for its socket.
    Reading,
}

/// A reader.
#[derive(Debug)]
pub struct Reader {
    stream: Arc<str>,
    /// Whose streams it can reach.
    reach: Reach,
    /// What it sees of a table, if not all, and through what.
    view: Option<View>,
    row_filter: Option<Arc<RowFilter>>,
    /// Which stream of this name it reads.
    created: Position,
    reader_format: ReaderFormat,
    place: ReaderPosition,
    progress: Progress,
    ends_at_ms: u64,
}

impl Reader {
    pub fn stream(&self) -> &Arc<str> {
        &self.stream
    }

    /// Its place in an audience.
    pub(crate) fn membership(&self, key: Key) -> (&Arc<str>, EncodingGroup, Follower) {
        let encoding_group = EncodingGroup::Readers(self.view.clone());
        (&self.stream, encoding_group, Follower { key, slot: Slot::OF_READER })
    }

    /// When it is to be looked after, if nothing is sent to it after this.
    fn next_care_ms(&self, now_ms: u64) -> u64 {
        (now_ms + KEEP_ALIVE_MS).min(self.ends_at_ms)
    }
}

impl Connection {
    /// Whether it is a reader that is to be given more, now that all it was given is out.
    pub(crate) fn is_hungry(&self) -> bool {
        !self.closing && self.reader.as_ref().is_some_and(|r| r.progress == Progress::Behind)
    }

    /// Sends a reader something, which waits until the end of the turn.
    fn give(&mut self, frame: &Frame, item: OutboxItem, now_ms: u64) {
        let bytes = frame.bytes(self.dialect());
        if let Some(reader) = &self.reader {
            self.next_ping_ms = reader.next_care_ms(now_ms);
        }
        self.queue(bytes, item, now_ms);
    }

    /// Sends a reader something at once, if nothing waits before it. Returns whether all is out.
    fn give_straight(&mut self, frame: &Frame, item: OutboxItem, now_ms: u64) -> bool {
        if !self.is_idle() {
            self.give(frame, item, now_ms);
            return false;
        }
        if let Some(reader) = &self.reader {
            self.next_ping_ms = reader.next_care_ms(now_ms);
        }
        self.send_straight(frame.bytes(self.dialect()), item, now_ms)
    }
}

impl Shard {
    /// Lets a reader in.
    pub(crate) fn admit_reader(&mut self, transport: Transport, arrival: Arrival) -> Key {
        let key = self.attach(transport, arrival.connection_info, true);
        let sse_ms = ms(self.hub.options.streams.sse_duration);
        let (now_ms, stream) = (self.now_ms, Arc::clone(arrival.topic_guard.stream()));
        let Some(connection) = self.connection(key) else { return key };
        let Arrival {
            reach, view, reader_format, created, first, renew_every, topic_guard, ..
        } = arrival;
        let encoding_group = EncodingGroup::Readers(view.clone());
        connection.reader = Some(Reader {
            stream: Arc::clone(&stream),
            reach,
            view,
            row_filter: None,
            created,
            reader_format,
            place: first.reached,
            progress: Progress::Reading,
            ends_at_ms: now_ms.saturating_add(sse_ms),
        });
        self.enter(&stream, encoding_group, Follower { key, slot: Slot::OF_READER });
        // Until here, so that what the tail remembers since then is not forgotten.
        drop(topic_guard);
        self.renew_every(&stream, renew_every);
        self.take_passage(key, &first);
        if self.hub.draining.is_cancelled() {
            self.dismiss(key);
        }
        key
    }

    /// Takes a page of the store that was read for a reader.
    pub(crate) fn read_on(&mut self, key: Key, read: Result<Box<StreamPage>, Problem>) {
        let Some(connection) = self.connection(key) else { return };
        let Some(reader) = &mut connection.reader else { return };
        match read {
            Ok(stream_page) if stream_page.created != reader.created => {
                self.end_reader(key, &Frame::default());
            }
            Ok(stream_page) if stream_page.events == 0 && !stream_page.closed => {
                reader.progress = Progress::Behind;
                reader.place = stream_page.reached;
                reader.row_filter = stream_page.row_filter;
                self.touch(key.index);
            }
            Ok(stream_page) => self.take_passage(key, &stream_page),
            Err(problem) => {
                // The client comes back with its offset and is told properly.
                tracing::debug!(code = problem.code(), stream = &*reader.stream, "sse ended");
                self.end_reader(key, &Frame::default());
            }
        }
    }

    fn take_passage(&mut self, key: Key, stream_page: &StreamPage) {
        let now_ms = self.now_ms;
        let Some(connection) = self.connection(key) else { return };
        let Some(reader) = &mut connection.reader else { return };
        reader.progress = Progress::Behind;
        reader.place = stream_page.reached;
        reader.row_filter.clone_from(&stream_page.row_filter);
        if stream_page.closed {
            return self.end_reader(key, &stream_page.frame);
        }
        connection.give(&stream_page.frame, OutboxItem::Replayed, now_ms);
        add(&self.stats.replayed_events, stream_page.events as u64);
        self.touch(key.index);
    }

    /// Gives a round's events to a reader that is live, unless it has them.
    pub(crate) fn deliver_to_reader(
        &mut self,
        key: Key,
        news: &mut StreamNews,
        serving: &mut Serving,
    ) {
        let (now_ms, wall_ms) = (self.now_ms, self.wall_ms);
        let Some(connection) = self.connection(key) else { return };
        if news.ending == Some(Ending::Gone) {
            return self.end_reader(key, &Frame::default());
        }
        if connection.closing {
            return;
        }
        let blocked = connection.blocked;
        let Some(reader) = &mut connection.reader else { return };
        let (ReaderPosition { position, offset }, last) = (reader.place, news.last());
        let closes = news.ending.is_some();
        if reader.progress != Progress::Live || (position >= last && !closes) {
            return;
        }
        if blocked {
            reader.progress = Progress::Behind;
            return;
        }
        if news.event_count() == 0 && !closes {
            // There was nothing that it sees.
            reader.place.position = last;
            return;
        }
        let common = (position < news.first()).then(|| news.frame(reader.reader_format, wall_ms));
        let frame = match common.filter(|common| reader.reader_format.takes(common)) {
            Some(common) => common,
            None => {
                let rest = news.events_after(position);
                reader.reader_format.frame(&rest, offset.max(last), news.extent(), wall_ms)
            }
        };
        if closes {
            return self.end_reader(key, &frame);
        }
        reader.place = ReaderPosition { position: last, offset: last };
        let events = news.event_count();
        let item =
            OutboxItem::live(Slot::OF_READER, (position, last), events, news.created_at_ms());
        if !serving.alone {
            connection.give(&frame, item, now_ms);
        } else if connection.give_straight(&frame, item, now_ms) {
            serving.created_at_ms = news.created_at_ms();
            serving.straight += events as u64;
            return;
        }
        self.touch(key.index);
    }

    /// Mentions to a reader that is live that the columns of its table changed. Its protocol has no word
    /// for that, so it is a comment.
    pub(crate) fn mention(&mut self, key: Key, notice: &SchemaChange) {
        let (now_ms, offset) = (self.now_ms, self.hub.offset(notice.position));
        let Some(connection) = self.connection(key).filter(|c| !c.closing && !c.blocked) else {
            return;
        };
        if connection.reader.as_ref().is_some_and(|reader| reader.progress == Progress::Live) {
            // A line break would end the comment.
            let view = connection.reader.as_ref().and_then(|reader| reader.view.as_ref());
            let what = notice.told_to(view).replace(['\n', '\r'], " ");
            let comment = Frame::of(&format!(": schema_changed {offset} {what}\n\n"));
            connection.give(&comment, OutboxItem::Message, now_ms);
            self.touch(key.index);
        }
    }

    /// Gives a reader that is behind what the tail remembers, or has the store read for it.
    pub(crate) fn catch_up(&mut self, key: Key) {
        let (now_ms, wall_ms) = (self.now_ms, self.wall_ms);
        let connection = self.connections.get_mut(key.index).filter(|c| c.serial == key.serial);
        let Some(connection) = connection.filter(|c| c.is_hungry() && c.is_idle()) else { return };
        let Some(reader) = &mut connection.reader else { return };
        let Some(audience) = self.audiences.get(&reader.stream) else { return };
        let topic = audience.topic_guard.topic();
        let ReaderPosition { position, offset } = reader.place;
        let look = topic.look(position, PIECE_BYTES).0;
        let (events, last, are_all) = match look.seen(&self.hub, reader.view.as_ref(), position) {
            SliceVisibility::Events { events, last, are_all } => (events, last, are_all),
            SliceVisibility::Nothing => {
                reader.progress = Progress::Live;
                return;
            }
            SliceVisibility::Closed => {
                let frame = reader.reader_format.frame(&[], offset, Extent::Closed, wall_ms);
                return self.end_reader(key, &frame);
            }
            SliceVisibility::Ended => return self.end_reader(key, &Frame::default()),
            SliceVisibility::Behind => {
                reader.progress = Progress::Reading;
                add(&self.stats.replays, 1);
                let (hub, shard) = (Arc::clone(&self.hub), self.handle.clone());
                let wanted = PageRequest {
                    stream: Arc::clone(&reader.stream),
                    reach: reader.reach.clone(),
                    view: reader.view.clone(),
                    place: reader.place,
                    reader_format: reader.reader_format,
                };
                let task = read_store(hub, shard, key, wanted);
                self.hub.tasks.spawn(task);
                return;
            }
        };
        if events.is_empty() {
            reader.place.position = last;
            self.touch(key.index);
            return;
        }
        reader.place = ReaderPosition { position: last, offset: last };
        let reach = match are_all {
            true if topic.closes_at(last) => Extent::Closed,
            true => Extent::UpToDate,
            false => Extent::Partly,
        };
        let frame = reader.reader_format.frame(&events, last, reach, wall_ms);
        if reach == Extent::Closed {
            return self.end_reader(key, &frame);
        }
        if are_all {
            reader.progress = Progress::Live;
        }
        connection.give(&frame, OutboxItem::Replayed, now_ms);
        add(&self.stats.replayed_events, events.len() as u64);
        self.touch(key.index);
    }

    /// Sends a reader back to what is remembered or stored, if it lacks an event there.
    pub(crate) fn send_back(&mut self, key: Key, unseen: Position) {
        let Some(connection) = self.connection(key) else { return };
        let Some(reader) = &mut connection.reader else { return };
        if reader.progress == Progress::Live && reader.place.position < unseen {
            reader.progress = Progress::Behind;
            self.touch(key.index);
        }
    }

    /// Sends a reader that is live back to the store, because what it sees of its table has to be found
    /// out anew.
    pub(crate) fn send_to_store(&mut self, key: Key) {
        self.send_back(key, Position::new(u64::MAX));
    }

    /// Sends a reader the last there is to be.
    pub(crate) fn end_reader(&mut self, key: Key, last: &Frame) {
        let now_ms = self.now_ms;
        if let Some(connection) = self.connection(key) {
            connection.give(last, OutboxItem::Last, now_ms);
            connection.closing = true;
            self.touch(key.index);
        }
    }

    /// Tells a reader that the server goes away, and when to come back.
    pub(crate) fn dismiss(&mut self, key: Key) {
        let wait_ms = RECONNECT_BASE_MS + rand::rng().random_range(0..=RECONNECT_BASE_MS);
        let retry = format!("retry: {wait_ms}\n: the server is going away\n\n");
        self.end_reader(key, &Frame::of(&retry));
    }

    /// What time brings to a reader: its end, or a comment.
    pub(crate) fn care_for_reader(&mut self, key: Key) {
        let now_ms = self.now_ms;
        let Some(connection) = self.connection(key) else { return };
        let Some(reader) = &connection.reader else { return };
        if now_ms >= reader.ends_at_ms {
            connection.next_ping_ms = u64::MAX;
            return self.end_reader(key, &Frame::of(": come back with your offset\n\n"));
        }
        connection.next_ping_ms = reader.next_care_ms(now_ms);
        if connection.is_idle() {
            connection.queue(connection.dialect().ping(), OutboxItem::Ping, now_ms);
            self.touch(key.index);
        }
    }
}

/// What of the store is read for a reader.
struct PageRequest {
    stream: Arc<str>,
    reach: Reach,
    view: Option<View>,
    place: ReaderPosition,
    reader_format: ReaderFormat,
}

/// Reads a page of the store for a reader.
async fn read_store(hub: Arc<Hub>, shard: Handle, key: Key, wanted: PageRequest) {
    let PageRequest { stream, reach, view, place, reader_format } = wanted;
    let read = async {
        let limit = PASSAGE_LIMIT;
        let mut page = read_page(&hub, &stream, &reach, place.position, limit).await?;
        let row_filter = see_page(&hub, view.as_ref(), &mut page).await?;
        Ok(Box::new(StreamPage::of(&page, row_filter, place, reader_format)))
    };
    let read = tokio::select! {
        read = read => read,
        () = hub.draining.cancelled() => return,
    };
    shard.ask(Command::OfKind(KindCommand::Read { key, read })).await;
}
