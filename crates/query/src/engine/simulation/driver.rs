//! Everything that happens around an engine, one step at a time, in an order that a seed decides.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::client::Client;
use super::database::{Database, Seen};
use super::queries::SimulatedQuery;
use super::random::Random;
use super::values;
use crate::engine::query_context::whole;
use crate::engine::{
    AskId, AskKind, EndReason, Engine, EngineOptions, Output, QueryId, ReadFailed, Recipients,
    Rows, Subscriber, TableNews,
};
use crate::plan::Query;
use crate::position::Position;

/// What kinds of things happen.
#[derive(Debug, Clone, Copy)]
pub(super) struct SimulationConfig {
    pub(super) is_one_file: bool,
    /// Tables are truncated and bound anew, and images are missing.
    pub(super) has_quirks: bool,
    pub(super) options: EngineOptions,
}

/// What was seen of each kind, so that nothing is tested only by its name.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct RareCases {
    pub(super) begun: u64,
    pub(super) unplaced: u64,
    pub(super) settled: u64,
    pub(super) resets: u64,
    pub(super) changes: u64,
    pub(super) demotions: u64,
    pub(super) ended: u64,
    pub(super) resumed: u64,
    pub(super) quiet: u64,
}

impl std::ops::AddAssign for RareCases {
    fn add_assign(&mut self, other: RareCases) {
        self.begun += other.begun;
        self.unplaced += other.unplaced;
        self.settled += other.settled;
        self.resets += other.resets;
        self.changes += other.changes;
        self.demotions += other.demotions;
        self.ended += other.ended;
        self.resumed += other.resumed;
        self.quiet += other.quiet;
    }
}

#[derive(Debug)]
enum Read {
    Requested,
    Done(Seen),
    Answered,
    /// The mark waits for these.
    Marking(BTreeSet<i64>),
}

#[derive(Debug)]
pub(super) struct Simulation {
    config: SimulationConfig,
    random: Random,
    database: Database,
    engine: Engine,
    asked: Arc<[SimulatedQuery]>,
    clients: BTreeMap<Subscriber, Client>,
    /// Those who left with a position.
    away: BTreeMap<Subscriber, Client>,
    reads: BTreeMap<AskId, (String, Read)>,
    /// Reads on which those who have begun wait.
    behind: BTreeMap<AskId, QueryId>,
    last: u64,
    bound: u128,
    pub(super) seldom: RareCases,
}

impl Simulation {
    pub(super) fn new(
        config: SimulationConfig,
        asked: Arc<[SimulatedQuery]>,
        seed: u64,
    ) -> Simulation {
        let mut random = Random::new(seed);
        let mut database = Database::new(config.is_one_file, config.has_quirks);
        for _ in 0..random.below(4) {
            database.append();
        }
        let engine = Engine::new(config.options, database.tip());
        Simulation {
            config,
            random,
            database,
            engine,
            asked,
            clients: BTreeMap::new(),
            away: BTreeMap::new(),
            reads: BTreeMap::new(),
            behind: BTreeMap::new(),
            last: 0,
            bound: 1000,
            seldom: RareCases::default(),
        }
    }

    pub(super) fn step(&mut self) {
        match self.random.below(40) {
            0 | 1 if self.database.running().len() < 3 => drop(self.database.begin()),
            0..=11 => self.write(),
            12..=14 => self.end_one(),
            15..=18 => drop(self.database.log_some(Some(&mut self.random))),
            19 => self.database.append(),
            20..=24 => {
                let some = 1 + self.random.below(4);
                self.tail(some);
            }
            25 | 26 if self.clients.len() < 8 => self.subscribe(),
            27 if self.random.one_in(2) => self.leave(),
            28 => self.come_back(),
            29 if self.random.one_in(2) => self.again(),
            30..=34 => self.serve_one(),
            35..=37 => self.settle_one(),
            38 => self.hurry(),
            39 if self.config.has_quirks && self.random.one_in(12) => self.table_news(),
            _ => {}
        }
        self.weigh();
    }

    fn write(&mut self) {
        let running = self.database.running();
        if let Some(txid) = running.get(self.random.below(running.len().max(1))) {
            self.database.write(*txid, &mut self.random);
        }
    }

    fn end_one(&mut self) {
        let running = self.database.running();
        if let Some(txid) = running.get(self.random.below(running.len().max(1))) {
            let commits = !self.random.one_in(6);
            self.database.end(*txid, commits);
        }
    }

    fn tail(&mut self, most: usize) {
        for _ in 0..most {
            let next = self.engine.position().0;
            let at = usize::try_from(next).expect("a small log");
            let Some(logged) = self.database.log.get(at).cloned() else { return };
            let mut out = Vec::new();
            self.engine.apply(&logged.event(Position(next + 1)), &mut out);
            self.hear(out);
            self.check_quiet();
        }
    }

