//! A database as small as it can be: rows with versions, transactions that overlap, and a log that gets
//! them later than they commit and in another order, as far as they do not depend on each other.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::random::Random;
use crate::engine::{Change, Event, Kind};
use crate::position::Position;
use crate::snapshot::Snapshot;

pub(super) type Values = [i64; 3];

/// Rows by their own numbers, with their tables.
pub(super) type Contents = BTreeMap<usize, (usize, Values)>;

pub(super) const TABLES: [&str; 2] = ["t", "u"];

#[derive(Debug)]
struct Version {
    row: usize,
    table: usize,
    values: Values,
    made_by: i64,
    gone_by: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Running,
    Committed,
    Aborted,
}

#[derive(Debug)]
struct Work {
    status: Status,
    events: Vec<Logged>,
    after: BTreeSet<i64>,
    tables: BTreeSet<usize>,
    truncates: BTreeSet<usize>,
    is_logged: bool,
}

/// An event of the log: what truly happened, and what is told of it.
#[derive(Debug, Clone)]
pub(super) struct Logged {
    pub(super) txid: Option<i64>,
    tx_last: bool,
    /// Rows and what became of them.
    truth: Vec<(usize, Option<(usize, Values)>)>,
    told: Option<(usize, Kind, Option<String>, Option<String>)>,
}

impl Logged {
    pub(super) fn event(&self, at: Position) -> Event<'_> {
        let change = self.told.as_ref().map(|(table, kind, before, after)| Change {
            table: TABLES[*table],
            kind: *kind,
            before: before.as_ref().map(String::as_bytes),
            after: after.as_ref().map(String::as_bytes),
        });
        Event { at, txid: self.txid, tx_last: self.tx_last, change }
    }
}

/// What a read saw, when it was made.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) contents: Contents,
    pub(super) tip: Position,
    pub(super) snapshot: Snapshot,
    pub(super) settled: bool,
}

#[derive(Debug)]
pub(super) struct Database {
    /// Whether the log is written in the transactions themselves.
    is_one_file: bool,
    /// Whether events may tell less than happened.
    has_quirks: bool,
    versions: Vec<Version>,
    rows: usize,
    works: BTreeMap<i64, Work>,
    last_txid: i64,
    pub(super) log: Vec<Logged>,
    /// Events of a transaction of which a part is in the log.
    rest: Vec<Logged>,
    /// The contents at the position that was asked for last.
    known: RefCell<(usize, Contents)>,
}

impl Database {
    pub(super) fn new(is_one_file: bool, has_quirks: bool) -> Database {
        Database {
            is_one_file,
            has_quirks,
            versions: Vec::new(),
            rows: 0,
            works: BTreeMap::new(),
            last_txid: 100,
            log: Vec::new(),
            rest: Vec::new(),
            known: RefCell::default(),
        }
    }

    pub(super) fn running(&self) -> Vec<i64> {
        let running = self.works.iter().filter(|(_, work)| work.status == Status::Running);
        running.map(|(txid, _)| *txid).collect()
    }

    pub(super) fn begin(&mut self) -> i64 {
        self.last_txid += 1;
        let work = Work {
            status: Status::Running,
            events: Vec::new(),
            after: BTreeSet::new(),
            tables: BTreeSet::new(),
            truncates: BTreeSet::new(),
            is_logged: false,
        };
        self.works.insert(self.last_txid, work);
        self.last_txid
    }

    /// One statement of a transaction, as it falls; what another one holds is left alone.
    pub(super) fn write(&mut self, txid: i64, random: &mut Random) {
        let table = random.below(4) / 3;
        let others = self.works.iter().filter(|(other, work)| **other != txid && work.is_running());
        if others.clone().any(|(_, work)| work.truncates.contains(&table)) {
            return;
        }
        let is_shared = others.clone().any(|(_, work)| work.tables.contains(&table));
        let earlier = self.works.iter().filter(|(_, work)| work.status == Status::Committed);
        let earlier = earlier.filter(|(_, work)| work.truncates.contains(&table));
        let earlier = earlier.map(|(txid, _)| *txid).collect::<Vec<_>>();
        let work = self.works.get_mut(&txid).expect("it runs");
        work.after.extend(earlier);
        work.tables.insert(table);
        if self.has_quirks && !is_shared && random.one_in(25) {
            return self.truncate(txid, table);
        }
        match random.below(5) {
            0 | 1 => self.insert(txid, table, random),
            2 | 3 => self.update(txid, table, random),
            _ => self.delete(txid, table, random),
        }
    }

    fn insert(&mut self, txid: i64, table: usize, random: &mut Random) {
        let values = random_values(random);
        if !self.key_is_free(txid, table, values[0]) {
            return;
        }
        self.rows += 1;
        let row = self.rows;
        self.add(txid, row, table, values);
        self.tell(txid, table, Kind::Insert, vec![(row, None, Some(values))], random);
    }

