//! Plays a case: a real store, an engine, and clients that believe what they are told.
//!
//! One step is made at a time, so that transactions stay open across snapshots, reads are answered
//! late, and the engine is behind, as the case says. What clients have wherever they are told a position
//! is kept, to be compared with what the database says of that position.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use tidewire_query::{
    Access, AskId, AskKind, Binding, Change, Column, Draft, EndReason, Engine, EngineOptions,
    Event, Kind, Output, PlanName, Query, QueryId, QueryLimits, ReadFailed, Recipients, RowText,
    Rows, ShapeColumn, Snapshot, Subscriber, TableName, TableNews, TableShape, TenantRule,
};
use tidewire_store::{
    Control, LiveRead, Operation, PageLimit, Position, ShapeView, SqlError, TableRef, TailEvent,
};

use super::case::{Case, Step};
use super::client::Client;
use super::fixture::{Fixture, LIMITS};
use crate::tally::Tally;
use crate::who::Who;

const EVERYTHING: PageLimit = PageLimit { events: 100_000, bytes: 64 << 20 };
/// Turns after which everything must have been answered once nobody writes any more.
const TURNS_MAX: usize = 60;
/// How long a mark may take.
const MARK_MS: u64 = 30_000;

/// What a client had where it was told a position.
#[derive(Debug)]
pub(crate) struct Report {
    /// Which query of the case.
    pub(crate) query: usize,
    pub(crate) plan: PlanName,
    pub(crate) position: tidewire_query::Position,
    pub(crate) rows: Vec<RowText>,
    pub(crate) who: Subscriber,
}

/// Someone who follows a query.
struct Member {
    query: usize,
    id: QueryId,
    client: Client,
}

/// A read that the engine asked for.
struct Asked {
    ask: AskId,
    query: QueryId,
    sql: Arc<str>,
}

/// See the [module documentation](self).
pub(crate) struct Driver<'a> {
    case: &'a Case,
    fixture: &'a mut Fixture,
    engine: Engine,
    limits: QueryLimits,
    shapes: BTreeMap<String, Arc<TableShape>>,
    /// Those that were taken.
    queries: Vec<Option<Arc<Query>>>,
    members: BTreeMap<Subscriber, Member>,
    left: Vec<(usize, Client)>,
    next: u64,
    asks: Vec<Asked>,
    reads: Vec<(AskId, Result<Rows, ReadFailed>)>,
    unsettled: Vec<AskId>,
    /// Where the log was when the case began.
    start: Position,
    /// The log since then, and how much of it the engine has seen.
    pub(crate) events: Vec<TailEvent>,
    seen: usize,
    pub(crate) reports: Vec<Report>,
    pub(crate) tally: &'a mut Tally,
}