    /// Whoever is at a position, and whose query asks for nothing on their behalf, is at every position
    /// from there on.
    fn check_quiet(&mut self) {
        self.behind.retain(|ask, _| self.engine.asks.query(*ask).is_some());
        if self.engine.open.is_some() {
            return;
        }
        for client in self.clients.values() {
            let is_behind = self.behind.values().any(|query| *query == client.query);
            if client.is_placed && !client.waits_for_reset && !is_behind {
                client.check(self.engine.position(), &self.asked[client.asked], &self.database);
                self.seldom.quiet += 1;
            }
        }
    }

    fn subscribe(&mut self) {
        let asked = self.random.below(self.asked.len());
        self.last += 1;
        let who = Subscriber(self.last);
        let query = Arc::clone(&self.asked[asked].query);
        let mut out = Vec::new();
        let id = self.engine.subscribe(query, who, &mut out);
        let mut client = Client::new(id, asked);
        // Whoever has seen the log up to here is not told of an earlier position.
        client.position = Some(whole(self.engine.position(), self.engine.open.as_ref()));
        self.clients.insert(who, client);
        self.hear(out);
    }

    fn anyone(&mut self) -> Option<Subscriber> {
        let at = self.random.below(self.clients.len().max(1));
        self.clients.keys().nth(at).copied()
    }

    fn leave(&mut self) {
        let Some(who) = self.anyone() else { return };
        let mut out = Vec::new();
        self.engine.unsubscribe(who, &mut out);
        let client = self.clients.remove(&who).expect("a client");
        if client.is_placed && !client.waits_for_reset {
            self.away.insert(who, client);
        }
        self.hear(out);
    }

    fn come_back(&mut self) {
        let Some((who, mut client)) = self.away.pop_first() else { return };
        let offset = client.position.expect("it left with a position").0;
        let position = self.engine.position().0;
        let log = self.database.log.clone();
        let past = (offset..position)
            .map(|at| log[usize::try_from(at).expect("a small log")].event(Position(at + 1)));
        let past = past.collect::<Vec<_>>();
        let query = Arc::clone(&self.asked[client.asked].query);
        let mut out = Vec::new();
        client.query = self.engine.resume(query, who, &past, &mut out);
        client.is_placed = false;
        self.clients.insert(who, client);
        let reset = !out.iter().any(|output| matches!(output, Output::Settled { .. }));
        self.clients.get_mut(&who).expect("a client").waits_for_reset = reset;
        self.seldom.resumed += u64::from(!reset);
        self.hear(out);
    }

    fn again(&mut self) {
        let Some(who) = self.anyone() else { return };
        let client = self.clients.get_mut(&who).expect("a client");
        if client.rows.is_some() {
            client.waits_for_reset = true;
            let mut out = Vec::new();
            self.engine.again(who, &mut out);
            self.hear(out);
        }
    }

    /// A read is made, or its answer arrives.
    fn serve_one(&mut self) {
        let open = self
            .reads
            .iter()
            .filter(|(_, (_, read))| matches!(read, Read::Requested | Read::Done(_)));
        let open = open.map(|(ask, _)| *ask).collect::<Vec<_>>();
        let Some(ask) = open.get(self.random.below(open.len().max(1))).copied() else { return };
        let (sql, read) = self.reads.remove(&ask).expect("a read");
        let Read::Done(seen) = read else {
            let seen = self.database.read();
            self.reads.insert(ask, (sql, Read::Done(seen)));
            return;
        };
        let mut out = Vec::new();
        if self.random.one_in(10) {
            self.engine.rows(ask, Err(ReadFailed::Later), &mut out);
            self.reads.insert(ask, (sql, Read::Requested));
            return self.hear(out);
        }
        let asked = self
            .asked
            .iter()
            .find(|asked| [&*asked.query.read, &*asked.query.rerun].contains(&&*sql));
        let asked = asked.expect("a query of this simulation");
        let run = if *asked.query.read == *sql { asked.read } else { asked.run };
        let rows = run(&seen.contents);
        let rows = rows.iter().map(|row| values(row)).collect();
        let settled = seen.settled && (self.config.is_one_file || self.random.one_in(2));
        let (tip, snapshot) = (seen.tip, seen.snapshot);
        self.engine.rows(ask, Ok(Rows { tip, snapshot, settled, rows }), &mut out);
        if !settled {
            self.reads.insert(ask, (sql, Read::Answered));
        }
        self.hear(out);
    }

    /// A mark is asked for, or is set when all that was committed by then is in the log.
    fn settle_one(&mut self) {
        let open = self
            .reads
            .iter()
            .filter(|(_, (_, read))| matches!(read, Read::Answered | Read::Marking(_)));
        let open = open.map(|(ask, _)| *ask).collect::<Vec<_>>();
        let Some(ask) = open.get(self.random.below(open.len().max(1))).copied() else { return };
        let unlogged = self.database.unlogged();
        let (_, read) = self.reads.get_mut(&ask).expect("a read");
        match read {
            Read::Marking(waits) if waits.is_disjoint(&unlogged) => {
                let Some(mark) = self.database.mark() else { return };
                self.reads.remove(&ask);
                let mut out = Vec::new();
                self.engine.settled(ask, mark, &mut out);
                self.hear(out);
            }
            Read::Marking(_) => {}
            read => *read = Read::Marking(unlogged),
        }
    }