    fn update(&mut self, txid: i64, table: usize, random: &mut Random) {
        let Some(at) = self.choose(txid, table, random) else { return };
        let (row, old) = (self.versions[at].row, self.versions[at].values);
        let mut new = random_values(random);
        if random.below(3) > 0 || !self.key_is_free(txid, table, new[0]) {
            new[0] = old[0];
        }
        self.versions[at].gone_by = Some(txid);
        self.add(txid, row, table, new);
        self.tell(txid, table, Kind::Update, vec![(row, Some(old), Some(new))], random);
    }

    fn delete(&mut self, txid: i64, table: usize, random: &mut Random) {
        let Some(at) = self.choose(txid, table, random) else { return };
        let (row, old) = (self.versions[at].row, self.versions[at].values);
        self.versions[at].gone_by = Some(txid);
        self.tell(txid, table, Kind::Delete, vec![(row, Some(old), None)], random);
    }

    fn truncate(&mut self, txid: i64, table: usize) {
        let works = &self.works;
        let before = works.iter().filter(|(other, work)| {
            **other != txid && work.status == Status::Committed && work.tables.contains(&table)
        });
        let before = before.map(|(other, _)| *other).collect::<Vec<_>>();
        let mut truth = Vec::new();
        for version in self.versions.iter_mut().filter(|version| version.table == table) {
            let is_made = works[&version.made_by].status != Status::Aborted;
            let is_gone = version.gone_by.is_some_and(|by| works[&by].status != Status::Aborted);
            if is_made && !is_gone {
                version.gone_by = Some(txid);
                truth.push((version.row, None));
            }
        }
        let work = self.works.get_mut(&txid).expect("it runs");
        work.after.extend(before);
        work.truncates.insert(table);
        let told = Some((table, Kind::Truncate, None, None));
        work.events.push(Logged { txid: Some(txid), tx_last: false, truth, told });
    }

    fn add(&mut self, txid: i64, row: usize, table: usize, values: Values) {
        self.versions.push(Version { row, table, values, made_by: txid, gone_by: None });
    }

    /// A row that the transaction may change: which is committed, or its own, and nobody's else.
    fn choose(&mut self, txid: i64, table: usize, random: &mut Random) -> Option<usize> {
        let free = (0..self.versions.len()).filter(|at| {
            let version = &self.versions[*at];
            let is_made =
                version.made_by == txid || self.works[&version.made_by].status == Status::Committed;
            let is_there =
                version.gone_by.is_none_or(|by| self.works[&by].status == Status::Aborted);
            version.table == table && is_made && is_there
        });
        let free = free.collect::<Vec<_>>();
        let at = *free.get(random.below(free.len().max(1)))?;
        let made_by = self.versions[at].made_by;
        self.works.get_mut(&txid).expect("it runs").after.insert(made_by);
        Some(at)
    }

    /// Whether no row has a key, or may come to have it again. Whoever had it comes before.
    fn key_is_free(&mut self, txid: i64, table: usize, key: i64) -> bool {
        let mut before = BTreeSet::new();
        for version in &self.versions {
            if version.table != table || version.values[0] != key {
                continue;
            }
            let status = |by: i64| self.works[&by].status;
            let is_gone =
                version.gone_by.is_some_and(|by| by == txid || status(by) == Status::Committed);
            if status(version.made_by) != Status::Aborted && !is_gone {
                return false;
            }
            before.extend([version.made_by].into_iter().chain(version.gone_by));
        }
        self.works.get_mut(&txid).expect("it runs").after.extend(before);
        true
    }

    fn tell(
        &mut self,
        txid: i64,
        table: usize,
        kind: Kind,
        rows: Vec<(usize, Option<Values>, Option<Values>)>,
        random: &mut Random,
    ) {
        let (row, before, after) = rows[0];
        let image = |values: Option<Values>| values.map(|[k, a, b]| image(&[k, a, b]));
        let told = match self.has_quirks.then(|| random.below(40)) {
            Some(0) => (table, Kind::Unknown, None, None),
            Some(1) => (table, kind, None, None),
            Some(2) => (table, kind, before.map(|[k, ..]| format!("{{\"k\":{k}}}")), image(after)),
            _ => (table, kind, image(before), image(after)),
        };
        let truth = vec![(row, after.map(|values| (table, values)))];
        let event = Logged { txid: Some(txid), tx_last: false, truth, told: Some(told) };
        self.works.get_mut(&txid).expect("it runs").events.push(event);
    }

    pub(super) fn end(&mut self, txid: i64, commits: bool) {
        let work = self.works.get_mut(&txid).expect("it runs");
        work.status = if commits { Status::Committed } else { Status::Aborted };
        if self.is_one_file {
            while self.log_some(None) {}
        }
    }

