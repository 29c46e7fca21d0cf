//! The engine's reads of the database: their order, how many run at once, and retries.
//!
//! Those who wait for their first rows come first, then what a query lacks to go on, then queries that
//! are run again. Of these each waits a while after the last time, longer if it takes long, so that a
//! busy table and a slow query do not take the database for themselves. Nor does anyone who asks for
//! much: they take turns with the others, and the more others there are the fewer places are theirs.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::task::JoinSet;
use tokio::time::Instant;

use tidewire_query::{AskId, AskKind, QueryId};
use tidewire_store::{LiveRead, LiveRows, SharedStore, SqlError, SqlProblem};

use super::fair_queue::FairQueue;
use super::problem;
use tidewire_access::auth::Who;
use tidewire_access::options::QueryOptions;

/// A query that is run again waits this many times as long as it took.
const PAUSE_FACTOR: u32 = 4;
/// How long what failed for the moment waits before it is tried again: at first, and at most.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);
/// Asks that may wait before those are looked for that nobody awaits.
const SWEEP_MIN: usize = 1_024;
/// How often in a row a query may take too long.
pub(super) const SLOW_MAX: u32 = 3;

/// Something to read.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) id: AskId,
    pub(super) query: QueryId,
    pub(super) kind: AskKind,
    /// On whose account.
    pub(super) owner: Who,
    pub(super) read: LiveRead,
    /// Not before this.
    pub(super) due: Instant,
}

/// What became of it.
#[derive(Debug)]
pub(super) struct ReadResult {
    pub(super) ask: Ask,
    pub(super) outcome: Result<LiveRows, SqlError>,
    pub(super) took: Duration,
}

/// How a query has fared.
#[derive(Debug, Default)]
struct ReadBackoff {
    /// When it may be run again.
    rest_until: Option<Instant>,
    slow: u32,
    failures: u32,
}

/// What is under way on someone's account.
#[derive(Debug, Default)]
struct Running {
    reads: usize,
    requeries: usize,
}

/// Asks that wait, of one kind.
#[derive(Debug, Default)]
struct WaitingReads {
    /// May begin.
    ready: FairQueue<Who, Ask>,
    /// By when they may begin, the earliest first.
    later: BinaryHeap<Reverse<DelayedRead>>,
}

/// An ask that is not due, in the order of when it is.
#[derive(Debug)]
struct DelayedRead(Ask);

impl DelayedRead {
    fn order(&self) -> (Instant, u64) {
        (self.0.due, self.0.id.0)
    }
}

impl PartialEq for DelayedRead {
    fn eq(&self, other: &DelayedRead) -> bool {
        self.order() == other.order()
    }
}

impl Eq for DelayedRead {}

