//! A shard: one task, its connections, and everything they follow.
//!
//! It never waits for a client, a socket or the store. Each turn takes some of each kind of work that
//! is there, so that none keeps out another, and then lets other tasks run.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use rand::Rng as _;
use slab::Slab;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use tidewire_store::Position;

use super::audience::Audience;
use super::connection::{Connection, Key};
use super::fan_out::Job;
use super::outbox::{Cargo, Slot};
use super::stats::{Stats, add, set, subtract};
use super::subscribe::{leave, unknown_subscription};
use super::{Command, Handle, Outlet};
use crate::node::{Node, now_ms};
use crate::tail::Sight;
use crate::websocket::CloseCode;
use crate::websocket::deflate::Deflater;

/// Commands taken in one turn.
const COMMANDS_A_TURN: usize = 64;

/// Sockets that have become writable, taken in one turn.
const WRITABLE_A_TURN: usize = 64;

/// Milliseconds of a clock that all connections of the process share, and that only moves forwards.
pub(crate) fn clock_ms() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// A shard before it runs.
#[derive(Debug)]
pub(crate) struct Dormant {
    pub(super) handle: Handle,
    commands: mpsc::Receiver<Command>,
    departures: mpsc::UnboundedReceiver<Key>,
    sights: mpsc::Receiver<Arc<Sight>>,
    position: Position,
}

impl Dormant {
    pub(super) fn new(
        handle: Handle,
        commands: mpsc::Receiver<Command>,
        departures: mpsc::UnboundedReceiver<Key>,
        sights: mpsc::Receiver<Arc<Sight>>,
        position: Position,
    ) -> Dormant {
        Dormant { handle, commands, departures, sights, position }
    }

    /// Runs until `stop`.
    pub(super) async fn run(self, node: Arc<Node>, stop: CancellationToken) {
        let Dormant { handle, mut commands, mut departures, mut sights, position } = self;
        let mut shard = Shard::new(node, handle, position);
        let mut tick = tokio::time::interval(shard.tick());
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let draining = shard.node.draining.clone();
        loop {
            let mut busy = false;
            shard.begin_turn();
            for _ in 0..COMMANDS_A_TURN {
                let Ok(command) = commands.try_recv() else { break };
                shard.obey(command);
                busy = true;
            }
            while let Ok(key) = departures.try_recv() {
                shard.depart(key);
            }
            for _ in 0..WRITABLE_A_TURN {
                let Some(Some(key)) = shard.blocked.next().now_or_never() else { break };
                shard.writable(key);
                busy = true;
            }
            if let Ok(sight) = sights.try_recv() {
                shard.see(&sight);
                busy = true;
            }
            if !shard.slow.is_empty() {
                shard.slice();
                busy = true;
            }
            if tick.tick().now_or_never().is_some() {
                shard.upkeep();
            }
            if draining.is_cancelled() {
                shard.say_goodbye();
            }
            shard.flush_all();
            if stop.is_cancelled() {
                return;
            }
            if busy {
                tokio::task::yield_now().await;
                continue;
            }
            // What there is to do is done at the beginning of the next turn; here it is only waited
            // for.
            tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => shard.obey(command),
                    None => return,
                },
                Some(sight) = sights.recv() => {
                    shard.begin_turn();
                    shard.see(&sight);
                }
                Some(key) = departures.recv() => shard.depart(key),
                Some(key) = shard.blocked.next(), if !shard.blocked.is_empty() => {
                    shard.begin_turn();
                    shard.writable(key);
                }
                _ = tick.tick() => {
                    shard.begin_turn();
                    shard.upkeep();
                }
                () = draining.cancelled(), if !shard.said_goodbye => shard.say_goodbye(),
                () = stop.cancelled() => return,
            }
            shard.flush_all();
        }
    }
}

/// A shard at work.
#[derive(Debug)]
pub(super) struct Shard {
    pub(super) node: Arc<Node>,
    pub(super) handle: Handle,
    pub(super) stats: Arc<Stats>,
    /// Everything up to here has been seen.
    pub(super) position: Position,
    pub(super) connections: Slab<Connection>,
    next_serial: u64,
    pub(super) audiences: HashMap<Arc<str>, Audience>,
    /// Large audiences that are being served, oldest chunk first.
    pub(super) slow: VecDeque<Job>,
    /// Connections with something to flush.
    pub(super) dirty: Vec<usize>,
    /// Connections whose socket takes no more for now.
    pub(super) blocked: FuturesUnordered<BoxFuture<'static, Key>>,
    pub(super) deflater: Option<Deflater>,
    /// The clocks at the beginning of this turn: one that only moves forwards, and the wall's.
    pub(super) now_ms: u64,
    pub(super) wall_ms: i64,
    said_goodbye: bool,
}

impl Shard {
    fn new(node: Arc<Node>, handle: Handle, position: Position) -> Shard {
        Shard {
            node,
            stats: Arc::clone(&handle.stats),
            handle,
            position,
            connections: Slab::new(),
            next_serial: 0,
            audiences: HashMap::new(),
            slow: VecDeque::new(),
            dirty: Vec::new(),
            blocked: FuturesUnordered::new(),
            deflater: None,
            now_ms: clock_ms(),
            wall_ms: now_ms(),
            said_goodbye: false,
        }
    }

    fn begin_turn(&mut self) {
        self.now_ms = clock_ms();
        self.wall_ms = now_ms();
    }