impl<'a> Driver<'a> {
    /// The tables are there and watched.
    pub(crate) async fn new(
        case: &'a Case,
        fixture: &'a mut Fixture,
        tally: &'a mut Tally,
    ) -> Driver<'a> {
        let at = fixture.store.caught_up(MARK_MS).await.expect("a mark");
        let small = case.seed % 3;
        let options = EngineOptions {
            rows_max: 1_000,
            transaction_rows_max: if small == 0 { 3 } else { 1_000 },
            state_bytes_max: 1 << 24,
            total_state_bytes_max: 1 << 28,
            unindexed_max: usize::MAX,
        };
        let slack = usize::try_from(small).expect("a small number");
        let limits = QueryLimits { rows_max: 1_000, window_slack: slack, hide_timing: true };
        let mut driver = Driver {
            case,
            engine: Engine::new(options, tidewire_query::Position(at.number())),
            limits,
            shapes: BTreeMap::new(),
            queries: Vec::new(),
            members: BTreeMap::new(),
            left: Vec::new(),
            next: 0,
            asks: Vec::new(),
            reads: Vec::new(),
            unsettled: Vec::new(),
            start: at,
            events: Vec::new(),
            seen: 0,
            reports: Vec::new(),
            fixture,
            tally,
        };
        driver.read_shapes().await;
        driver
    }

    async fn read_shapes(&mut self) {
        let name = |name: &String| TableRef { schema: None, name: name.clone() };
        let names: Vec<TableRef> = self.case.tables.iter().map(|table| name(&table.name)).collect();
        let shapes = self.fixture.store.shapes(&names).await.expect("what tables are");
        for shape in shapes {
            let ShapeView::Watched(view) = shape else { panic!("it is watched: {shape:?}") };
            let columns = view.columns.into_iter().map(|view| ShapeColumn {
                column: Column {
                    name: view.column.name,
                    type_name: view.column.type_name,
                    collation: view.column.collation,
                },
                generated: view.generated,
                scale: view.scale,
                json_text: view.json_text,
            });
            let shape = TableShape {
                name: view.name.clone(),
                sql_name: view.sql_name,
                columns: columns.collect(),
                key: view.key_columns,
                host_column: view.host_column,
                fingerprint: view.fingerprint,
                row_security: view.row_security,
                inherited: view.inherited,
            };
            self.shapes.insert(view.name, Arc::new(shape));
        }
        self.queries = (0..self.case.queries.len()).map(|at| self.bind(at)).collect();
    }

    fn bind(&mut self, at: usize) -> Option<Arc<Query>> {
        let (sql, params) = self.case.queries[at].client(self.case.sort);
        let params: Vec<Box<RawValue>> =
            params.into_iter().map(|json| RawValue::from_string(json).expect("JSON")).collect();
        let access = |table: &str| {
            let spec = self.case.tables.iter().find(|spec| spec.name == table);
            let spec = spec.expect("a table of the case");
            let columns = spec.visible().into_iter().map(Box::from).collect();
            let tenants = spec.tenants.as_ref().map(|tenants| TenantRule {
                hosts: tenants.hosts.clone().into(),
                shared: tenants.shared,
            });
            Access {
                columns: (!spec.hidden.is_empty()).then_some(columns),
                rules: spec.rule.iter().map(|rule| rule.as_str().into()).collect(),
                tenants,
            }
        };
        let query = Draft::parse(&sql, &params, self.case.sort.dialect()).and_then(|draft| {
            let shape =
                |name: &TableName| (name.clone(), Arc::clone(&self.shapes[name.name.as_ref()]));
            let tables: Vec<(TableName, Arc<TableShape>)> =
                draft.tables().iter().map(shape).collect();
            let binding =
                Binding { tables: &tables, access: &access, caller: &Who, limits: self.limits };
            draft.bind(&binding)
        });
        match query {
            Ok(query) => Some(Arc::new(query)),
            Err(refusal) => {
                self.tally.add("query", "refused", 1);
                self.tally.add("refusal", refusal.code, 1);
                if std::env::var("TIDEWIRE_ORACLE_REFUSALS").is_ok() {
                    eprintln!("refused: {sql}\n    {refusal}");
                }
                None
            }
        }
    }

    /// Makes a step. An error is something that a client was told and that cannot be.
    pub(crate) async fn step(&mut self, step: &Step) -> Result<(), String> {
        let mut out = Vec::new();
        match step {
            Step::Begin(_)
            | Step::Run(..)
            | Step::Savepoint(_)
            | Step::Back(_)
            | Step::Commit(_)
            | Step::Abort(_) => self.fixture.write(step).await,
            Step::Subscribe(query) => self.subscribe(*query, &mut out),
            Step::Leave(query) => self.leave(*query, &mut out),
            Step::Return(query) => return self.come_back(*query),
            Step::Again(query) => {
                let who = self.member(*query).filter(|who| self.members[who].client.begun);
                if let Some(who) = who {
                    self.tally.add("hand-over", "again", 1);
                    self.engine.again(who, &mut out);
                }
            }
            Step::See(count) => return self.see(*count).await,
            Step::Read(first, count) => self.read(*first, *count).await,
            Step::Answer(first, count) => return self.answer(*first, *count),
            Step::Settle => self.settle(&mut out).await,
            Step::Impatient => {
                for ask in self.unsettled.clone() {
                    self.engine.unsettled_in_time(ask, &mut out);
                }
            }
        }
        self.hear(out)
    }

    fn member(&self, query: usize) -> Option<Subscriber> {
        self.members.iter().find(|(_, member)| member.query == query).map(|(who, _)| *who)
    }

    fn subscribe(&mut self, query: usize, out: &mut Vec<Output>) {
        let Some(bound) = self.queries.get(query).cloned().flatten() else { return };
        self.next += 1;
        let who = Subscriber(self.next);
        let id = self.engine.subscribe(bound, who, out);
        self.members.insert(who, Member { query, id, client: Client::default() });
    }

    fn leave(&mut self, query: usize, out: &mut Vec<Output>) {
        let Some(who) = self.member(query) else { return };
        self.engine.unsubscribe(who, out);
        let member = self.members.remove(&who).expect("a member");
        self.left.push((query, member.client));
    }

    /// Whoever kept a filter's rows up to a position goes on from there.
    fn come_back(&mut self, query: usize) -> Result<(), String> {
        let mut out = Vec::new();
        let Some(at) = self.left.iter().position(|(left, _)| *left == query) else { return Ok(()) };
        let (_, client) = self.left.remove(at);
        let Some(bound) = self.queries[query].clone() else { return Ok(()) };
        let position = client.position.filter(|_| client.begun && !client.unsettled);
        let Some(position) = position.filter(|_| bound.plan.name() == PlanName::Filter) else {
            self.subscribe(query, &mut out);
            return self.hear(out);
        };
        let past: Vec<&TailEvent> = self.events[..self.seen]
            .iter()
            .filter(|it| it.position.number() > position.0)
            .collect();
        let whole = |event: &&TailEvent| {
            event.control != Some(Control::Schema)
                && event.row.as_ref().is_none_or(|row| row.operation != Operation::Truncate)
        };
        if !past.iter().all(whole) {
            self.subscribe(query, &mut out);
            return self.hear(out);
        }
        self.tally.add("hand-over", "resumed", 1);
        self.next += 1;
        let who = Subscriber(self.next);
        let past: Vec<Event<'_>> = past.into_iter().map(event_of).collect();
        let id = self.engine.resume(bound, who, &past, &mut out);
        self.members.insert(who, Member { query, id, client });
        self.hear(out)
    }

    /// Brings what the log has got into the history.
    async fn follow(&mut self) {
        let after = self.events.last().map_or(self.start, |event| event.position);
        let all = Arc::new(|_: &str| true);
        let events = self.fixture.store.follow(after, EVERYTHING, all).await;
        self.events.extend(events.expect("the log can be followed"));
    }

    async fn see(&mut self, count: usize) -> Result<(), String> {
        self.follow().await;
        let to = self.seen.saturating_add(count).min(self.events.len());
        while self.seen < to {
            let mut out = Vec::new();
            let event = &self.events[self.seen];
            self.engine.apply(&event_of(event), &mut out);
            if event.control == Some(Control::Schema)
                && let Some(table) = event.stream.strip_prefix("table/")
            {
                self.engine.table(table, TableNews::Reread, &mut out);
            }
            self.seen += 1;
            self.hear(out)?;
        }
        Ok(())
    }

    async fn read(&mut self, first: usize, count: usize) {
        for _ in 0..count.min(self.asks.len()) {
            if self.asks.is_empty() {
                return;
            }
            let asked = self.asks.remove(first % self.asks.len());
            let Some(query) = self.engine.query(asked.query).cloned() else { continue };
            let tables = query.dependencies.iter();
            let tables = tables.map(|it| (it.table.to_string(), it.fingerprint)).collect();
            let read =
                LiveRead { sql: asked.sql.to_string(), tables, limits: LIMITS, account: None };
            match self.fixture.store.read_query(read).await {
                Ok(rows) => {
                    let snapshot = rows.snapshot.as_deref().map_or(Snapshot::Position, |text| {
                        Snapshot::parse(text).unwrap_or_else(|| panic!("no snapshot: {text}"))
                    });
                    let rows = Rows {
                        tip: tidewire_query::Position(rows.tip.number()),
                        snapshot,
                        settled: rows.settled,
                        rows: rows.rows,
                    };
                    self.reads.push((asked.ask, Ok(rows)));
                }
                Err(SqlError::Wrong(problem)) => {
                    if std::env::var("TIDEWIRE_ORACLE_REFUSALS").is_ok() {
                        eprintln!("failed: {}\n    {}", asked.sql, problem.message);
                    }
                    let reason = EndReason { code: problem.code, message: Some(problem.message) };
                    self.reads.push((asked.ask, Err(ReadFailed::Ended(reason))));
                }
                Err(SqlError::Store(_)) => self.asks.push(asked),
            }
        }
    }

    fn answer(&mut self, first: usize, count: usize) -> Result<(), String> {
        for _ in 0..count.min(self.reads.len()) {
            let at = first % self.reads.len();
            let (ask, rows) = self.reads.remove(at);
            if let Ok(rows) = &rows {
                if rows.settled {
                    self.tally.add("hand-over", "settled at once", 1);
                } else {
                    self.unsettled.push(ask);
                }
            }
            let mut out = Vec::new();
            self.engine.rows(ask, rows, &mut out);
            self.hear(out)?;
        }
        Ok(())
    }

    async fn settle(&mut self, out: &mut Vec<Output>) {
        if self.unsettled.is_empty() {
            return;
        }
        let mark = self.fixture.store.caught_up(MARK_MS).await.expect("a mark comes");
        for ask in std::mem::take(&mut self.unsettled) {
            self.tally.add("hand-over", "settled by a mark", 1);
            self.engine.settled(ask, tidewire_query::Position(mark.number()), out);
        }
    }

    /// Passes outputs on to those whom they are for.
    fn hear(&mut self, outputs: Vec<Output>) -> Result<(), String> {
        for output in outputs {
            match output {
                Output::Ask { ask, query, sql, kind } => {
                    let name = match kind {
                        AskKind::Begin => "begin",
                        AskKind::Refill => "refill",
                        AskKind::Requery => "requery",
                    };
                    self.tally.add("hand-over", name, 1);
                    self.asks.push(Asked { ask, query, sql });
                }
                Output::Begin { to, rows, at, reset: _ } => {
                    if at.is_none() {
                        self.tally.add("hand-over", "begun without a position", 1);
                    }
                    self.tell(&to, true, at, |client| {
                        client.begin(&rows);
                        Ok(())
                    })?;
                }
                Output::Change { to, delta, at, txid: _ } => {
                    self.tally.add("told", "change", 1);
                    self.tell(&to, false, at, |client| client.change(&delta))?;
                }
                Output::Settled { to, at } => {
                    self.tally.add("told", "settled", 1);
                    self.tell(&to, false, Some(at), |_| Ok(()))?;
                }
                Output::Plan { .. } => self.tally.add("hand-over", "demoted", 1),
                Output::End { to, reason } => {
                    self.tally.add("ended", reason.code, 1);
                    for who in self.whom(&to, true) {
                        self.members.remove(&who);
                    }
                }
            }
        }
        Ok(())
    }

    fn whom(&self, to: &Recipients, beginners: bool) -> Vec<Subscriber> {
        match to {
            Recipients::Only(_, who) => {
                who.iter().filter(|who| self.members.contains_key(who)).copied().collect()
            }
            Recipients::All(query) => {
                let all = self.members.iter();
                let all = all.filter(|(_, it)| it.id == *query && (it.client.begun || beginners));
                all.map(|(who, _)| *who).collect()
            }
        }
    }

    fn tell(
        &mut self,
        to: &Recipients,
        begins: bool,
        at: Option<tidewire_query::Position>,
        with: impl Fn(&mut Client) -> Result<(), String>,
    ) -> Result<(), String> {
        for who in self.whom(to, false) {
            let member = self.members.get_mut(&who).expect("a member");
            let query = member.query;
            let plan = self.engine.plan(member.id).unwrap_or(PlanName::Requery);
            let about = |problem: String| {
                let sql = self.case.queries[query].client(self.case.sort).0;
                format!("query {query} ({plan}) of {who:?}: {problem}\n  {sql}")
            };
            if !begins && !member.client.begun {
                return Err(about("it is told a change before any rows".to_owned()));
            }
            with(&mut member.client).map_err(about)?;
            member.client.at(at).map_err(about)?;
            let Some(position) = at else { continue };
            let rows = member.client.rows.clone();
            // A transaction may be told in parts, which all have its position.
            let last = self.reports.iter_mut().rev().find(|report| report.who == who);
            match last.filter(|report| report.position == position) {
                Some(report) => report.rows = rows,
                None => self.reports.push(Report { query, plan, position, rows, who }),
            }
        }
        Ok(())
    }

    /// Nobody writes any more: everything is answered, and everyone is told.
    pub(crate) async fn finish(&mut self) -> Result<(), String> {
        for session in 0..super::history::SESSIONS {
            self.fixture.write(&Step::Abort(session)).await;
        }
        for _ in 0..TURNS_MAX {
            self.fixture.store.caught_up(MARK_MS).await.expect("a mark");
            self.see(usize::MAX).await?;
            self.read(0, usize::MAX).await;
            self.answer(0, usize::MAX)?;
            let mut out = Vec::new();
            self.settle(&mut out).await;
            self.hear(out)?;
            self.see(usize::MAX).await?;
            if self.asks.is_empty() && self.reads.is_empty() && self.unsettled.is_empty() {
                return self.last_reports();
            }
        }
        Err(format!("it never comes to rest: {} asks are open", self.asks.len()))
    }

    fn last_reports(&mut self) -> Result<(), String> {
        let position = self.engine.position();
        for (who, member) in &self.members {
            let plan = self.engine.plan(member.id).unwrap_or(PlanName::Requery);
            let sql = self.case.queries[member.query].client(self.case.sort).0;
            if !member.client.begun || member.client.unsettled {
                let begun = if member.client.begun { "not settled" } else { "without rows" };
                return Err(format!("{who:?} is {begun} at the end ({plan}): {sql}"));
            }
            let rows = member.client.rows.clone();
            self.reports.push(Report { query: member.query, plan, position, rows, who: *who });
        }
        Ok(())
    }
}

fn event_of(event: &TailEvent) -> Event<'_> {
    let change = event.row.as_ref().map(|row| Change {
        table: &row.table,
        kind: match row.operation {
            Operation::Insert => Kind::Insert,
            Operation::Update => Kind::Update,
            Operation::Delete => Kind::Delete,
            Operation::Truncate => Kind::Truncate,
        },
        before: row.before.as_deref(),
        after: row.after.as_deref(),
    });
    let at = tidewire_query::Position(event.position.number());
    Event { at, txid: event.txid, tx_last: event.tx_last, change }
}
