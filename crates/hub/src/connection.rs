//! One client: where it is reached, what it follows, and what waits for it.
//!
//! A reader (`kinds::stream::reader`) is a connection too, with its transport and its outbox, and a member of its
//! stream's audience. It has no subscription: its response *is* the stream. There is nobody to whom to say that
//! something began, ended or was lost, no name, no gap, and no message but the stream's own; it is closed where a
//! subscription ends, and a comment where others are pinged. As a kind it would answer most of what kinds are asked
//! with nothing, so the few places where the hub treats a connection as a whole ask whether it is a reader instead.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::sync::oneshot;

use tidewire_store::{Offset, Position};

use super::connection_info::ConnectionInfo;
use super::frames::{Dialect, put as encode};
use super::outbox::{Outbox, OutboxItem, QueuedItem, Slot};
use super::transport::Transport;
use crate::kinds::stream::reader::Reader;
use crate::kinds::{About, Kind, Subject};
use crate::log_feed::Feed;
use crate::log_feed::replay::ReplayDecision;
use crate::log_feed::unsorted::Delivery;
use tidewire_wire::websocket::deflate::Deflater;

/// A connection of a shard: its place, and which of those that have had the place it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    pub(super) index: usize,
    pub(super) serial: u64,
}

/// Where a subscription begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartFrom {
    After(Position),
    Now,
}

/// What ties a subscription to a session's pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLink {
    pub epoch: u64,
    /// The store knows already from where on it was live.
    pub went_live: bool,
}

/// What a session follows and a connection of it does not, because it may not or could not: its name, and
/// the stream.
pub type MissingStreams = (Arc<str>, Arc<str>);

/// A subscription.
#[derive(Debug)]
pub struct Subscription {
    pub(super) serial: u32,
    pub(super) query_id: Arc<str>,
    pub(super) link: Option<SessionLink>,
    /// Its `subscription_created` has been sent.
    pub(super) announced: bool,
    /// It took the place of an earlier one of its name.
    pub(super) renewed: bool,
    /// Everything up to here was queued, or is told as a gap. Meaningful once it was announced.
    pub(super) sent: Position,
    /// Parcels of it that wait.
    pub(super) waiting: u32,
    pub(super) kind: Kind,
}

impl Subscription {
    /// What it is of, and what that may know of the rest.
    pub(super) fn split(&mut self) -> (About<'_>, &mut dyn Subject) {
        let Subscription { query_id, announced, sent, waiting, kind, .. } = self;
        (About { query_id, announced: *announced, sent, waiting }, kind.subject_mut())
    }
}

/// A client.
#[derive(Debug)]
pub struct Connection {
    pub(super) serial: u64,
    pub(super) connection_info: Arc<ConnectionInfo>,
    pub(super) session: Option<Arc<str>>,
    pub(super) unread: Vec<MissingStreams>,
    /// What its client unsubscribed from and its session may be said to follow still, by someone who looked
    /// before that: the names, and the epochs of their subscriptions.
    pub(super) left: Vec<(Arc<str>, u64)>,
    pub(super) transport: Transport,
    pub(super) outbox: Outbox,
    /// Set if it is a reader of one stream, which has no subscriptions.
    pub(super) reader: Option<Reader>,
    pub(super) subscriptions: Vec<Option<Subscription>>,
    next_serial: u32,
    pub(super) next_replay: u32,
    /// Subscriptions that go on, one after the other, when the client has taken what waits for it.
    pub(super) postponed: VecDeque<Slot>,
    /// Waits for the socket.
    pub(super) blocked: bool,
    /// In the shard's list of those to flush.
    pub(super) dirty: bool,
    /// Is to be closed when its outbox is empty; gets nothing more.
    pub(super) closing: bool,
    /// When the socket last took something it had refused before.
    pub(super) progress_ms: u64,
    pub(super) next_ping_ms: u64,
    /// The last `progress` it was told.
    pub(super) told: Position,
    /// Replays that go on when the outbox is empty.
    pub(super) draining: Vec<oneshot::Sender<ReplayDecision>>,
    /// Bytes of answers that wait, as the socket knows them.
    owed_bytes: usize,
    /// SSE only: the furthest place that was sent, or that the client came with.
    pub(super) furthest: Position,
    /// SSE only: what this look at the log brought, to be put into the log's order before it is sent.
    pub(super) unsorted: Vec<Delivery>,
}

