//! The query engine: the task that keeps this node's live queries.
//!
//! Everything that an engine is told comes through here, one thing after the other: who follows what,
//! the events of the log, rows of the database. What the engine says goes to the shards of those whom it
//! concerns, each turn's together.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, mpsc};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use tidewire_query::{
    AskId, Engine, EngineOptions, Output, PlanName, QueryId, Recipients, Subscriber,
};
use tidewire_store::{Position, StoreError, TailEvent};

use super::apply::Lagging;
use super::compile::Compiled;
use super::news::{News, QueryUpdates};
use super::reads::Reads;
use super::resume::{self, ReplayedChanges};
use super::settle::UnsettledReads;
use super::{EngineCommand, UpdateSenders};
use crate::Hub;
use crate::tail::TableGuard;

/// Orders that are obeyed in one turn.
const ORDERS_A_TURN: usize = 256;
/// Pasts that are read at once, or wait in memory for the query engine. Each may be `resume_events_max` events.
const PASTS_MAX: usize = 4;
/// How often what the engine holds is counted.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// The query engine before it runs.
#[derive(Debug)]
pub struct QueryEngineTask {
    pub orders: mpsc::UnboundedReceiver<EngineCommand>,
    pub events: broadcast::Receiver<Arc<Vec<TailEvent>>>,
    pub sinks: UpdateSenders,
    pub position: Position,
}

/// A query that is kept.
#[derive(Debug)]
pub(super) struct EngineQuery {
    pub(super) compiled: Arc<Compiled>,
    pub(super) plan: PlanName,
    /// How many follow it, by shard.
    pub(super) followers: Vec<usize>,
    /// Reads that are to bring it up to date.
    pub(super) behind: usize,
}

/// Someone who follows a query.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueryFollower {
    pub(super) query: QueryId,
    pub(super) shard: usize,
}

/// Someone whose past is being read.
#[derive(Debug)]
struct Resuming {
    shard: usize,
    compiled: Arc<Compiled>,
    from: Position,
    reading: AbortHandle,
}

/// A past that was read, for the query engine to use.
#[derive(Debug)]
struct ResumeRead {
    who: Subscriber,
    past: Result<Option<ReplayedChanges>, StoreError>,
    /// Held until the past is used.
    place: Option<OwnedSemaphorePermit>,
}

/// The query engine at work.
#[derive(Debug)]
pub(super) struct RunningQueryEngine {
    pub(super) hub: Arc<Hub>,
    pub(super) stop: CancellationToken,
    pub(super) engine: Engine,
    pub(super) sinks: UpdateSenders,
    pub(super) seats: HashMap<Subscriber, QueryFollower>,
    pub(super) kept: HashMap<QueryId, EngineQuery>,
    /// By the table's stream: what keeps its images coming, and how many queries need them.
    pub(super) attended: HashMap<Arc<str>, (TableGuard, usize)>,
    pub(super) reads: Reads,
    pub(super) settling: UnsettledReads,
    /// Reads that are under way, or are not settled yet.
    pub(super) asks: HashMap<AskId, QueryId>,
    /// Reads whose rows are told when the log is there.
    pub(super) marks: Vec<(Position, AskId)>,
    resuming: HashMap<Subscriber, Resuming>,
    pasts: JoinSet<ResumeRead>,
    /// One permit for each past in memory.
    past_places: Arc<Semaphore>,
    /// Everything up to here has been applied, and no transaction is open there.
    pub(super) whole: Position,
    /// The transaction whose events are coming.
    pub(super) open: Option<i64>,
    /// What was missed of the log.
    pub(super) lagging: Option<Lagging>,
    /// When what is being applied happened.
    pub(super) created_at_ms: i64,
    pub(super) out: Vec<Output>,
    /// What each shard is to be told.
    pub(super) news: Vec<Vec<Arc<News>>>,
    /// How many each shard serves.
    serving: Vec<usize>,
    /// The place of the last batch of each shard.
    told: Vec<Position>,
}

