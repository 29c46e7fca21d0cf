//! Random queries that are run again: joins, subqueries, CTEs, set operations, DISTINCT, window
//! functions.

use rand::Rng as _;

use super::case::{Compare, Select, TableSpec};
use super::columns::{ID, Kind, Sort};
use super::conjuncts::{Maker, NamedColumn};
use super::selects::{aggregates, bare, grouping, order, scope};

/// A random one, that begins with a table.
pub(crate) fn query(maker: &mut Maker<'_>, tables: &[TableSpec], table: &TableSpec) -> Select {
    let at = maker.random.random_range(0..tables.len());
    let other = &tables[at];
    match maker.random.random_range(0..10) {
        0..=2 => join(maker, table, other),
        3 | 4 => subquery(maker, table, other),
        5 => cte(maker, table, other),
        6 => set_operation(maker, table, other),
        7 => distinct(maker, table),
        8 => window_function(maker, table),
        _ => expressions(maker, table),
    }
}

/// Columns of both sides, each with a name of its own.
fn both(maker: &mut Maker<'_>, left: &[NamedColumn], right: &[NamedColumn]) -> Vec<String> {
    let mut select = Vec::new();
    for (side, name) in [(left, "l"), (right, "r")] {
        for at in 0..maker.random.random_range(1..4) {
            select.push(format!("{} AS {name}{at}", maker.pick(side).text()));
        }
    }
    select
}

/// What rows of two tables meet by.
fn meeting(maker: &mut Maker<'_>, left: &[NamedColumn], right: &[NamedColumn]) -> String {
    let whole = |seen: &&NamedColumn| seen.field.kind == Kind::Whole;
    let text = |seen: &&NamedColumn| seen.field.kind == Kind::Text && seen.field.name != "c_icu";
    let kinds: [&dyn Fn(&&NamedColumn) -> bool; 2] = [&whole, &text];
    let kind = maker.random.random_range(0..2);
    for fits in [kinds[kind], kinds[1 - kind]] {
        let of = |side: &[NamedColumn]| {
            side.iter().filter(|it| fits(it)).copied().collect::<Vec<NamedColumn>>()
        };
        let (ours, theirs) = (of(left), of(right));
        if !ours.is_empty() && !theirs.is_empty() {
            return format!("{} = {}", maker.pick(&ours).text(), maker.pick(&theirs).text());
        }
    }
    "true".to_owned()
}

fn join(maker: &mut Maker<'_>, table: &TableSpec, other: &TableSpec) -> Select {
    let (left, right) = (scope(maker.sort, table, "l."), scope(maker.sort, other, "r."));
    let on = meeting(maker, &left, &right);
    let kind = maker.random.random_range(0..4);
    let (word, construct) = [("JOIN", "inner join"), ("LEFT JOIN", "left join")][kind % 2];
    maker.note(construct);
    if table.name == other.name {
        maker.note("self join");
    }
    let all: Vec<NamedColumn> = left.iter().chain(&right).copied().collect();
    let lateral = kind == 3 && maker.sort == Sort::Postgres;
    let mut made = if lateral {
        maker.note("lateral");
        let from = format!(
            "{} AS l LEFT JOIN LATERAL (SELECT count(*) AS n FROM {} AS r WHERE {on}) AS s ON true",
            table.name, other.name
        );
        let mut made = bare(from);
        made.select = vec![format!("{} AS l0", maker.pick(&left).text()), "s.n".to_owned()];
        made.conjuncts = maker.conjuncts(&left, 1);
        return made;
    } else {
        bare(format!("{} AS l {word} {} AS r ON {on}", table.name, other.name))
    };
    made.conjuncts = maker.conjuncts(&all, 2);
    if maker.one_in(3) {
        made.group = grouping(maker, &left, 1);
        let counted = aggregates(maker, &right);
        if !made.group.is_empty() {
            maker.note("GROUP BY");
        }
        let keys = made.group.iter().enumerate();
        made.select = keys.map(|(at, key)| format!("{key} AS g{at}")).collect();
        made.select.extend(counted.iter().map(|(text, name)| format!("{text} AS {name}")));
        return made;
    }
    made.select = both(maker, &left, &right);
    if maker.one_in(3) {
        maker.note("ORDER BY");
        made.order = order(maker, &all, 2);
        // The order leaves ties, and so which rows are within a limit is for the database to say.
        if maker.one_in(2) {
            maker.note("LIMIT");
            made.limit = Some(maker.random.random_range(1..6));
            made.compare = Compare::Count;
        }
    }
    made
}

