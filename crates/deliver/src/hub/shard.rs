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

use tidewire_store::{Position, SessionChange};

use super::audience::{Audience, Member};
use super::connection::{Connection, Key, Request, StartFrom, State};
use super::fan_out::Job;
use super::outbox::{Cargo, Slot};
use super::replay::{self, Wanted};
use super::stats::{Stats, add, set, subtract};
use super::{Command, Handle, Outlet};
use crate::node::{Node, now_ms};
use crate::problem::Problem;
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
    handle: Handle,
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
    handle: Handle,
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
            Command::Identify { key, session } => {
                if let Some(connection) = self.connection(key) {
                    connection.session = Some(session);
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
            Command::Close { key, code, reason } => self.close(key, code, reason),
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

    /// Begins to follow streams.
    fn subscribe(&mut self, key: Key, requests: Vec<Request>) {
        let subscriptions_max = self.node.options.live.subscriptions_max;
        let mut slots = Vec::with_capacity(requests.len());
        for request in requests {
            let Some(connection) = self.connection(key) else { return };
            let existing = connection.find(&request.query_id);
            if let Some(slot) = existing {
                let known = connection.subscription(slot).and_then(|s| s.link);
                // What a session's change brought here first is the same subscription.
                if request.link.is_some() && known.map(|k| k.epoch) == request.link.map(|l| l.epoch)
                {
                    continue;
                }
                connection.outbox.withdraw(slot);
                self.drop_subscription(key, slot);
            } else if connection.slots().count() >= subscriptions_max {
                let message = too_many(subscriptions_max).message(Some(&request.query_id));
                self.say(key, &message);
                continue;
            }
            let Some(connection) = self.connection(key) else { return };
            let (query_id, stream) = (Arc::clone(&request.query_id), Arc::clone(&request.stream));
            let slot = connection.add(request, existing.is_some());
            self.enter(&stream, &query_id, Member { key, slot });
            slots.push(slot);
        }
        self.begin_replay(key, slots);
    }

    /// Takes over what a session follows, as the store has it.
    fn follow(&mut self, key: Key, requests: Vec<Request>) {
        let Some(connection) = self.connection(key) else { return };
        let wanted = |query_id: &str| requests.iter().any(|r| *r.query_id == *query_id);
        let dropped: Vec<Slot> = connection
            .slots()
            .filter(|(_, s)| s.link.is_some() && !wanted(&s.query_id))
            .map(|(slot, _)| slot)
            .collect();
        for slot in dropped {
            self.end(key, slot, "unsubscribed");
        }
        self.subscribe(key, requests);
    }

    fn enter(&mut self, stream: &Arc<str>, query_id: &Arc<str>, member: Member) {
        if self.audiences.get(stream).is_some_and(|audience| audience.attendance.ended()) {
            // The stream was deleted, and this shard is about to see that. Who comes now means the
            // next stream of its name.
            self.retire(stream);
        }
        let tail = &self.node.tail;
        let audience = self.audiences.entry(Arc::clone(stream));
        let audience = audience.or_insert_with(|| Audience::new(tail.attend(stream)));
        audience.enter(query_id, member);
        add(&self.stats.subscriptions, 1);
        set(&self.stats.streams, self.audiences.len());
    }

    /// Ends all that follow a stream that is gone.
    fn retire(&mut self, stream: &Arc<str>) {
        let Some(audience) = self.audiences.get(stream) else { return };
        let members: Vec<Member> =
            audience.groups().flat_map(|(_, members)| members.iter().copied()).collect();
        for member in members {
            self.end(member.key, member.slot, "stream_deleted");
        }
        self.audiences.remove(stream);
    }

    /// Reads the store for subscriptions, from where they stand. An SSE connection's subscriptions
    /// are all read together, in the log's order, so that its one cursor stays true.
    pub(super) fn begin_replay(&mut self, key: Key, slots: Vec<Slot>) {
        if slots.is_empty() {
            return;
        }
        let Some(connection) = self.connection(key) else { return };
        connection.next_replay += 1;
        let replay = connection.next_replay;
        let dialect = connection.dialect();
        let slots = if dialect.has_one_cursor() {
            connection.slots().map(|(slot, _)| slot).collect()
        } else {
            slots
        };
        let mut wanted = Vec::with_capacity(slots.len());
        for slot in slots {
            let Some(subscription) = connection.subscription(slot) else { continue };
            subscription.state = State::Replaying(replay);
            wanted.push(Wanted {
                slot,
                query_id: Arc::clone(&subscription.query_id),
                stream: Arc::clone(&subscription.stream),
                start: if subscription.announced {
                    StartFrom::After(subscription.sent)
                } else {
                    subscription.start
                },
                min_offset: subscription.min_offset,
                envelope: subscription.envelope.clone(),
            });
        }
        add(&self.stats.replays, 1);
        let task = replay::run(
            Arc::clone(&self.node),
            self.handle.clone(),
            replay::Target { key, replay, dialect },
            wanted,
        );
        self.node.hub.tasks.spawn(task);
    }

    /// Sends those of a stream's followers back to the store that have not got an event there.
    pub(super) fn read_again(&mut self, stream: &Arc<str>, unseen: Position) {
        let Some(audience) = self.audiences.get(stream) else { return };
        let members: Vec<Member> =
            audience.groups().flat_map(|(_, members)| members.iter().copied()).collect();
        for member in members {
            let behind = self
                .connection(member.key)
                .and_then(|connection| connection.subscription(member.slot))
                .is_some_and(|s| s.state == State::Live && s.sent < unseen);
            if behind {
                self.begin_replay(member.key, vec![member.slot]);
            }
        }
    }

    /// Ends a subscription and says why. What waits for it is sent before.
    pub(super) fn end(&mut self, key: Key, slot: Slot, reason: &str) {
        let Some(connection) = self.connection(key) else { return };
        let Some(subscription) = connection.subscription(slot) else { return };
        let (query_id, stream) = (&subscription.query_id, &subscription.stream);
        let ended = super::frames::ended(query_id, stream, reason);
        let (link, stream) = (subscription.link, stream.to_string());
        let gap = match (subscription.gap.take(), &subscription.envelope) {
            (Some((from, to)), Some(envelope)) => Some(envelope.gap(from, to)),
            _ => None,
        };
        if let (Some(session), Some(_), "stream_deleted") = (&connection.session, link, reason) {
            // Else it would be asked for again when the session returns.
            let session = session.to_string();
            self.node.sessions.note(vec![SessionChange::Unsubscribe { session, stream }]);
        }
        self.drop_subscription(key, slot);
        for message in gap.iter().chain([&ended]) {
            self.say(key, message);
        }
    }

    /// Ends a subscription that could not be begun, or broke.
    pub(super) fn fail(&mut self, key: Key, slot: Slot, problem: &Problem) {
        let query_id = self
            .connection(key)
            .and_then(|connection| connection.subscription(slot))
            .map(|subscription| Arc::clone(&subscription.query_id));
        self.drop_subscription(key, slot);
        if let Some(query_id) = query_id {
            self.say(key, &problem.message(Some(&query_id)));
        }
    }

    fn drop_subscription(&mut self, key: Key, slot: Slot) {
        let Some(connection) = self.connection(key) else { return };
        if connection.subscription(slot).is_none() {
            return;
        }
        let place = &mut connection.subscriptions[slot.index as usize];
        if let Some(subscription) = place.take() {
            leave(&mut self.audiences, &subscription.stream, &subscription.query_id, key, slot);
            subtract(&self.stats.subscriptions, 1);
        }
        set(&self.stats.streams, self.audiences.len());
    }
}

fn leave(
    audiences: &mut HashMap<Arc<str>, Audience>,
    stream: &Arc<str>,
    query_id: &Arc<str>,
    key: Key,
    slot: Slot,
) {
    if let Some(audience) = audiences.get_mut(stream) {
        audience.leave(query_id, Member { key, slot });
        if audience.is_empty() {
            audiences.remove(stream);
        }
    }
}

fn unknown_subscription() -> Problem {
    Problem::new(
        axum::http::StatusCode::NOT_FOUND,
        "no_such_subscription",
        "the connection has no subscription of this query_id",
        "subscribe first, or ignore this: it has ended already",
    )
}

fn too_many(subscriptions_max: usize) -> Problem {
    Problem::new(
        axum::http::StatusCode::TOO_MANY_REQUESTS,
        "too_many_subscriptions",
        format!("a connection has at most {subscriptions_max} (live.subscriptions_max)"),
        "unsubscribe from something, or use another connection",
    )
}