impl QueryEngineTask {
    /// Runs until `stop`.
    pub async fn run(self, hub: Arc<Hub>, stop: CancellationToken) {
        let QueryEngineTask { mut orders, mut events, sinks, position } = self;
        let mut keeper = RunningQueryEngine::new(hub, sinks, position, stop.clone());
        let mut count = tokio::time::interval(COUNT_EVERY);
        loop {
            let now = Instant::now();
            let store = Arc::clone(&keeper.hub.store);
            let begun = keeper.reads.begin(&store, now, |ask| keeper.engine.awaits(ask));
            if !begun.dropped.is_empty() {
                begun.dropped.iter().for_each(|ask| keeper.answered(*ask));
                keeper.send().await;
            }
            let due = keeper.settling.begin(&store, now).into_iter().chain(begun.next).min();
            let due = due.unwrap_or_else(|| now + COUNT_EVERY);
            tokio::select! {
                () = stop.cancelled() => return,
                order = orders.recv() => match order {
                    Some(order) => {
                        keeper.obey(order);
                        for _ in 1..ORDERS_A_TURN {
                            let Ok(order) = orders.try_recv() else { break };
                            keeper.obey(order);
                        }
                    }
                    None => return,
                },
                // What comes after something that was missed waits for that.
                batch = events.recv(), if keeper.lagging.is_none() => match batch {
                    Ok(batch) => keeper.apply(&batch).await,
                    Err(broadcast::error::RecvError::Lagged(_)) => keeper.lag(),
                    Err(broadcast::error::RecvError::Closed) => return,
                },
                () = RunningQueryEngine::lagging(keeper.lagging) => keeper.catch_up().await,
                done = keeper.reads.next() => keeper.read(done).await,
                (asks, mark) = keeper.settling.next() => keeper.settled(&asks, mark),
                Some(Ok(past)) = keeper.pasts.join_next(), if !keeper.pasts.is_empty() => {
                    keeper.resume(past).await;
                }
                () = tokio::time::sleep_until(due) => {}
                _ = count.tick() => keeper.count(),
            }
            for ask in keeper.settling.overdue(Instant::now()) {
                keeper.engine.unsettled_in_time(ask, &mut keeper.out);
                keeper.tell();
                keeper.answered(ask);
            }
            keeper.tell();
            keeper.reach_marks();
            keeper.send().await;
        }
    }
}

impl RunningQueryEngine {
    fn new(
        hub: Arc<Hub>,
        sinks: UpdateSenders,
        position: Position,
        stop: CancellationToken,
    ) -> RunningQueryEngine {
        let options = &hub.options.queries;
        let limits = EngineOptions {
            rows_max: options.rows_max,
            transaction_rows_max: options.transaction_rows_max,
            state_bytes_max: options.state_bytes_max,
            total_state_bytes_max: options.node_state_bytes_max,
            unindexed_max: options.unindexed_max,
        };
        RunningQueryEngine {
            engine: Engine::new(limits, tidewire_query::Position(position.number())),
            news: sinks.iter().map(|_| Vec::new()).collect(),
            told: sinks.iter().map(|_| position).collect(),
            serving: sinks.iter().map(|_| 0).collect(),
            sinks,
            seats: HashMap::new(),
            kept: HashMap::new(),
            attended: HashMap::new(),
            reads: Reads::new(options),
            settling: UnsettledReads::default(),
            asks: HashMap::new(),
            marks: Vec::new(),
            resuming: HashMap::new(),
            pasts: JoinSet::new(),
            past_places: Arc::new(Semaphore::new(PASTS_MAX)),
            whole: position,
            open: None,
            lagging: None,
            created_at_ms: 0,
            out: Vec::new(),
            hub,
            stop,
        }
    }

    pub(crate) fn position(&self) -> Position {
        Position::new(self.engine.position().0)
    }

    fn obey(&mut self, order: EngineCommand) {
        match order {
            EngineCommand::Subscribe { who, shard, compiled, resume } => {
                self.attend(&compiled);
                let from = resume.filter(|from| resume::may_resume(&self.hub, &compiled, *from));
                let Some(from) = from else { return self.subscribe(who, shard, compiled) };
                let reading = self.read_past(who, Arc::clone(&compiled), from);
                self.resuming.insert(who, Resuming { shard, compiled, from, reading });
            }
            EngineCommand::Again(who) => self.engine.again(who, &mut self.out),
            EngineCommand::Unsubscribe(who) => {
                if let Some(resuming) = self.resuming.remove(&who) {
                    resuming.reading.abort();
                    return self.release(&resuming.compiled);
                }
                self.engine.unsubscribe(who, &mut self.out);
                self.tell();
                self.leave(who);
            }
            EngineCommand::Count { key, reply } => {
                let kept = self.kept.values().find(|kept| kept.compiled.query.key == key);
                // Whoever asked may have gone.
                let _ = reply.send(kept.map_or(0, |kept| kept.followers.iter().sum()));
            }
        }
        self.tell();
    }

    /// Takes someone in, whose tables are attended.
    fn subscribe(&mut self, who: Subscriber, shard: usize, compiled: Arc<Compiled>) {
        let mut out = Vec::new();
        let id = self.engine.subscribe(Arc::clone(&compiled.query), who, &mut out);
        self.seat(id, who, shard, compiled);
        self.out.append(&mut out);
        self.tell();
    }

    fn seat(&mut self, id: QueryId, who: Subscriber, shard: usize, compiled: Arc<Compiled>) {
        self.seats.insert(who, QueryFollower { query: id, shard });
        self.serving[shard] += 1;
        if let Some(kept) = self.kept.get_mut(&id) {
            kept.followers[shard] += 1;
            // The query attends its tables once.
            return self.release(&compiled);
        }
        let plan = self.engine.plan(id).unwrap_or_else(|| compiled.query.plan.name());
        let mut followers = vec![0; self.sinks.len()];
        followers[shard] = 1;
        self.kept.insert(id, EngineQuery { compiled, plan, followers, behind: 0 });
    }

