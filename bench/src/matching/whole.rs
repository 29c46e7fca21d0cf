//! The engine as a whole: SELECTs from their text, each followed by someone, and changes from their
//! image to what is told.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tidewire_query::{
    Access, Binding, Change, Draft, Engine, EngineOptions, Event, Kind, Output, Position, Query,
    QueryLimits, Rows, ShapeColumn, Snapshot, Subscriber, TableShape,
};

use super::combination::Combination;
use super::queries::{Family, HUNDRED, orders};
use super::timing::{repeat, thread_time};
use crate::cpu;

/// Different rows that change in turn.
const ROWS: usize = 8_192;

const OPTIONS: EngineOptions = EngineOptions {
    rows_max: 10_000,
    transaction_rows_max: 10_000,
    state_bytes_max: 16 << 20,
    total_state_bytes_max: 1 << 30,
    unindexed_max: usize::MAX,
};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Measured {
    #[serde(flatten)]
    pub(super) combination: Combination,
    /// From an event's images to what is told, with reading and writing rows.
    pub(super) none_us: f64,
    pub(super) one_us: f64,
    pub(super) hundred_us: f64,
    pub(super) query_bytes: f64,
    /// Text, parameters, plan, index and a follower who has the rows.
    pub(super) from_text_per_second: f64,
}

pub(super) fn measure(combination: Combination) -> Result<Measured> {
    let Combination { family, queries, event_ms, .. } = combination;
    let shape = Arc::new(shape());
    let mut engine = Engine::new(OPTIONS, Position(0));
    let mut out = Vec::new();
    let memory_before = cpu::resident_kib(std::process::id())?;
    let began = thread_time();
    for n in 0..queries {
        let condition = if n < HUNDRED { family.special(n) } else { family.condition(n) };
        let query = Arc::new(bound(&condition, &shape)?);
        let who = Subscriber(u64::try_from(n)?);
        engine.subscribe(query, who, &mut out);
        let Some(Output::Ask { ask, .. }) = out.pop() else { bail!("{condition} reads nothing") };
        let rows = Rows {
            tip: Position(0),
            snapshot: Snapshot::Position,
            settled: true,
            rows: Vec::new(),
        };
        engine.rows(ask, Ok(rows), &mut out);
        out.clear();
    }
    let from_text = thread_time() - began;
    let grown_kib = cpu::resident_kib(std::process::id())? - memory_before;
    let time = Duration::from_millis(event_ms);
    let mut told = TimedEngine { engine, at: 0, out, time };
    let spread = |at: usize| HUNDRED + at * 7919 % (queries - HUNDRED);
    let misses: Vec<String> = (0..ROWS).map(|at| family.miss(spread(at))).collect();
    let hits: Vec<String> = (0..ROWS).map(|at| family.hit(spread(at))).collect();
    Ok(Measured {
        combination,
        none_us: told.event_us(&misses, 0)?,
        one_us: told.event_us(&hits, 1)?,
        hundred_us: told.event_us(&[family.special_hit()], HUNDRED)?,
        query_bytes: grown_kib * 1024.0 / queries as f64,
        from_text_per_second: queries as f64 / from_text.as_secs_f64(),
    })
}

struct TimedEngine {
    engine: Engine,
    at: u64,
    out: Vec<Output>,
    time: Duration,
}

impl TimedEngine {
    /// The time of an event, each a transaction of its own, that so many are told of.
    fn event_us(&mut self, images: &[String], expected: usize) -> Result<f64> {
        for image in images {
            let told = self.apply(image);
            ensure!(told == expected, "{image} is told to {told}, not {expected}");
        }
        let (time, images) = (self.time, images.to_vec());
        Ok(repeat(time, &images, |image| {
            black_box(self.apply(image));
        }) / 1e3)
    }

    fn apply(&mut self, image: &str) -> usize {
        self.at += 1;
        let change = Change {
            table: "orders",
            kind: Kind::Insert,
            before: None,
            after: Some(image.as_bytes()),
        };
        let txid = i64::try_from(self.at).ok();
        let event = Event { at: Position(self.at), txid, tx_last: true, change: Some(change) };
        self.out.clear();
        self.engine.apply(&event, &mut self.out);
        self.out.iter().filter(|output| matches!(output, Output::Change { .. })).count()
    }
}

/// The query that asks for some columns of the orders that satisfy a condition.
fn bound(condition: &str, shape: &Arc<TableShape>) -> Result<Query> {
    let sql = format!("SELECT id, customer_id, region, total FROM orders WHERE {condition}");
    let params: [Box<RawValue>; 0] = [];
    let refused = |refusal| anyhow::anyhow!("{sql}: {refusal:?}");
    let draft = Draft::parse(&sql, &params, tidewire_query::Dialect::Postgres).map_err(refused)?;
    let tables: Vec<_> =
        draft.tables().iter().map(|name| (name.clone(), Arc::clone(shape))).collect();
    let limits = QueryLimits { rows_max: 10_000, window_slack: 50, hide_timing: true };
    let access = |_: &str| Access::default();
    draft.bind(&Binding { tables: &tables, access: &access, caller: &(), limits }).map_err(refused)
}

fn shape() -> TableShape {
    let column = |column| ShapeColumn { column, generated: false, scale: None, json_text: false };
    TableShape {
        name: "orders".into(),
        sql_name: "\"public\".\"orders\"".into(),
        columns: orders().columns.into_iter().map(column).collect(),
        key: vec!["id".into()],
        host_column: None,
        fingerprint: 1,
        row_security: false,
        inherited: false,
    }
}

/// Families whose queries are all found by values.
pub(super) fn families() -> impl Iterator<Item = Family> {
    Family::ALL.into_iter().filter(|family| family.is_indexed())
}