    fn hurry(&mut self) {
        let asks = self.reads.keys().copied().collect::<Vec<_>>();
        if let Some(ask) = asks.get(self.random.below(asks.len().max(1))) {
            let mut out = Vec::new();
            self.engine.unsettled_in_time(*ask, &mut out);
            self.hear(out);
        }
    }

    fn table_news(&mut self) {
        let news = match self.random.below(2) {
            0 => TableNews::Reread,
            _ => {
                let mut bound = HashMap::new();
                for id in self.engine.queries_of("t") {
                    let query = self.engine.query(id).expect("one of the table's");
                    if self.random.below(4) > 0 {
                        self.bound += 1;
                        let mut other = Query::clone(query);
                        other.key.0 += self.bound << 32;
                        bound.insert(id, Ok(Arc::new(other)));
                    }
                }
                let otherwise = EndReason { code: "schema_changed", message: None };
                TableNews::Rebound { bound, otherwise }
            }
        };
        if matches!(news, TableNews::Rebound { .. }) {
            for client in self.clients.values_mut() {
                client.waits_for_reset =
                    client.rows.is_some() && self.engine.queries_of("t").contains(&client.query);
            }
        }
        let mut out = Vec::new();
        self.engine.table("t", news, &mut out);
        self.hear(out);
    }

    /// What the engine says reaches whom it concerns.
    fn hear(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            let to = match &output {
                Output::Ask { ask, sql, kind, query } => {
                    if *kind != AskKind::Begin {
                        self.behind.insert(*ask, *query);
                    }
                    self.reads.insert(*ask, (sql.to_string(), Read::Requested));
                    continue;
                }
                Output::Plan { .. } => {
                    self.seldom.demotions += 1;
                    continue;
                }
                Output::Begin { to, at, reset, .. } => {
                    self.seldom.begun += 1;
                    self.seldom.unplaced += u64::from(at.is_none());
                    self.seldom.resets += u64::from(*reset);
                    to
                }
                Output::Change { to, .. } => {
                    self.seldom.changes += 1;
                    to
                }
                Output::Settled { to, .. } => {
                    self.seldom.settled += 1;
                    to
                }
                Output::End { to, .. } => to,
            };
            let (query, only) = match to {
                Recipients::All(query) => (*query, None),
                Recipients::Only(query, only) => (*query, Some(only)),
            };
            if let Some(only) = only {
                assert!(!only.is_empty(), "said to nobody: {output:?}");
                for who in only {
                    assert!(self.clients.contains_key(who), "{who:?} is gone: {output:?}");
                }
            }
            if let Output::End { reason, .. } = &output {
                let known = ["schema_changed", "result_too_large", "state_too_large"];
                assert!(known.contains(&reason.code), "{reason:?}");
                self.seldom.ended += 1;
                let only = only.expect("an end is for those who are named");
                self.clients.retain(|who, _| !only.contains(who));
                continue;
            }
            for (who, client) in &mut self.clients {
                let concerned = client.query == query
                    && only.map_or(client.rows.is_some(), |only| only.contains(who));
                if concerned {
                    client.hear(&output, &self.asked[client.asked], &self.database);
                }
            }
        }
    }

    /// Q10: what is held stays within its limits, between transactions.
    fn weigh(&self) {
        let stats = self.engine.stats();
        assert_eq!(stats.subscribers, self.clients.len());
        if self.engine.open.is_none() {
            assert!(stats.state_bytes <= self.config.options.total_state_bytes_max, "{stats:?}");
        }
    }

    /// Everything comes to its end: then everybody is where the log is, and when they are gone
    /// nothing is left of them.
    pub(super) fn finish(&mut self) {
        for txid in self.database.running() {
            self.database.end(txid, true);
        }
        for _ in 0..3000 {
            self.database.log_some(None);
            self.tail(100);
            self.serve_one();
            self.settle_one();
            self.settle_one();
            let is_at_rest = self.engine.position() == self.database.tip()
                && self.database.unlogged().is_empty()
                && self.reads.is_empty();
            if is_at_rest {
                break;
            }
        }
        assert!(self.reads.is_empty(), "reads without an end: {:?}", self.reads);
        for (who, client) in &self.clients {
            assert!(client.is_placed && !client.waits_for_reset, "{who:?} still waits: {client:?}");
            client.check(self.database.tip(), &self.asked[client.asked], &self.database);
        }
        let mut out = Vec::new();
        for who in std::mem::take(&mut self.clients).into_keys() {
            self.engine.unsubscribe(who, &mut out);
        }
        assert!(out.is_empty(), "{out:?}");
        let stats = self.engine.stats();
        assert_eq!((stats.queries, stats.subscribers, stats.state_bytes), (0, 0, 0));
        assert!(self.engine.registry.tables.is_empty() && self.engine.asks.is_empty());
    }
}