    /// Someone follows no more. The last one takes the query along.
    pub(super) fn leave(&mut self, who: Subscriber) {
        let Some(QueryFollower { query, shard }) = self.seats.remove(&who) else { return };
        self.serving[shard] -= 1;
        let Some(kept) = self.kept.get_mut(&query) else { return };
        kept.followers[shard] -= 1;
        if kept.followers.iter().all(|count| *count == 0)
            && let Some(kept) = self.kept.remove(&query)
        {
            self.release(&kept.compiled);
            self.reads.forget(query);
        }
    }

    fn attend(&mut self, compiled: &Compiled) {
        for table in &compiled.query.dependencies {
            let topic_guard = self.hub.tail.attend_table(&table.table);
            let stream = Arc::clone(topic_guard.stream());
            self.attended.entry(stream).or_insert((topic_guard, 0)).1 += 1;
        }
    }

    pub(super) fn release(&mut self, compiled: &Compiled) {
        for stream in resume::streams(compiled).iter() {
            if let Some((_, count)) = self.attended.get_mut(stream.as_str()) {
                *count -= 1;
                if *count == 0 {
                    self.attended.remove(stream.as_str());
                }
            }
        }
    }

    /// Has what happened since someone's offset read, when there is a place for it.
    fn read_past(
        &mut self,
        who: Subscriber,
        compiled: Arc<Compiled>,
        from: Position,
    ) -> AbortHandle {
        let (hub, places) = (Arc::clone(&self.hub), Arc::clone(&self.past_places));
        self.pasts.spawn(async move {
            // The places are never closed.
            let place = places.acquire_owned().await.ok();
            let read = AssertUnwindSafe(resume::read(&hub, &compiled, from)).catch_unwind();
            let past = read.await.unwrap_or_else(|_| {
                tracing::error!(
                    "could not read the changes that a live query missed; sending all rows"
                );
                Ok(None)
            });
            ResumeRead { who, past, place }
        })
    }

    /// What happened since someone's offset was read, up to where the log ended then.
    async fn resume(&mut self, read: ResumeRead) {
        let ResumeRead { who, past, place } = read;
        let Some(resuming) = self.resuming.remove(&who) else { return };
        let Resuming { shard, compiled, from, .. } = resuming;
        let past = match past {
            Ok(Some(past)) if from <= self.position() => self.rest_of(&compiled, past).await,
            _ => Ok(None),
        };
        let Ok(Some(ReplayedChanges { mut events, .. })) = past else {
            return self.subscribe(who, shard, compiled);
        };
        let seen = self.position();
        events.retain(|event| event.position <= seen);
        if !resume::is_told_by_rows(&events, &resume::streams(&compiled)) {
            return self.subscribe(who, shard, compiled);
        }
        let told: Vec<_> = events.iter().map(|event| self.event(event)).collect();
        let mut out = Vec::new();
        let id = self.engine.resume(Arc::clone(&compiled.query), who, &told, &mut out);
        drop(told);
        drop((events, place));
        self.seat(id, who, shard, Arc::clone(&compiled));
        // Else all rows are coming.
        if out.iter().any(|output| matches!(output, Output::Settled { .. })) {
            let (plan, to) = (compiled.query.plan.name(), Recipients::Only(id, vec![who]));
            self.put(News::Resumed { to, compiled, plan, from });
            self.hub.queries.counters.resumed();
        }
        self.out.append(&mut out);
        self.tell();
    }

    /// Reads the last stretch: while it is read, nothing is applied.
    async fn rest_of(
        &self,
        compiled: &Compiled,
        mut past: ReplayedChanges,
    ) -> Result<Option<ReplayedChanges>, StoreError> {
        let streams = resume::streams(compiled);
        while past.up_to < self.position() {
            if !resume::read_on(&self.hub.store, &streams, &mut past).await? {
                return Ok(None);
            }
        }
        Ok(Some(past))
    }

    /// Gives each shard what is for it.
    pub(super) async fn send(&mut self) {
        for (shard, sink) in self.sinks.iter().enumerate() {
            let news = std::mem::take(&mut self.news[shard]);
            let has_moved = self.serving[shard] > 0 && self.told[shard] < self.whole;
            if news.is_empty() && !has_moved {
                continue;
            }
            self.told[shard] = self.whole;
            // A shard that is gone belongs to a server that stops.
            let _ = sink.send(Arc::new(QueryUpdates { position: self.whole, news })).await;
        }
    }

    fn count(&self) {
        let counters = &self.hub.queries.counters;
        counters.hold(&self.engine, self.reads.len(), self.kept.values());
    }
}