impl PartialOrd for DelayedRead {
    fn partial_cmp(&self, other: &DelayedRead) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for DelayedRead {
    fn cmp(&self, other: &DelayedRead) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

impl WaitingReads {
    fn len(&self) -> usize {
        self.ready.len() + self.later.len()
    }

    /// When the next of those that are not due is.
    fn next_due(&self) -> Option<Instant> {
        self.later.peek().map(|Reverse(DelayedRead(ask))| ask.due)
    }

    /// Lets those begin that are due.
    fn ripen(&mut self, now: Instant) {
        while self.next_due().is_some_and(|due| due <= now)
            && let Some(Reverse(DelayedRead(ask))) = self.later.pop()
        {
            let owner = ask.owner.clone();
            self.ready.push(&owner, ask);
        }
    }
}

/// What became of asks that were to begin.
#[derive(Debug, Default)]
pub(crate) struct StartedReads {
    /// When more may begin, if nothing else happens before.
    pub(super) next: Option<Instant>,
    /// Those that nobody awaits any more.
    pub(super) dropped: Vec<AskId>,
}

/// The reads of a node.
#[derive(Debug)]
pub(super) struct Reads {
    waiting: [WaitingReads; 3],
    /// With more that wait, those that nobody awaits are looked for among them.
    sweep_at: usize,
    running: JoinSet<ReadResult>,
    requeries: usize,
    /// How many are under way on whose account, and how many of them run a query again.
    owners: HashMap<Who, Running>,
    paces: HashMap<QueryId, ReadBackoff>,
    reads_max: usize,
    requeries_max: usize,
    pause: Duration,
}

/// Whether one more may begin of someone who has so many under way, while there is room for so many: the last
/// is always for one who has none. The store's places are handed out likewise.
fn may_begin(own: usize, free: usize) -> bool {
    own < free
}

fn rank(kind: AskKind) -> usize {
    match kind {
        AskKind::Begin => 0,
        AskKind::Refill => 1,
        AskKind::Requery => 2,
    }
}

/// What is said of a read that panicked: its query ends, all others go on.
fn broke_off() -> SqlError {
    tracing::error!("a live query's read was interrupted; the query ends");
    SqlError::Wrong(Box::new(SqlProblem {
        code: problem::FAILED,
        message: "the server failed to read the result".to_owned(),
        position: None,
        hint: None,
    }))
}

impl Reads {
    pub(super) fn new(options: &QueryOptions) -> Reads {
        Reads {
            waiting: Default::default(),
            sweep_at: SWEEP_MIN,
            running: JoinSet::new(),
            requeries: 0,
            owners: HashMap::new(),
            paces: HashMap::new(),
            reads_max: options.reads_max,
            requeries_max: options.requeries_max,
            pause: options.requery_pause,
        }
    }

    /// Takes up an ask.
    pub(super) fn push(&mut self, mut ask: Ask) {
        if ask.kind == AskKind::Requery
            && let Some(rest) = self.paces.get(&ask.query).and_then(|pace| pace.rest_until)
        {
            ask.due = ask.due.max(rest);
        }
        self.wait(ask);
    }

    fn wait(&mut self, ask: Ask) {
        self.waiting[rank(ask.kind)].later.push(Reverse(DelayedRead(ask)));
    }

    /// Begins what may begin, of what is awaited.
    pub(super) fn begin(
        &mut self,
        store: &SharedStore,
        now: Instant,
        awaits: impl Fn(AskId) -> bool,
    ) -> StartedReads {
        let mut begun = StartedReads::default();
        if self.waiting() > self.sweep_at {
            self.sweep(&awaits, &mut begun.dropped);
        }
        for rank in 0..self.waiting.len() {
            self.waiting[rank].ripen(now);
            while let Some(ask) = self.next_ready(rank) {
                if awaits(ask.id) {
                    self.run(store, ask);
                } else {
                    begun.dropped.push(ask.id);
                }
            }
        }
        begun.next = self.waiting.iter().filter_map(WaitingReads::next_due).min();
        begun
    }

    fn next_ready(&mut self, rank: usize) -> Option<Ask> {
        let reads: usize = self.owners.values().map(|running| running.reads).sum();
        let free = self.reads_max.saturating_sub(reads);
        let requeries_free = self.requeries_max.saturating_sub(self.requeries);
        let is_requery = rank == self::rank(AskKind::Requery);
        let owners = &self.owners;
        let may = |owner: &Who| {
            let (reads, requeries) =
                owners.get(owner).map_or((0, 0), |running| (running.reads, running.requeries));
            may_begin(reads, free) && (!is_requery || may_begin(requeries, requeries_free))
        };
        self.waiting[rank].ready.pop(may)
    }

    fn run(&mut self, store: &SharedStore, ask: Ask) {
        let is_requery = usize::from(ask.kind == AskKind::Requery);
        self.requeries += is_requery;
        let running = self.owners.entry(ask.owner.clone()).or_default();
        running.reads += 1;
        running.requeries += is_requery;
        let store = SharedStore::clone(store);
        self.running.spawn(async move {
            let begun = Instant::now();
            let read = AssertUnwindSafe(store.read_query(ask.read.clone())).catch_unwind();
            let outcome = read.await.unwrap_or_else(|_| Err(broke_off()));
            ReadResult { ask, outcome, took: begun.elapsed() }
        });
    }

    /// Drops what nobody awaits: it would wait for its turn to be dropped, and others may come first for
    /// long.
    fn sweep(&mut self, awaits: impl Fn(AskId) -> bool, dropped: &mut Vec<AskId>) {
        let mut stays = |ask: &Ask| {
            let stays = awaits(ask.id);
            if !stays {
                dropped.push(ask.id);
            }
            stays
        };
        for waiting in &mut self.waiting {
            waiting.ready.retain(&mut stays);
            waiting.later.retain(|Reverse(DelayedRead(ask))| stays(ask));
        }
        self.sweep_at = SWEEP_MIN.max(self.waiting() * 2);
    }

    /// The next that is done. Waits for ever while none is under way.
    pub(super) async fn next(&mut self) -> ReadResult {
        loop {
            match self.running.join_next().await {
                Some(Ok(done)) => {
                    self.requeries -= usize::from(done.ask.kind == AskKind::Requery);
                    self.ended(&done.ask.owner, done.ask.kind);
                    return done;
                }
                Some(Err(error)) => tracing::error!(%error, "a live query's read was interrupted"),
                None => std::future::pending().await,
            }
        }
    }

    fn ended(&mut self, owner: &Who, kind: AskKind) {
        if let Some(running) = self.owners.get_mut(owner) {
            running.reads -= 1;
            running.requeries -= usize::from(kind == AskKind::Requery);
            if running.reads == 0 {
                self.owners.remove(owner);
            }
        }
    }

    /// Notes that a read gave its rows.
    pub(super) fn succeeded(&mut self, query: QueryId, took: Duration, now: Instant) {
        let rest_until = Some(now + self.pause.max(took * PAUSE_FACTOR));
        self.paces.insert(query, ReadBackoff { rest_until, slow: 0, failures: 0 });
    }

    /// Tries again what failed for the moment.
    pub(super) fn again(&mut self, mut ask: Ask, now: Instant) {
        let pace = self.paces.entry(ask.query).or_default();
        let wait = RETRY_FIRST * 2_u32.saturating_pow(pace.failures.min(10));
        pace.failures += 1;
        ask.due = now + wait.min(RETRY_MAX);
        self.wait(ask);
    }

    /// Notes that a read took too long. Returns whether that was once too often: at once for first rows,
    /// because a query that nobody has seen rows of would hold up others three times for nothing.
    pub(super) fn was_slow(&mut self, query: QueryId, kind: AskKind) -> bool {
        if kind == AskKind::Begin {
            return true;
        }
        let pace = self.paces.entry(query).or_default();
        pace.slow += 1;
        pace.slow >= SLOW_MAX
    }

    /// A query is not kept any more. What was asked for it is dropped when its turn comes.
    pub(super) fn forget(&mut self, query: QueryId) {
        self.paces.remove(&query);
    }

    fn waiting(&self) -> usize {
        self.waiting.iter().map(WaitingReads::len).sum()
    }

    /// Reads that wait or are under way.
    pub(super) fn len(&self) -> usize {
        self.running.len() + self.waiting()
    }
}

#[cfg(test)]
mod tests {
    use tidewire_store::SqlLimits;

    use super::*;

    fn ask(id: u64, kind: AskKind, now: Instant) -> Ask {
        let limits = SqlLimits { timeout_ms: 1, rows_max: 1, bytes_max: 1 };
        let read = LiveRead { sql: String::new(), tables: Vec::new(), limits, account: None };
        Ask { id: AskId(id), query: QueryId(1), kind, owner: Who::Anyone, read, due: now }
    }

    #[test]
    fn a_query_that_takes_long_rests_longer() {
        let (mut reads, now) = (Reads::new(&QueryOptions::default()), Instant::now());
        reads.succeeded(QueryId(1), Duration::from_secs(1), now);
        reads.push(ask(1, AskKind::Requery, now));
        reads.push(ask(2, AskKind::Begin, now));
        assert_eq!(reads.waiting[2].next_due(), Some(now + Duration::from_secs(4)));
        let first = reads.waiting[0].next_due();
        assert_eq!(first, Some(now), "who waits for the first rows does not wait for it");
    }

    #[test]
    fn what_fails_waits_longer_each_time_and_not_for_ever() {
        let (mut reads, now) = (Reads::new(&QueryOptions::default()), Instant::now());
        let mut waits = Vec::new();
        for id in 0..20 {
            reads.again(ask(id, AskKind::Begin, now), now);
            waits.push(reads.waiting[0].later.pop().expect("it waits").0.0.due - now);
        }
        assert_eq!(waits[0], RETRY_FIRST);
        assert!(waits.is_sorted());
        assert_eq!(waits[19], RETRY_MAX);
        reads.succeeded(QueryId(1), Duration::ZERO, now);
        reads.again(ask(20, AskKind::Begin, now), now);
        let due = reads.waiting[0].next_due();
        assert_eq!(due, Some(now + RETRY_FIRST), "what went well is forgotten");
    }

    #[test]
    fn asks_are_ready_in_the_order_in_which_they_are_due() {
        let now = Instant::now();
        let mut waiting = WaitingReads::default();
        for (id, wait_ms) in [(1, 30), (2, 10), (3, 99), (4, 10)] {
            let due = now + Duration::from_millis(wait_ms);
            waiting.later.push(Reverse(DelayedRead(ask(id, AskKind::Requery, due))));
        }
        waiting.ripen(now + Duration::from_millis(30));
        let ready = std::iter::from_fn(|| waiting.ready.pop(|_| true));
        let ready: Vec<_> = ready.map(|ask| ask.id.0).collect();
        assert_eq!(ready, [2, 4, 1]);
        assert_eq!(waiting.next_due(), Some(now + Duration::from_millis(99)));
    }

    /// Begins all that may begin, without a database: whose they are.
    fn begin(reads: &mut Reads, now: Instant) -> Vec<Who> {
        let mut begun = Vec::new();
        for rank in 0..reads.waiting.len() {
            reads.waiting[rank].ripen(now);
            while let Some(ask) = reads.next_ready(rank) {
                let is_requery = usize::from(ask.kind == AskKind::Requery);
                let running = reads.owners.entry(ask.owner.clone()).or_default();
                running.reads += 1;
                running.requeries += is_requery;
                reads.requeries += is_requery;
                begun.push(ask.owner);
            }
        }
        begun
    }

    fn of(owner: &Who, count: u64, kind: AskKind, now: Instant) -> impl Iterator<Item = Ask> {
        let owner = owner.clone();
        (0..count).map(move |id| Ask { owner: owner.clone(), ..ask(id, kind, now) })
    }

    fn user(name: &str) -> Who {
        Who::User { name: name.into(), host: None }
    }

    #[test]
    fn who_has_nothing_under_way_waits_for_nobody() {
        for kind in [AskKind::Begin, AskKind::Requery] {
            let options = QueryOptions { reads_max: 8, requeries_max: 8, ..<_>::default() };
            let (mut reads, now) = (Reads::new(&options), Instant::now());
            let (ann, bob, cem) = (user("ann"), user("bob"), user("cem"));
            of(&ann, 12, kind, now).for_each(|ask| reads.push(ask));
            let begun = begin(&mut reads, now);
            assert_eq!(begun.len(), 4, "half of them: {begun:?}");
            of(&bob, 12, kind, now).for_each(|ask| reads.push(ask));
            let begun = begin(&mut reads, now);
            assert_eq!(begun, [bob.clone(), bob.clone()]);
            of(&cem, 12, kind, now).for_each(|ask| reads.push(ask));
            assert_eq!(begin(&mut reads, now), [cem], "none of the others has ended");
            of(&Who::Admin, 1, kind, now).for_each(|ask| reads.push(ask));
            assert_eq!(begin(&mut reads, now), [Who::Admin], "nor here");
            reads.requeries -= usize::from(kind == AskKind::Requery);
            reads.ended(&ann, kind);
            assert_eq!(begin(&mut reads, now), [], "the last is for one who has none");
        }
    }

    #[test]
    fn those_who_wait_take_turns() {
        let options = QueryOptions { reads_max: 2, ..<_>::default() };
        let (mut reads, now) = (Reads::new(&options), Instant::now());
        let (ann, bob) = (user("ann"), user("bob"));
        for owner in [&ann, &bob] {
            of(owner, 3, AskKind::Begin, now).for_each(|ask| reads.push(ask));
        }
        let mut order = begin(&mut reads, now);
        for at in 0..4 {
            reads.ended(&order[at].clone(), AskKind::Begin);
            order.extend(begin(&mut reads, now));
        }
        assert_eq!(order, [&ann, &bob, &ann, &bob, &ann, &bob].map(Who::clone));
    }

    #[test]
    fn a_sweep_leaves_what_is_awaited() {
        let (mut reads, now) = (Reads::new(&QueryOptions::default()), Instant::now());
        for id in 0..4 {
            reads.push(ask(id, AskKind::Begin, now));
        }
        reads.waiting[0].ripen(now);
        reads.push(ask(4, AskKind::Requery, now));
        reads.push(ask(5, AskKind::Requery, now));
        let mut dropped = Vec::new();
        reads.sweep(|ask| ask.0 % 2 == 0, &mut dropped);
        assert_eq!(dropped, [1, 3, 5].map(AskId));
        assert_eq!(reads.len(), 3);
    }

    #[test]
    fn three_slow_reads_in_a_row_are_too_many() {
        let mut reads = Reads::new(&QueryOptions::default());
        let is_too_slow = |reads: &mut Reads| reads.was_slow(QueryId(1), AskKind::Requery);
        assert!(!is_too_slow(&mut reads) && !is_too_slow(&mut reads));
        assert!(is_too_slow(&mut reads));
        reads.succeeded(QueryId(1), Duration::ZERO, Instant::now());
        assert!(!is_too_slow(&mut reads));
    }

    #[test]
    fn one_slow_read_of_first_rows_is_too_many() {
        let mut reads = Reads::new(&QueryOptions::default());
        assert!(reads.was_slow(QueryId(1), AskKind::Begin));
        assert!(!reads.was_slow(QueryId(1), AskKind::Refill), "that is another's");
    }
}
