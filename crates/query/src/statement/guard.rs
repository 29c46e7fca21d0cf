//! Which rows of a table its caller may see: as conditions on images, and as SQL.

use std::sync::Arc;

use super::emit::{Edits, emit, quoted, string};
use super::identities;
use super::rule::{RuleRead, run_by_the_database};
use super::tokens::read_rule;
use super::walk::VisibleTable;
use crate::caller::Caller;
use crate::plan::Conditions;
use crate::predicate::Predicate;
use crate::refusal::{NO_TABLE, QUERY_NOT_SUPPORTED, RULE, Refusal};
use crate::shape::{TableName, TableShape, TenantRule};
use crate::table::{Dialect, Table};

/// The rows of a table that may be seen.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    /// The table for predicates: the columns that images have.
    pub(crate) table: Table,
    pub(crate) conditions: Conditions,
    /// Whether the conditions are all there is. If not, only the database can say which rows are seen.
    pub(crate) is_exact: bool,
    /// The columns that are read by what is not among the conditions.
    pub(crate) columns: Vec<Box<str>>,
    /// Other tables that are read to see which rows are seen.
    pub(crate) reads: Vec<RuleRead>,
    /// The same as SQL over the table's own columns, each whole in itself.
    pub(crate) sql: Vec<String>,
}

pub(super) fn guards(
    known: &[VisibleTable],
    tables: &[(TableName, Arc<TableShape>)],
    caller: &dyn Caller,
    dialect: Dialect,
) -> Result<Vec<Guard>, Refusal> {
    known.iter().map(|known| guard(known, tables, caller, dialect)).collect()
}

fn guard(
    known: &VisibleTable,
    tables: &[(TableName, Arc<TableShape>)],
    caller: &dyn Caller,
    dialect: Dialect,
) -> Result<Guard, Refusal> {
    let shape = &known.shape;
    let table = shape.images(dialect);
    let mut conditions = Conditions::default();
    let mut sql = Vec::new();
    // What a rule says is not for everyone to read.
    let refuse_by = |code, what: &str| {
        let message =
            format!("the rows of {} cannot be shown by a live query: {what}", known.name.name);
        Refusal::new(code, message).hint(
            "ask whoever configured the table's row rules and tenants; the server's log says why",
        )
    };
    let refuse = |what: &str| refuse_by(RULE, what);
    let (mut is_exact, mut columns, mut reads) = (true, Vec::new(), Vec::new());
    for rule in &known.access.rules {
        let pieces = read_rule(rule, dialect).map_err(|_| refuse("its row rule is no SQL"))?;
        let pieces = identities::fill(&pieces, caller, dialect)?;
        match Predicate::parse(rule, &table, caller) {
            Ok(predicate) => {
                sql.push(emit(&pieces, 0, pieces.len(), &Edits::default()).text);
                conditions.predicates.push(predicate);
            }
            Err(_) => {
                let rule = run_by_the_database(known, pieces, tables, dialect);
                let rule = rule.map_err(|refusal| match refusal.code {
                    NO_TABLE => refuse("its row rule reads a table that is not watched"),
                    _ => refuse("its row rule is not what a live query may contain"),
                })?;
                sql.push(rule.sql);
                columns.extend(rule.columns);
                reads.extend(rule.reads);
                is_exact = false;
            }
        }
    }
    if let Some(rule) = &known.access.tenants {
        match &shape.host_column {
            Some(column) => {
                let declared = shape.columns.iter().find(|it| it.column.name == *column);
                if declared.is_none_or(|it| it.generated) {
                    let what = "its column of tenants is in no event";
                    return Err(refuse_by(QUERY_NOT_SUPPORTED, what));
                }
                let type_name = declared.map_or("", |it| it.column.type_name.as_str());
                sql.push(tenants(column, type_name, rule, dialect));
                conditions.tenants = Some((column.as_str().into(), rule.clone()));
            }
            // All its rows are of no tenant.
            None if rule.shared => {}
            None => {
                let what = "it does not say whose tenant's its rows are";
                return Err(refuse_by(QUERY_NOT_SUPPORTED, what));
            }
        }
    }
    Ok(Guard { table, conditions, is_exact, columns, reads, sql })
}

/// Rows of some tenants, compared as the text that images have of them.
fn tenants(column: &str, type_name: &str, rule: &TenantRule, dialect: Dialect) -> String {
    let column = quoted(column);
    let text = match (dialect, type_name) {
        (Dialect::Sqlite, _) => format!("CAST({column} AS TEXT)"),
        (Dialect::Postgres, "text" | "varchar" | "uuid" | "int2" | "int4" | "int8") => {
            format!("{column}::text")
        }
        (Dialect::Postgres, _) => format!("(pg_catalog.to_jsonb({column}) #>> '{{}}')"),
    };
    let hosts: Vec<String> = rule.hosts.iter().map(|host| string(host)).collect();
    let one_of = match hosts.is_empty() {
        true => "1 = 0".to_owned(),
        false => format!("{text} IN ({})", hosts.join(", ")),
    };
    if rule.shared { format!("{one_of} OR {column} IS NULL") } else { one_of }
}
