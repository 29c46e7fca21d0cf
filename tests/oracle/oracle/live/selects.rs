//! Random queries over random tables, of the whole grammar, a share of them for each plan.

use rand::Rng as _;
use rand::seq::SliceRandom as _;

use super::case::{Compare, Select, TableSpec};
use super::columns::{Field, Kind, Sort, named};
use super::conjuncts::{Maker, NamedColumn};
use super::joins;

/// A random query.
pub(crate) fn query(maker: &mut Maker<'_>, tables: &[TableSpec]) -> Select {
    maker.made.clear();
    let at = maker.random.random_range(0..tables.len());
    let table = &tables[at];
    maker.plain = !maker.one_in(4);
    let kind = maker.random.random_range(0..20);
    maker.plain &= kind < 14;
    let mut made = match kind {
        0..=4 => filter(maker, table),
        5..=9 => window(maker, table),
        10..=13 => aggregate(maker, table),
        _ => joins::query(maker, tables, table),
    };
    for table in tables.iter().filter(|table| made.text_has(&table.name)) {
        let notes = [
            (table.rule.is_some(), "rule"),
            (table.tenants.is_some(), "tenants"),
            (!table.hidden.is_empty(), "hidden column"),
            (table.key.is_empty(), "no key"),
            (table.key.len() == 2, "key of two"),
        ];
        for (_, note) in notes.iter().filter(|(is, _)| *is) {
            maker.note(note);
        }
    }
    made.constructs = std::mem::take(&mut maker.made);
    made.constructs.sort_unstable();
    made.constructs.dedup();
    made
}

/// The columns of a table that may be seen.
pub(crate) fn scope(sort: Sort, table: &TableSpec, prefix: &'static str) -> Vec<NamedColumn> {
    table
        .visible()
        .into_iter()
        .map(|name| NamedColumn { prefix, field: named(sort, name) })
        .collect()
}

/// A query with nothing in it.
pub(crate) fn bare(from: String) -> Select {
    Select {
        with: String::new(),
        distinct: String::new(),
        select: Vec::new(),
        from,
        conjuncts: Vec::new(),
        group: Vec::new(),
        having: Vec::new(),
        set: String::new(),
        order: Vec::new(),
        ties: Vec::new(),
        limit: None,
        offset: None,
        compare: Compare::Rows,
        constructs: Vec::new(),
    }
}

impl Select {
    fn text_has(&self, name: &str) -> bool {
        self.truth().contains(name)
    }
}

/// Some columns, each with a name of its own.
fn projection(maker: &mut Maker<'_>, table: &TableSpec, scope: &[NamedColumn]) -> Vec<String> {
    if table.hidden.is_empty() && maker.one_in(4) {
        maker.note("star");
        return vec!["*".to_owned()];
    }
    let mut columns: Vec<&NamedColumn> = scope.iter().collect();
    columns.shuffle(maker.random);
    columns.truncate(maker.random.random_range(1..=scope.len()));
    let mut select = Vec::new();
    for (at, seen) in columns.into_iter().enumerate() {
        if maker.one_in(4) {
            maker.note("alias");
            select.push(format!("{} AS x{at}", seen.text()));
        } else {
            select.push(seen.text());
        }
    }
    if maker.one_in(6) {
        maker.note("literal");
        select
            .push(maker.pick(&["'it''s' AS tag", "5 AS tag", "NULL AS tag", "true AS tag"]).into());
    }
    select
}

fn filter(maker: &mut Maker<'_>, table: &TableSpec) -> Select {
    let named = maker.one_in(3);
    let (from, prefix) =
        if named { (format!("{} AS f", table.name), "f.") } else { (table.name.clone(), "") };
    let scope = scope(maker.sort, table, prefix);
    let mut made = bare(from);
    made.select = projection(maker, table, &scope);
    made.conjuncts = maker.conjuncts(&scope, 3);
    made
}

/// Sort keys, and whether NULLs' place is said.
pub(crate) fn order(maker: &mut Maker<'_>, fields: &[NamedColumn], most: usize) -> Vec<String> {
    let ordered: Vec<NamedColumn> =
        fields.iter().filter(|it| it.field.is_ordered()).copied().collect();
    let mut order = Vec::new();
    for _ in 0..maker.random.random_range(1..=most) {
        if ordered.is_empty() {
            break;
        }
        let seen = maker.pick(&ordered);
        let mut text = seen.text();
        if order.iter().any(|known: &String| known.starts_with(&text)) {
            continue;
        }
        // Under the database's own collation no order is kept in memory.
        if maker.sort == Sort::Postgres && seen.field.kind == Kind::Text && !maker.one_in(3) {
            text.push_str(" COLLATE \"C\"");
        }
        if maker.one_in(2) {
            maker.note("DESC");
            text.push_str(" DESC");
        }
        if maker.one_in(3) {
            maker.note("NULLS");
            text.push_str(maker.pick(&[" NULLS FIRST", " NULLS LAST"]));
        }
        order.push(text);
    }
    order
}

