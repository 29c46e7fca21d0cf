//! Random tables, and random histories: transactions of three sessions, those who follow queries, and
//! when the engine gets to see, read and hear what.

use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{Rng as _, SeedableRng as _};

use super::case::{Case, Step, TableSpec, Tenants};
use super::columns::{ID, Kind, Sort, fields, named};
use super::conjuncts::Maker;
use super::selects;

/// Queries of a history. Some are refused, by us or by the database.
const QUERIES: usize = 34;
/// Steps of a history besides those by which queries are followed.
const STEPS: usize = 240;
/// Who writes.
pub(crate) const SESSIONS: usize = 3;

/// The case of a seed.
pub(crate) fn case(seed: u64, sort: Sort) -> Case {
    let mut random = StdRng::seed_from_u64(seed);
    let mut maker = Maker { sort, random: &mut random, made: Vec::new(), plain: false };
    let tables: Vec<TableSpec> =
        (0..maker.random.random_range(1..4)).map(|at| table(&mut maker, at)).collect();
    let queries = (0..QUERIES).map(|_| selects::query(&mut maker, &tables)).collect();
    let steps = steps(&mut maker, &tables);
    Case { seed, sort, tables, queries, steps }
}

fn table(maker: &mut Maker<'_>, at: usize) -> TableSpec {
    let mut columns: Vec<&str> =
        fields(maker.sort).iter().map(|field| field.name).filter(|name| *name != ID).collect();
    columns.shuffle(maker.random);
    columns.truncate(maker.random.random_range(2..6));
    columns.insert(0, ID);
    let mut key = Vec::new();
    let keys = maker.random.random_range(0..4);
    if keys > 0 {
        key.push(ID.to_owned());
    }
    if keys == 3 {
        let second = if maker.one_in(2) { "c_int" } else { "c_text" };
        key.push(second.to_owned());
        if !columns.contains(&second) {
            columns.push(second);
        }
    }
    let mut spec = TableSpec {
        name: ["alpha", "beta", "gamma"][at].to_owned(),
        columns: columns.iter().map(ToString::to_string).collect(),
        key,
        rule: None,
        hidden: Vec::new(),
        tenants: None,
    };
    if maker.one_in(4) {
        let scope = selects::scope(maker.sort, &spec, "");
        let plain: Vec<_> = scope
            .into_iter()
            .filter(|it| matches!(it.field.kind, Kind::Whole | Kind::Bool | Kind::Ordered))
            .collect();
        let seen = maker.pick(&plain);
        let value = maker.pick(seen.field.values);
        spec.rule = Some(match maker.random.random_range(0..3) {
            0 => format!("{} <> {value}", seen.field.name),
            1 => format!("{} IS NOT NULL", seen.field.name),
            _ => format!("({} <= {value} OR {0} IS NULL)", seen.field.name),
        });
    }
    if maker.one_in(5) && columns.len() > 3 {
        spec.hidden.push(columns[maker.random.random_range(0..columns.len())].to_owned());
    }
    let host = columns.iter().find(|name| ["c_text", "c_varchar", "c_name"].contains(name));
    if let Some(column) = host.filter(|_| maker.one_in(3)) {
        let hosts = vec!["a".to_owned(), "ab".to_owned(), "b".to_owned()];
        let shared = maker.one_in(2);
        spec.tenants = Some(Tenants { column: (*column).to_owned(), hosts, shared });
    }
    spec
}

/// A value for a row.
fn value(maker: &mut Maker<'_>, sort: Sort, name: &str) -> String {
    let field = named(sort, name);
    match maker.random.random_range(0..12) {
        0 | 1 if name != ID => "NULL".to_owned(),
        2 if !field.strays.is_empty() => maker.pick(field.strays).to_owned(),
        _ if name == ID => maker.random.random_range(0..14).to_string(),
        _ => maker.pick(field.values).to_owned(),
    }
}

fn insert(maker: &mut Maker<'_>, table: &TableSpec, rows: usize) -> String {
    let row = |maker: &mut Maker<'_>| {
        let sort = maker.sort;
        let values: Vec<String> =
            table.columns.iter().map(|name| value(maker, sort, name)).collect();
        format!("({})", values.join(", "))
    };
    let mut values: Vec<String> = Vec::new();
    for _ in 0..rows {
        values.push(row(maker));
    }
    let mut text = format!("INSERT INTO {} ({}) VALUES ", table.name, table.columns.join(", "));
    text.push_str(&values.join(", "));
    let target = table.key.join(", ");
    let changed = table.columns.iter().find(|name| !table.key.contains(name));
    match (maker.random.random_range(0..4), changed) {
        (0, _) if !table.key.is_empty() && rows < 3 => {}
        (1, Some(changed)) if !table.key.is_empty() && rows == 1 => {
            let value = value(maker, maker.sort, changed);
            text.push_str(&format!(" ON CONFLICT ({target}) DO UPDATE SET {changed} = {value}"));
        }
        _ if !table.key.is_empty() => text.push_str(" ON CONFLICT DO NOTHING"),
        _ => {}
    }
    text
}

/// Which rows.
fn condition(maker: &mut Maker<'_>, table: &TableSpec) -> String {
    match maker.random.random_range(0..6) {
        0 => {
            let name = maker.random.random_range(0..table.columns.len());
            format!("{} IS NULL", table.columns[name])
        }
        1 => format!("id > {}", maker.random.random_range(4..14)),
        2 => format!("id % 3 = {}", maker.random.random_range(0..3)),
        _ => format!("id = {}", maker.random.random_range(0..14)),
    }
}