    /// A transaction comes into the log, or the next part of one. Whether there was one.
    pub(super) fn log_some(&mut self, mut random: Option<&mut Random>) -> bool {
        if self.rest.is_empty() {
            let ready = self.works.iter().filter(|(_, work)| {
                let first = |before: &i64| {
                    let work = &self.works[before];
                    work.status != Status::Running && (work.is_logged || work.is_nothing())
                };
                let waits = work.status == Status::Committed && !work.is_logged;
                let txid = work.events.first().and_then(|event| event.txid);
                waits && work.after.iter().all(|before| Some(*before) == txid || first(before))
            });
            let ready = ready.map(|(txid, _)| *txid).collect::<Vec<_>>();
            let at = random.as_mut().map_or(0, |random| random.below(ready.len().max(1)));
            let Some(txid) = ready.get(at) else { return false };
            let work = self.works.get_mut(txid).expect("it ended");
            work.is_logged = true;
            self.rest = work.events.clone();
            if let Some(last) = self.rest.last_mut() {
                last.tx_last = true;
            }
        }
        let whole = self.rest.len();
        let part = random.filter(|_| whole > 1).map_or(whole, |random| match random.one_in(3) {
            true => 1 + random.below(whole - 1),
            false => whole,
        });
        self.log.extend(self.rest.drain(..part));
        true
    }

    /// An event that is no row's.
    pub(super) fn append(&mut self) {
        self.log.push(Logged { txid: None, tx_last: false, truth: Vec::new(), told: None });
    }

    /// Transactions that committed and are not all in the log.
    pub(super) fn unlogged(&self) -> BTreeSet<i64> {
        let committed = self.works.iter().filter(|(_, work)| work.status == Status::Committed);
        let rest = self.rest.first().and_then(|event| event.txid);
        let missing = committed.filter(|(txid, work)| {
            Some(**txid) == rest || (!work.is_logged && !work.events.is_empty())
        });
        missing.map(|(txid, _)| *txid).collect()
    }

    /// Sets a mark, which is an event of its own.
    pub(super) fn mark(&mut self) -> Option<Position> {
        if !self.rest.is_empty() {
            return None;
        }
        self.last_txid += 1;
        let txid = Some(self.last_txid);
        self.log.push(Logged { txid, tx_last: true, truth: Vec::new(), told: None });
        Some(self.tip())
    }

    pub(super) fn tip(&self) -> Position {
        Position(self.log.len() as u64)
    }

    /// What a read sees that begins here.
    pub(super) fn read(&self) -> Seen {
        let saw = |txid: i64| self.works[&txid].status == Status::Committed;
        let visible = self
            .versions
            .iter()
            .filter(|version| saw(version.made_by) && !version.gone_by.is_some_and(saw));
        let contents = visible.map(|version| (version.row, (version.table, version.values)));
        let running = self.running().iter().map(|txid| txid.unsigned_abs()).collect::<Vec<_>>();
        let xmax = self.last_txid.unsigned_abs() + 1;
        let snapshot = match self.is_one_file {
            true => Snapshot::Position,
            false => Snapshot::Transactions {
                xmin: running.first().copied().unwrap_or(xmax),
                xmax,
                running: running.into(),
            },
        };
        let settled = self.unlogged().is_empty();
        Seen { contents: contents.collect(), tip: self.tip(), snapshot, settled }
    }

    /// The contents at a position of the log. No transaction goes over it.
    pub(super) fn contents_at(&self, position: Position) -> Contents {
        let at = usize::try_from(position.0).expect("a small log");
        let (past, future) = self.log.split_at(at);
        let last = past.iter().rev().find_map(|event| event.txid);
        let next = future.iter().find_map(|event| event.txid);
        assert!(last.is_none() || last != next, "a transaction goes over {position:?}: {last:?}");
        let mut known = self.known.borrow_mut();
        if known.0 > at {
            *known = (0, Contents::new());
        }
        for (row, values) in past[known.0..].iter().flat_map(|event| &event.truth) {
            match values {
                Some(values) => known.1.insert(*row, *values),
                None => known.1.remove(row),
            };
        }
        known.0 = at;
        known.1.clone()
    }
}

impl Work {
    fn is_running(&self) -> bool {
        self.status == Status::Running
    }

    fn is_nothing(&self) -> bool {
        self.status == Status::Aborted || self.events.is_empty()
    }
}

fn random_values(random: &mut Random) -> Values {
    let mut below = |most| i64::try_from(random.below(most)).expect("small");
    [below(12), below(4), below(3)]
}

pub(super) fn image([k, a, b]: &Values) -> String {
    format!("{{\"a\": {a}, \"b\": {b}, \"k\": {k}}}")
}