fn subquery(maker: &mut Maker<'_>, table: &TableSpec, other: &TableSpec) -> Select {
    let (left, right) = (scope(maker.sort, table, "l."), scope(maker.sort, other, "r."));
    let mut made = bare(format!("{} AS l", table.name));
    made.select = vec![format!("{} AS l0", maker.pick(&left).text())];
    made.conjuncts = maker.conjuncts(&left, 1);
    let inner = maker.conjuncts(&right, 1);
    let inner = if inner.is_empty() { "true".to_owned() } else { inner.join(" AND ") };
    match maker.random.random_range(0..4) {
        0 => {
            maker.note("IN subquery");
            let column = |side: &[NamedColumn]| {
                side.iter().find(|it| it.field.kind == Kind::Whole).map(NamedColumn::text)
            };
            let (ours, theirs) = (column(&left), column(&right));
            let ours = ours.unwrap_or_else(|| "1".to_owned());
            let theirs = theirs.unwrap_or_else(|| "1".to_owned());
            let not = maker.pick(&["", "NOT "]);
            let text =
                format!("{ours} {not}IN (SELECT {theirs} FROM {} AS r WHERE {inner})", other.name);
            made.conjuncts.push(text);
        }
        1 | 2 => {
            maker.note("EXISTS");
            let on = meeting(maker, &left, &right);
            let not = maker.pick(&["", "NOT "]);
            let text =
                format!("{not}EXISTS (SELECT 1 FROM {} AS r WHERE {on} AND {inner})", other.name);
            made.conjuncts.push(text);
        }
        _ => {
            maker.note("scalar subquery");
            let on = meeting(maker, &left, &right);
            let text =
                format!("(SELECT count(*) FROM {} AS r WHERE {on} AND {inner}) AS n", other.name);
            made.select.push(text);
        }
    }
    made
}

fn cte(maker: &mut Maker<'_>, table: &TableSpec, other: &TableSpec) -> Select {
    maker.note("CTE");
    if maker.one_in(4) {
        maker.note("recursive CTE");
        let id = scope(maker.sort, table, "").iter().any(|it| it.field.name == ID);
        let column = if id { "r.id" } else { "1" };
        let mut made = bare("numbers".to_owned());
        made.with = "RECURSIVE numbers(n) AS \
            (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 4)"
            .to_owned();
        made.select = vec!["n".into(), "count(*) AS c".into()];
        made.from = format!("numbers LEFT JOIN {} AS r ON {column} = numbers.n", table.name);
        made.group = vec!["n".into()];
        return made;
    }
    let inner = scope(maker.sort, table, "");
    let conjuncts = maker.conjuncts(&inner, 2);
    let filter = if conjuncts.is_empty() { "true".to_owned() } else { conjuncts.join(" AND ") };
    let columns: Vec<String> = inner.iter().map(NamedColumn::text).collect();
    let with =
        format!("picked AS (SELECT {} FROM {} WHERE {filter})", columns.join(", "), table.name);
    let left = scope(maker.sort, table, "l.");
    if maker.one_in(2) {
        let mut made = bare("picked AS l".to_owned());
        made.with = with;
        made.select = vec!["count(*) AS n".into()];
        made.conjuncts = maker.conjuncts(&left, 1);
        return made;
    }
    let right = scope(maker.sort, other, "r.");
    let on = meeting(maker, &left, &right);
    let mut made = bare(format!("picked AS l JOIN {} AS r ON {on}", other.name));
    maker.note("inner join");
    made.with = with;
    made.select = both(maker, &left, &right);
    made
}

fn set_operation(maker: &mut Maker<'_>, table: &TableSpec, other: &TableSpec) -> Select {
    let (left, right) = (scope(maker.sort, table, ""), scope(maker.sort, other, ""));
    let pairs: Vec<(NamedColumn, NamedColumn)> = left
        .iter()
        .filter(|it| it.field.has_one_text())
        .filter_map(|ours| {
            let same = |it: &&NamedColumn| it.field.name == ours.field.name;
            right.iter().find(same).map(|theirs| (*ours, *theirs))
        })
        .collect();
    let operation = maker.pick(&["UNION", "UNION ALL", "INTERSECT", "EXCEPT"]);
    maker.note(operation);
    let mut made = bare(table.name.clone());
    made.conjuncts = maker.conjuncts(&left, 1);
    let inner = maker.conjuncts(&right, 1);
    let inner = if inner.is_empty() { "true".to_owned() } else { inner.join(" AND ") };
    let (ours, theirs) = match pairs.is_empty() {
        true => ("1 AS x".to_owned(), "1 AS x".to_owned()),
        false => {
            let (ours, theirs) = maker.pick(&pairs);
            (ours.text(), theirs.text())
        }
    };
    made.select = vec![ours];
    made.set = format!("{operation} SELECT {theirs} FROM {} WHERE {inner}", other.name);
    made
}