impl Connection {
    pub(super) fn new(
        serial: u64,
        connection_info: Arc<ConnectionInfo>,
        transport: Transport,
        next_ping_ms: u64,
    ) -> Connection {
        Connection {
            serial,
            connection_info,
            session: None,
            unread: Vec::new(),
            left: Vec::new(),
            transport,
            outbox: Outbox::default(),
            reader: None,
            subscriptions: Vec::new(),
            next_serial: 0,
            next_replay: 0,
            postponed: VecDeque::new(),
            blocked: false,
            dirty: false,
            closing: false,
            progress_ms: 0,
            next_ping_ms,
            told: Position::START,
            draining: Vec::new(),
            owed_bytes: 0,
            furthest: Position::START,
            unsorted: Vec::new(),
        }
    }

    /// Lets whoever reads the socket know how many answers wait.
    pub(super) fn note_debt(&mut self) {
        if self.owed_bytes != self.outbox.message_bytes {
            self.owed_bytes = self.outbox.message_bytes;
            self.transport.owe(self.owed_bytes);
        }
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.transport.dialect()
    }

    /// What follows the log at a place, if that is still the same.
    pub(super) fn feed(&mut self, slot: Slot) -> Option<&mut Feed> {
        self.subscription(slot)?.kind.feed_mut()
    }

    /// The subscription at a place, if it is still the same.
    pub(super) fn subscription(&mut self, slot: Slot) -> Option<&mut Subscription> {
        let place = self.subscriptions.get_mut(slot.index as usize)?;
        place.as_mut().filter(|subscription| subscription.serial == slot.serial)
    }

    /// All subscriptions, with their places.
    pub(super) fn slots(&self) -> impl Iterator<Item = (Slot, &Subscription)> {
        (0u32..).zip(&self.subscriptions).filter_map(|(index, subscription)| {
            let subscription = subscription.as_ref()?;
            Some((Slot { index, serial: subscription.serial }, subscription))
        })
    }

    pub(super) fn find(&self, query_id: &str) -> Option<Slot> {
        self.slots().find(|(_, s)| &*s.query_id == query_id).map(|(slot, _)| slot)
    }

    /// Puts a subscription in a free place.
    pub(super) fn put(
        &mut self,
        query_id: Arc<str>,
        link: Option<SessionLink>,
        kind: Kind,
        renewed: bool,
    ) -> Slot {
        self.next_serial += 1;
        let serial = self.next_serial;
        let subscription = Subscription {
            serial,
            query_id,
            link,
            announced: false,
            renewed,
            sent: Position::START,
            waiting: 0,
            kind,
        };
        let free = self.subscriptions.iter().position(Option::is_none);
        let index = free.unwrap_or(self.subscriptions.len());
        match free {
            Some(index) => self.subscriptions[index] = Some(subscription),
            None => {
                // Most connections have few, and there are many connections.
                self.subscriptions.reserve_exact(1 + self.subscriptions.len() / 4);
                self.subscriptions.push(Some(subscription));
            }
        }
        Slot { index: u32::try_from(index).unwrap_or(u32::MAX), serial }
    }

    /// Queues a message of the connection's own.
    pub(super) fn say(
        &mut self,
        message: &str,
        position: Option<Offset>,
        deflater: &mut Option<Deflater>,
        now_ms: u64,
    ) {
        let mut bytes = BytesMut::with_capacity(message.len() + 64);
        encode(&mut bytes, self.dialect(), message.as_bytes(), position, deflater);
        self.queue(bytes.freeze(), OutboxItem::Message, now_ms);
    }

    pub(super) fn queue(&mut self, bytes: Bytes, item: OutboxItem, now_ms: u64) {
        if !self.closing {
            self.outbox.push(QueuedItem { bytes, item, queued_ms: now_ms });
        }
    }

    /// A subscription's name for administrators.
    pub(super) fn live_id(&self, query_id: &str) -> String {
        format!("{}-{query_id}", self.connection_info.id)
    }
}
