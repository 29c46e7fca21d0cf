//! A shard's main loop, turn by turn.
//!
//! A shard never waits for a client, a socket or the store. Each turn takes some of each kind of work
//! that is there, so that none keeps out another, and then lets other tasks run.
//!
//! Looks at the log and what the query engine of live queries says come by two ways. The follower of the log is there for all
//! and must not wait for one kind; the query engine may say more than was appended (all rows of a result), so it waits
//! while as much is under way as may be.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use tidewire_store::Position;

use super::connection::Key;
use super::shard::Shard;
use super::{Command, Handle};
use crate::Hub;
use crate::kinds::query::engine::QueryUpdates;
use crate::tail::LogBatch;
use tidewire_wire::clock::clock_ms;
use tidewire_wire::clock::now_ms;

/// Commands taken in one turn.
const COMMANDS_A_TURN: usize = 64;

/// Sockets that have become writable, taken in one turn.
const WRITABLE_A_TURN: usize = 64;

/// Looks at the log, taken in one turn. Small audiences in them do not wait for large ones, and what
/// several bring for one connection goes out in one write.
const SIGHTS_A_TURN: usize = 16;

/// Readers that are behind, given a piece in one turn.
const CATCH_UPS_A_TURN: usize = 16;

/// Connections that are looked after in one turn.
const CARES_A_TURN: usize = 32;

/// A shard before it runs.
#[derive(Debug)]
pub struct UnstartedShard {
    pub(super) handle: Handle,
    pub(super) incoming: Incoming,
    pub(super) position: Position,
    pub(super) index: usize,
}

/// What comes to a shard.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) departures: mpsc::UnboundedReceiver<Key>,
    pub(super) batches: mpsc::Receiver<Arc<LogBatch>>,
    pub(super) query_sights: mpsc::Receiver<Arc<QueryUpdates>>,
}

impl UnstartedShard {
    /// Runs until `stop`.
    pub(super) async fn run(self, hub: Arc<Hub>, stop: CancellationToken) {
        let UnstartedShard { handle, mut incoming, position, index } = self;
        let draining = hub.draining.clone();
        let mut shard = Shard::new(hub, handle, position, index);
        let mut tick = tokio::time::interval(shard.tick());
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if draining.is_cancelled() {
                shard.say_goodbye();
            }
            let busy = shard.turn(&mut incoming, &mut tick);
            if stop.is_cancelled() {
                return;
            }
            if busy {
                tokio::task::yield_now().await;
                continue;
            }
            // What there is to do is done in the next turn; here it is only waited for.
            let renewal_due = shard.renewal_due();
            let Incoming { commands, departures, batches, query_sights } = &mut incoming;
            tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => {
                        shard.begin_turn();
                        shard.obey(command);
                    }
                    None => return,
                },
                Some(batch) = batches.recv() => {
                    shard.begin_turn();
                    shard.see(&batch, batches.is_empty());
                }
                Some(batch) = query_sights.recv(), if !shard.backlog.is_full() => {
                    shard.begin_turn();
                    shard.hear(&batch);
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
                () = renewal_due => {}
                () = draining.cancelled(), if !shard.said_goodbye => {}
                () = stop.cancelled() => return,
            }
            shard.flush_all();
        }
    }
}

impl Shard {
    /// Does some of what there is to do. Returns whether there may be more.
    pub(super) fn turn(&mut self, incoming: &mut Incoming, tick: &mut Interval) -> bool {
        let mut busy = false;
        self.begin_turn();
        for _ in 0..COMMANDS_A_TURN {
            let Ok(command) = incoming.commands.try_recv() else { break };
            self.obey(command);
            busy = true;
        }
        while let Ok(key) = incoming.departures.try_recv() {
            self.depart(key);
        }
        for _ in 0..WRITABLE_A_TURN {
            let Some(Some(key)) = self.blocked.next().now_or_never() else { break };
            self.writable(key);
            busy = true;
        }
        for _ in 0..SIGHTS_A_TURN {
            let Ok(batch) = incoming.batches.try_recv() else { break };
            self.see(&batch, incoming.batches.is_empty());
            busy = true;
        }
        for _ in 0..SIGHTS_A_TURN {
            if self.backlog.is_full() {
                break;
            }
            let Ok(batch) = incoming.query_sights.try_recv() else { break };
            self.hear(&batch);
            busy = true;
        }
        for _ in 0..CATCH_UPS_A_TURN {
            let Some(key) = self.hungry.pop_front() else { break };
            self.catch_up(key);
        }
        // Small audiences do not wait for the slice of a large one.
        self.flush_all();
        self.slice();
        if tick.tick().now_or_never().is_some() {
            self.upkeep();
        }
        self.care(CARES_A_TURN);
        self.renew_lifetimes();
        self.flush_all();
        busy || self.has_more_to_do()
    }

    fn begin_turn(&mut self) {
        self.now_ms = clock_ms();
        self.wall_ms = now_ms();
    }

    /// How often upkeep runs: a few times a ping, so that nobody waits much longer than they should.
    fn tick(&self) -> Duration {
        let shortest = self.hub.options.live.ping.min(self.hub.options.streams.sse_duration);
        (shortest / 5).clamp(Duration::from_millis(20), Duration::from_secs(1))
    }

    /// Whether the next turn has something to do, whatever comes.
    fn has_more_to_do(&self) -> bool {
        !self.backlog.is_empty()
            || !self.hungry.is_empty()
            || !self.due.is_empty()
            || !self.dirty.is_empty()
    }

    /// Waits until a lifetime is to be renewed.
    fn renewal_due(&self) -> impl Future<Output = ()> + use<> {
        let wait_ms = self.next_renewal_ms.saturating_sub(self.now_ms);
        let never = self.next_renewal_ms == u64::MAX;
        async move {
            if never {
                std::future::pending().await
            } else {
                tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            }
        }
    }
}