    /// How often upkeep runs: a few times a ping, so that nobody waits much longer than they should.
    fn tick(&self) -> Duration {
        (self.node.options.live.ping / 5).clamp(Duration::from_millis(20), Duration::from_secs(1))
    }

    pub(super) fn connection(&mut self, key: Key) -> Option<&mut Connection> {
        self.connections.get_mut(key.index).filter(|connection| connection.serial == key.serial)
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Attach { outlet, id, reply } => {
                let key = self.attach(outlet, id);
                // One who has gone again is not kept.
                if reply.send(key).is_err() {
                    self.remove(key.index);
                }
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
                    connection.queue(frame, Cargo::Message, now_ms);
                }
                self.touch(key.index);
            }
            Command::Subscribe { key, requests } => self.subscribe(key, requests),
            Command::Unsubscribe { key, query_ids } => {
                for query_id in query_ids {
                    let slot = self.connection(key).and_then(|c| c.find(&query_id));
                    match slot {
                        Some(slot) => self.end(key, slot, "unsubscribed"),
                        None => self.say(key, &unknown_subscription().message(Some(&query_id))),
                    }
                }
            }
            Command::Follow { key, requests } => self.follow(key, requests),
            Command::Acknowledge { key, acks } => self.acknowledge(key, acks),
            Command::Replayed { key, replay, step, reply } => {
                self.replayed(key, replay, *step, reply);
            }
            Command::Expire { key, reason } => self.expire(key, reason),
            Command::End { id, query_id } => self.end_by_name(&id, query_id.as_deref()),
            Command::Close { key, code, reason } => self.close(key, code, reason),
        }
    }

    /// Ends all that a connection follows, with the reason, and then the connection.
    fn expire(&mut self, key: Key, reason: &'static str) {
        let slots = self.connection(key).map(|c| c.slots().map(|(slot, _)| slot).collect());
        let slots: Vec<Slot> = slots.unwrap_or_default();
        for slot in slots {
            self.end(key, slot, reason);
        }
        self.close(key, CloseCode::POLICY, reason);
    }

    /// Ends a connection, or one of its subscriptions, because an operator says so.
    fn end_by_name(&mut self, id: &str, query_id: Option<&str>) {
        let reason = crate::auth::Ended::Killed.reason();
        let found = self.connections.iter().find(|(_, connection)| &*connection.id == id);
        let Some((index, connection)) = found else { return };
        let key = Key { index, serial: connection.serial };
        match query_id.map(|query_id| connection.find(query_id)) {
            None => self.expire(key, reason),
            Some(Some(slot)) => self.end(key, slot, reason),
            Some(None) => {}
        }
    }

    fn attach(&mut self, outlet: Outlet, id: Arc<str>) -> Key {
        self.next_serial += 1;
        let serial = self.next_serial;
        let ping_ms = u64::try_from(self.node.options.live.ping.as_millis()).unwrap_or(u64::MAX);
        // Spread, so that those who came together are not pinged together.
        let first_ping = self.now_ms + rand::rng().random_range(ping_ms / 2..=ping_ms.max(1));
        add(self.gauge(&outlet), 1);
        let index = self.connections.insert(Connection::new(serial, id, outlet, first_ping));
        Key { index, serial }
    }

    /// The gauge that counts connections of this kind.
    fn gauge(&self, outlet: &Outlet) -> &AtomicU64 {
        match outlet {
            Outlet::WebSocket { .. } => &self.stats.websockets,
            Outlet::Chunks(_) | Outlet::ServerSent(_) => &self.stats.server_sent,
        }
    }

    fn depart(&mut self, key: Key) {
        if self.connection(key).is_some() {
            self.remove(key.index);
        }
    }

    /// Forgets a connection and all it follows.
    pub(super) fn remove(&mut self, index: usize) {
        let Some(connection) = self.connections.try_remove(index) else { return };
        let key = Key { index, serial: connection.serial };
        for (slot, subscription) in connection.slots() {
            leave(&mut self.audiences, &subscription.stream, &subscription.query_id, key, slot);
            subtract(&self.stats.subscriptions, 1);
        }
        set(&self.stats.streams, self.audiences.len());
        subtract(self.gauge(&connection.outlet), 1);
    }

    fn writable(&mut self, key: Key) {
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
            connection.queue(last, Cargo::Last, now_ms);
            connection.closing = true;
            self.touch(key.index);
        }
    }

    /// Tells everyone when to come back, each another time.
    fn say_goodbye(&mut self) {
        if std::mem::replace(&mut self.said_goodbye, true) {
            return;
        }
        let spread_ms = u64::try_from(self.node.options.live.reconnect_spread.as_millis());
        let spread_ms = spread_ms.unwrap_or(u64::MAX).max(1);
        let keys: Vec<Key> =
            self.connections.iter().map(|(index, c)| Key { index, serial: c.serial }).collect();
        for key in keys {
            let wait_ms = rand::rng().random_range(1..=spread_ms);
            let now_ms = self.now_ms;
            if let Some(connection) = self.connection(key)
                && let Some(retry) = connection.dialect().retry(wait_ms)
            {
                connection.queue(retry, Cargo::Message, now_ms);
            }
            self.say(key, &format!(
                "{{\"type\":\"closing\",\"reason\":\"shutting_down\",\"reconnect_in_ms\":{wait_ms}}}"
            ));
            self.close(key, CloseCode::GOING_AWAY, "shutting down");
        }
    }
}
