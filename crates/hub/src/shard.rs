//! A shard: one task, its connections, and everything they follow.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use rand::Rng as _;
use slab::Slab;

use tidewire_store::Position;

use super::audience::{Audience, Follower};
use super::backlog::Backlog;
use super::connection::{Connection, Key};
use super::connection_info::ConnectionInfo;
use super::outbox::{OutboxItem, Slot};
use super::stats::{Stats, add, set, subtract};
use super::subscribe::leave;
use super::upkeep::Due;
use super::{Command, Handle, Transport};
use crate::Hub;
use crate::kinds::{self, Detach, Rosters};
use crate::messages::{Closing, ServerMessage as _};
use crate::reader_frame::Frame;
use tidewire_wire::clock::{clock_ms, now_ms};
use tidewire_wire::websocket::CloseCode;
use tidewire_wire::websocket::deflate::Deflater;

/// A duration in milliseconds of the clock that only moves forwards.
pub(super) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A shard at work.
#[derive(Debug)]
pub struct Shard {
    pub(super) hub: Arc<Hub>,
    pub(super) handle: Handle,
    pub(super) stats: Arc<Stats>,
    /// Everything up to here has been seen.
    pub(super) position: Position,
    pub(super) connections: Slab<Connection>,
    next_serial: u64,
    pub(super) audiences: HashMap<Arc<str>, Audience>,
    pub(super) rosters: Rosters,
    /// Which of the hub's shards it is.
    pub(super) index: usize,
    /// Large audiences that are being served.
    pub(super) backlog: Backlog,
    /// Readers that are behind, and whose socket takes more.
    pub(super) hungry: VecDeque<Key>,
    /// Connections for which it is time.
    pub(super) due: VecDeque<(Key, Due)>,
    /// Connections with something to flush.
    pub(super) dirty: Vec<usize>,
    /// Connections whose socket takes no more for now.
    pub(super) blocked: FuturesUnordered<BoxFuture<'static, Key>>,
    pub(super) deflater: Option<Deflater>,
    /// The clocks at the beginning of this turn: one that only moves forwards, and the wall's.
    pub(super) now_ms: u64,
    pub(super) wall_ms: i64,
    /// When the first lifetime is to be renewed.
    pub(super) next_renewal_ms: u64,
    pub(super) said_goodbye: bool,
}

impl Shard {
    pub(super) fn new(hub: Arc<Hub>, handle: Handle, position: Position, index: usize) -> Shard {
        Shard {
            hub,
            stats: Arc::clone(&handle.stats),
            handle,
            position,
            connections: Slab::new(),
            next_serial: 0,
            audiences: HashMap::new(),
            rosters: Rosters::at(position),
            index,
            backlog: Backlog::default(),
            hungry: VecDeque::new(),
            due: VecDeque::new(),
            dirty: Vec::new(),
            blocked: FuturesUnordered::new(),
            deflater: None,
            now_ms: clock_ms(),
            wall_ms: now_ms(),
            next_renewal_ms: u64::MAX,
            said_goodbye: false,
        }
    }

    pub(super) fn connection(&mut self, key: Key) -> Option<&mut Connection> {
        self.connections.get_mut(key.index).filter(|connection| connection.serial == key.serial)
    }

    pub(super) fn obey(&mut self, command: Command) {
        match command {
            Command::Attach { transport, connection_info, reply } => {
                let key = self.attach(transport, connection_info, false);
                // One who has gone again is not kept: the presence that is not taken detaches it.
                let _ = reply.send(self.handle.presence(key));
            }
            Command::Admit { transport, arrival, reply } => {
                let key = self.admit_reader(transport, *arrival);
                let _ = reply.send(self.handle.presence(key));
            }
            Command::Identify { key, session, cursor } => {
                if let Some(connection) = self.connection(key) {
                    connection.session = Some(session);
                    connection.furthest = cursor.unwrap_or(Position::START);
                }
            }
            Command::Say { key, message } => self.say(key, &message),
            Command::Send { key, frame } => {
                let now_ms = self.now_ms;
                if let Some(connection) = self.connection(key) {
                    connection.queue(frame, OutboxItem::Message, now_ms);
                }
                self.touch(key.index);
            }
            Command::Subscribe { key, requests } => self.subscribe(key, requests),
            Command::Unsubscribe { key, query_ids } => {
                for query_id in query_ids {
                    self.unsubscribe(key, &query_id);
                }
            }
            Command::Follow { key, requests, unread, revision } => {
                self.follow(key, requests, unread, revision);
            }
            Command::Acknowledge { key, acks } => self.acknowledge(key, acks),
            Command::Replayed { key, replay, step, reply } => {
                self.replayed(key, replay, *step, reply);
            }
            Command::OfKind(command) => command.obey(self),
            Command::Expire { key, reason } => self.expire(key, reason),
            Command::End { id, query_id } => self.end_by_name(&id, query_id.as_deref()),
            Command::ListConnections { wanted, reply } => {
                // One who has gone again does not want to know.
                let _ = reply.send(self.list_connections(&wanted));
            }
            Command::Close { key, code, reason } => self.close(key, code, reason),
        }
    }