fn statement(maker: &mut Maker<'_>, table: &TableSpec) -> String {
    let name = &table.name;
    match maker.random.random_range(0..20) {
        0..=6 => {
            let rows = if maker.one_in(3) { maker.random.random_range(2..6) } else { 1 };
            insert(maker, table, rows)
        }
        7..=13 => {
            let mut sets = Vec::new();
            for column in &table.columns {
                if column != ID && maker.one_in(2) {
                    let value = value(maker, maker.sort, column);
                    sets.push(format!("{column} = {value}"));
                }
            }
            if sets.is_empty() {
                // Nothing changes.
                sets.push("id = id".to_owned());
            }
            format!("UPDATE {name} SET {} WHERE {}", sets.join(", "), condition(maker, table))
        }
        14 => {
            // Keys move, some of them to where others were.
            let by = maker.pick(&["id + 14", "id - 14", "14 - id", "id + 1"]);
            format!("UPDATE {name} SET id = {by} WHERE {}", condition(maker, table))
        }
        15 => {
            let column = table.columns.last().expect("columns");
            let value = value(maker, maker.sort, column);
            format!("UPDATE {name} SET {column} = {value}")
        }
        16 if maker.one_in(3) => match maker.sort {
            Sort::Postgres => format!("TRUNCATE {name}"),
            Sort::Sqlite => format!("DELETE FROM {name}"),
        },
        _ => format!("DELETE FROM {name} WHERE {}", condition(maker, table)),
    }
}

/// What writers do: whether a session is in a transaction is kept in `open`.
fn writer(maker: &mut Maker<'_>, tables: &[TableSpec], open: &mut [bool], steps: &mut Vec<Step>) {
    let session = maker.random.random_range(0..SESSIONS);
    let at = maker.random.random_range(0..tables.len());
    let text = statement(maker, &tables[at]);
    if text.starts_with("TRUNCATE") {
        // It keeps readers out, so that it must not stay open.
        let rest = insert(maker, &tables[at], 2);
        if open[session] {
            steps.push(Step::Run(session, text));
            steps.push(Step::Run(session, rest));
            steps.push(if maker.one_in(4) { Step::Abort(session) } else { Step::Commit(session) });
            open[session] = false;
        } else {
            steps.push(Step::Run(session, text));
        }
        return;
    }
    match (open[session], maker.random.random_range(0..10)) {
        (false, 0..=3) => {
            steps.push(Step::Begin(session));
            steps.push(Step::Run(session, text));
            open[session] = true;
        }
        (false, _) => steps.push(Step::Run(session, text)),
        (true, 0..=4) => steps.push(Step::Run(session, text)),
        (true, 5) => {
            steps.push(Step::Savepoint(session));
            steps.push(Step::Run(session, text));
            if maker.one_in(2) {
                steps.push(Step::Back(session));
            }
        }
        (true, 6) => {
            steps.push(Step::Abort(session));
            open[session] = false;
        }
        (true, _) => {
            steps.push(Step::Commit(session));
            open[session] = false;
        }
    }
}

fn steps(maker: &mut Maker<'_>, tables: &[TableSpec]) -> Vec<Step> {
    let mut steps = Vec::new();
    for table in tables {
        for _ in 0..maker.random.random_range(0..4) {
            let rows = maker.random.random_range(1..6);
            steps.push(Step::Run(0, insert(maker, table, rows)));
        }
    }
    let mut wishes: Vec<usize> = (0..QUERIES).chain(0..QUERIES / 3).collect();
    wishes.shuffle(maker.random);
    let mut open = [false; SESSIONS];
    let (mut here, mut gone): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    for _ in 0..STEPS {
        match maker.random.random_range(0..40) {
            0..=15 => writer(maker, tables, &mut open, &mut steps),
            16..=18 => {
                for _ in 0..maker.random.random_range(1..5) {
                    here.extend(wishes.last());
                    steps.extend(wishes.pop().map(Step::Subscribe));
                }
            }
            19..=23 => {
                let many = if maker.one_in(2) { usize::MAX } else { 1 };
                steps.push(Step::See(maker.random.random_range(1..8).max(many)));
            }
            24..=27 => {
                let first = maker.random.random_range(0..50);
                steps.push(Step::Read(first, maker.random.random_range(1..30)));
            }
            28..=31 => {
                let first = maker.random.random_range(0..50);
                steps.push(Step::Answer(first, maker.random.random_range(1..30)));
            }
            32 => steps.push(Step::Settle),
            33 => steps.push(Step::Impatient),
            34 if !here.is_empty() => {
                gone.push(here.swap_remove(maker.random.random_range(0..here.len())));
                steps.extend(gone.last().copied().map(Step::Leave));
            }
            35 | 36 if !gone.is_empty() => {
                here.push(gone.swap_remove(maker.random.random_range(0..gone.len())));
                steps.extend(here.last().copied().map(Step::Return));
            }
            // Reads that see what is not in the log yet.
            37 => {
                here.extend(wishes.last());
                steps.extend(wishes.pop().map(Step::Subscribe));
                writer(maker, tables, &mut open, &mut steps);
                steps.extend([Step::Read(0, usize::MAX), Step::Answer(0, usize::MAX)]);
                steps.push(if maker.one_in(2) { Step::Impatient } else { Step::Settle });
            }
            38 => steps.push(Step::Again(maker.random.random_range(0..QUERIES))),
            // All of it, as in a quiet moment.
            _ => steps.extend([
                Step::See(usize::MAX),
                Step::Read(0, usize::MAX),
                Step::Answer(0, usize::MAX),
                Step::Settle,
                Step::See(usize::MAX),
            ]),
        }
    }
    steps.extend(wishes.into_iter().map(Step::Subscribe));
    steps
}