fn window(maker: &mut Maker<'_>, table: &TableSpec) -> Select {
    let scope = scope(maker.sort, table, "");
    let mut made = bare(table.name.clone());
    made.select = projection(maker, table, &scope);
    made.conjuncts = maker.conjuncts(&scope, 2);
    made.order = order(maker, &scope, 3);
    maker.note("ORDER BY");
    // What tells rows apart comes last: of the client's own accord, or of the engine's.
    let names = if table.key.is_empty() { &table.columns } else { &table.key };
    let may_be_seen = names.iter().all(|name| !table.hidden.contains(name));
    let tell = names.iter().all(|name| named(maker.sort, name).is_ordered());
    if may_be_seen && tell && !maker.one_in(4) {
        made.order.extend(names.iter().cloned());
        made.compare = Compare::List;
    } else if tell {
        maker.note("ties");
        made.ties = names.iter().map(|name| breaker(maker.sort, name)).collect();
        made.compare = Compare::Ties;
    } else {
        made.compare = Compare::Count;
    }
    if !maker.one_in(5) {
        maker.note("LIMIT");
        made.limit = Some(maker.random.random_range(1..7));
        if maker.one_in(3) {
            maker.note("OFFSET");
            made.offset = Some(maker.random.random_range(1..4));
        }
    } else if made.compare == Compare::Count {
        made.compare = Compare::Rows;
    }
    made
}

/// A tie-breaker as a window has it: by bytes, and NULLs where the database has them.
fn breaker(sort: Sort, name: &str) -> String {
    let field: &Field = named(sort, name);
    match (sort, field.kind) {
        (Sort::Postgres, Kind::Text) => format!("{name} COLLATE \"C\""),
        _ => name.to_owned(),
    }
}

/// Something to count or sum: its text, its name.
pub(crate) fn aggregates(maker: &mut Maker<'_>, scope: &[NamedColumn]) -> Vec<(String, String)> {
    let numbers = |seen: &&NamedColumn| matches!(seen.field.kind, Kind::Whole | Kind::Scaled);
    let numbers: Vec<NamedColumn> = scope.iter().filter(numbers).copied().collect();
    let ordered: Vec<NamedColumn> =
        scope.iter().filter(|it| it.field.is_ordered()).copied().collect();
    let mut made = Vec::new();
    for at in 0..maker.random.random_range(1..4) {
        let (function, text) = match maker.random.random_range(0..6) {
            0 | 1 => ("count", "count(*)".to_owned()),
            2 => ("count", format!("count({})", maker.pick(scope).text())),
            3 if !numbers.is_empty() => ("sum", format!("sum({})", maker.pick(&numbers).text())),
            4 if !numbers.is_empty() => ("avg", format!("avg({})", maker.pick(&numbers).text())),
            _ => {
                let function = maker.pick(&["min", "max"]);
                let fits = |seen: &&NamedColumn| {
                    let unordered = ["boolean", "uuid"].contains(&seen.field.sql);
                    !(maker.sort == Sort::Postgres && unordered)
                };
                let fitting: Vec<NamedColumn> = ordered.iter().filter(fits).copied().collect();
                if fitting.is_empty() {
                    ("count", "count(*)".to_owned())
                } else {
                    (function, format!("{function}({})", maker.pick(&fitting).text()))
                }
            }
        };
        maker.note(function);
        made.push((text, format!("n{at}")));
    }
    made
}

/// Columns to group by.
pub(crate) fn grouping(maker: &mut Maker<'_>, scope: &[NamedColumn], most: usize) -> Vec<String> {
    let mut columns: Vec<String> =
        scope.iter().filter(|it| it.field.has_one_text()).map(NamedColumn::text).collect();
    columns.shuffle(maker.random);
    columns.truncate(maker.random.random_range(0..=most));
    columns
}

fn aggregate(maker: &mut Maker<'_>, table: &TableSpec) -> Select {
    let scope = scope(maker.sort, table, "");
    let mut made = bare(table.name.clone());
    made.group = grouping(maker, &scope, 2);
    let counted = aggregates(maker, &scope);
    made.select.clone_from(&made.group);
    made.select.extend(counted.iter().map(|(text, name)| format!("{text} AS {name}")));
    made.conjuncts = maker.conjuncts(&scope, 2);
    if !made.group.is_empty() {
        maker.note("GROUP BY");
        if maker.one_in(2) {
            maker.note("HAVING");
            made.having.push(match maker.random.random_range(0..3) {
                0 => "count(*) > 1".to_owned(),
                1 => format!("{} IS NOT NULL", counted[0].0),
                _ => "count(*) BETWEEN 1 AND 2".to_owned(),
            });
        }
        if maker.one_in(2) {
            maker.note("ORDER BY");
            made.order = made.group.clone();
            if maker.one_in(2) {
                made.order.insert(0, "count(*) DESC".to_owned());
            }
            made.compare = Compare::List;
            if maker.one_in(2) {
                maker.note("LIMIT");
                made.limit = Some(maker.random.random_range(1..4));
            }
        }
    }
    made
}