    /// Ends all that a connection follows, with the reason, and then the connection.
    fn expire(&mut self, key: Key, reason: &'static str) {
        let Some(connection) = self.connection(key) else { return };
        if connection.reader.is_some() {
            // Its protocol has no word for reasons. The client comes back and is told.
            return self.end_reader(key, &Frame::of(": the credential holds no longer\n\n"));
        }
        let slots: Vec<Slot> = connection.slots().map(|(slot, _)| slot).collect();
        for slot in slots {
            self.end(key, slot, reason);
        }
        self.close(key, CloseCode::POLICY, reason);
    }

    /// Ends a connection, or one of its subscriptions, because an operator says so.
    fn end_by_name(&mut self, id: &str, query_id: Option<&str>) {
        let reason = tidewire_access::auth::Ended::Killed.reason();
        let named = |connection: &Connection| *connection.connection_info.id == *id;
        let found = self.connections.iter().find(|(_, connection)| named(connection));
        let Some((index, connection)) = found else { return };
        let key = Key { index, serial: connection.serial };
        match query_id.map(|query_id| connection.find(query_id)) {
            None => self.expire(key, reason),
            Some(Some(slot)) => self.end(key, slot, reason),
            Some(None) => {}
        }
    }

    /// A place for a connection.
    pub(super) fn attach(
        &mut self,
        transport: Transport,
        connection_info: Arc<ConnectionInfo>,
        reads: bool,
    ) -> Key {
        self.next_serial += 1;
        let serial = self.next_serial;
        let ping_ms = ms(self.hub.options.live.ping);
        // Spread, so that those who came together are not pinged together.
        let first_ping = self.now_ms + rand::rng().random_range(ping_ms / 2..=ping_ms.max(1));
        add(self.gauge(&transport, reads), 1);
        let index = self.connections.insert(Connection::new(
            serial,
            connection_info,
            transport,
            first_ping,
        ));
        Key { index, serial }
    }

    /// The gauge that counts connections of this kind.
    fn gauge(&self, transport: &Transport, reads: bool) -> &AtomicU64 {
        match transport {
            _ if reads => &self.stats.readers,
            Transport::WebSocket { .. } => &self.stats.websockets,
            Transport::Chunks(_) | Transport::ServerSent(_) => &self.stats.server_sent,
        }
    }

    pub(super) fn depart(&mut self, key: Key) {
        if self.connection(key).is_some() {
            self.remove(key.index);
        }
    }

    /// Forgets a connection and all it follows.
    pub(super) fn remove(&mut self, index: usize) {
        let Some(connection) = self.connections.try_remove(index) else { return };
        let key = Key { index, serial: connection.serial };
        for (slot, subscription) in connection.slots() {
            let (follower, query_id) = (Follower { key, slot }, &subscription.query_id);
            subscription.kind.subject().leave(self, follower, query_id, Detach::WithConnection);
            subtract(&self.stats.subscriptions, 1);
        }
        if let Some(reader) = &connection.reader {
            let (stream, encoding_group, follower) = reader.membership(key);
            leave(&mut self.audiences, stream, &encoding_group, follower);
        }
        kinds::forget(self, key, &connection);
        set(&self.stats.streams, self.audiences.len());
        subtract(self.gauge(&connection.transport, connection.reader.is_some()), 1);
    }

    pub(super) fn writable(&mut self, key: Key) {
        let now_ms = self.now_ms;
        if let Some(connection) = self.connection(key) {
            connection.blocked = false;
            connection.progress_ms = now_ms;
            self.flush(key.index);
        }
    }

    /// Tells a client something.
    pub(super) fn say(&mut self, key: Key, message: &str) {
        let connection = self.connections.get_mut(key.index).filter(|c| c.serial == key.serial);
        if let Some(connection) = connection {
            connection.say(message, None, &mut self.deflater, self.now_ms);
            self.touch(key.index);
        }
    }

    /// Sends the last there is to be.
    fn close(&mut self, key: Key, code: CloseCode, reason: &str) {
        let now_ms = self.now_ms;
        if let Some(connection) = self.connection(key) {
            let last = connection.dialect().close(code, reason);
            connection.queue(last, OutboxItem::Last, now_ms);
            connection.closing = true;
            self.touch(key.index);
        }
    }

    /// Tells everyone when to come back, each another time.
    pub(super) fn say_goodbye(&mut self) {
        if std::mem::replace(&mut self.said_goodbye, true) {
            return;
        }
        let spread_ms = u64::try_from(self.hub.options.live.reconnect_spread.as_millis());
        let spread_ms = spread_ms.unwrap_or(u64::MAX).max(1);
        let keys: Vec<Key> =
            self.connections.iter().map(|(index, c)| Key { index, serial: c.serial }).collect();
        for key in keys {
            if self.connection(key).is_some_and(|connection| connection.reader.is_some()) {
                self.dismiss(key);
                continue;
            }
            let wait_ms = rand::rng().random_range(1..=spread_ms);
            let now_ms = self.now_ms;
            if let Some(connection) = self.connection(key)
                && let Some(retry) = connection.dialect().retry(wait_ms)
            {
                connection.queue(retry, OutboxItem::Message, now_ms);
            }
            let closing = Closing { reason: "shutting_down", reconnect_in_ms: wait_ms };
            self.say(key, &closing.text());
            self.close(key, CloseCode::GOING_AWAY, "shutting down");
        }
    }
}