fn distinct(maker: &mut Maker<'_>, table: &TableSpec) -> Select {
    let scope = scope(maker.sort, table, "");
    let mut made = bare(table.name.clone());
    made.conjuncts = maker.conjuncts(&scope, 1);
    let columns: Vec<String> =
        scope.iter().filter(|it| it.field.has_one_text()).map(NamedColumn::text).take(2).collect();
    made.select = if columns.is_empty() { vec!["1 AS one".into()] } else { columns };
    if maker.sort == Sort::Postgres && maker.one_in(3) {
        maker.note("DISTINCT ON");
        made.distinct = format!("DISTINCT ON ({})", made.select[0].replace(" AS one", ""));
        made.select.push("id AS some_id".to_owned());
        made.compare = Compare::Count;
        if table.hidden.iter().any(|name| name == ID) {
            made.select.pop();
        }
        return made;
    }
    maker.note("DISTINCT");
    made.distinct = "DISTINCT".to_owned();
    made
}

fn window_function(maker: &mut Maker<'_>, table: &TableSpec) -> Select {
    maker.note("window function");
    let scope = scope(maker.sort, table, "");
    let mut made = bare(table.name.clone());
    made.conjuncts = maker.conjuncts(&scope, 1);
    let by: Vec<NamedColumn> = scope.iter().filter(|it| it.field.has_one_text()).copied().collect();
    if by.is_empty() {
        made.select = vec!["count(*) OVER () AS n".into()];
        return made;
    }
    let (part, sort) = (maker.pick(&by).text(), maker.pick(&by).text());
    // Those that have one answer whatever the order of equal rows.
    let function = maker.pick(&["rank()", "dense_rank()", "count(*)"]);
    let over = match maker.random.random_range(0..3) {
        0 => format!("{function} OVER (PARTITION BY {part} ORDER BY {sort})"),
        1 => format!("{function} OVER (ORDER BY {sort} DESC)"),
        _ => format!("count(*) OVER (PARTITION BY {part})"),
    };
    made.select = vec![part, format!("{over} AS place")];
    made
}

/// Expressions in the list of results.
fn expressions(maker: &mut Maker<'_>, table: &TableSpec) -> Select {
    let seen = scope(maker.sort, table, "");
    let mut made = bare(table.name.clone());
    made.conjuncts = maker.conjuncts(&seen, 2);
    let writable: Vec<NamedColumn> =
        seen.iter().filter(|it| !it.field.values[0].starts_with('x')).copied().collect();
    let column = maker.pick(&writable);
    let name = column.text();
    let mut select = Vec::new();
    for at in 0..maker.random.random_range(1..4) {
        let text = match maker.random.random_range(0..5) {
            0 => {
                maker.note("CASE");
                format!("CASE WHEN {name} IS NULL THEN 'none' ELSE 'some' END")
            }
            1 => {
                maker.note("COALESCE");
                format!("COALESCE({name}, {})", maker.value(column.field))
            }
            2 => {
                maker.note("cast");
                format!("CAST({name} AS text)")
            }
            3 => {
                maker.note("function");
                let text = seen.iter().find(|it| it.field.kind == Kind::Text);
                text.map_or("abs(-1)".to_owned(), |it| {
                    format!("{}({})", maker.pick(&["upper", "lower", "length"]), it.text())
                })
            }
            _ => {
                let json = seen.iter().find(|it| it.field.kind == Kind::Json);
                let path = if maker.sort == Sort::Sqlite { "'$.a'" } else { "'a'" };
                let operator = maker.pick(&["->", "->>"]);
                match json {
                    Some(it) => {
                        maker.note("JSON operator");
                        format!("{} {operator} {path}", it.text())
                    }
                    None => {
                        maker.note("IS NULL");
                        format!("{name} IS NULL")
                    }
                }
            }
        };
        select.push(format!("{text} AS e{at}"));
    }
    made.select = select;
    made
}
