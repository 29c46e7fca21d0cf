//! From what a client wrote to a query that can be kept: read, permitted, bound, and looked at by the
//! database.
//!
//! Whoever may not read one of the tables is told just that, before anything is said of any of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::BytesMut;
use serde_json::value::RawValue;

use tidewire_query::{Access, Draft, Query, QueryKey, QueryLimits, TableName, TableShape};
use tidewire_store::{CheckedQuery, LiveRead, SqlError, SqlLimits, StoreError, TABLE_PREFIX};

use super::catalogue::Named;
use super::origin::{QuerySource, ruled, within_reach};
use super::problem;
use crate::Hub;
use crate::encode::put_json_string;
use crate::row_filter;
use crate::row_filter::FilterCaller;
use tidewire_access::auth::{Act, Identity, Who, audit};
use tidewire_access::options::QueryOptions;
use tidewire_access::problem::Problem;

/// Queries of which it is remembered what the database said; with more, all are forgotten.
const CHECKS_MAX: usize = 10_000;

/// A query that can be kept.
#[derive(Debug)]
pub struct Compiled {
    pub query: Arc<Query>,
    /// The result's columns as JSON: names and types.
    pub columns: Arc<str>,
    /// Told apart from others, and from the same over other columns.
    pub etag: String,
    /// What the database's planner expects, where it says.
    pub cost: Option<f64>,
    /// Who asked for it first, on whose account it is read.
    pub(super) owner: Who,
    pub(super) origin: Arc<QuerySource>,
    /// The tables as it is bound to them.
    pub(super) tables: Vec<Arc<TableShape>>,
}

/// What the database said of queries. A key stands for the tables as they were, so it is true for good.
#[derive(Debug, Default)]
pub(super) struct Checks(Mutex<HashMap<QueryKey, Arc<CheckedQuery>>>);

impl Hub {
    /// Makes a query of what someone wrote.
    pub async fn compile(
        &self,
        identity: &Identity,
        sql: &str,
        params: &[Box<RawValue>],
    ) -> Result<Compiled, Problem> {
        if !self.options.queries.enabled {
            return Err(problem::disabled());
        }
        let draft = Draft::parse(sql, params, row_filter::dialect(&self.store));
        let draft = draft.map_err(problem::refused)?;
        let named = self.queries.catalogue.look_up(&self.store, draft.tables()).await?;
        let access = self.access_to(identity, draft.tables(), &named).await?;
        let mut tables = within_reach(identity, draft.tables(), named, &access)?;
        let ruled = ruled(&tables, &access, row_filter::dialect(&self.store));
        self.add_ruled(&ruled, &mut tables).await?;
        let origin =
            Arc::new(QuerySource { draft, access, ruled, person: FilterCaller::of(identity) });
        let query = match origin.bind(&tables, self.query_limits()) {
            Ok(query) => query,
            Err(refusal) => {
                if refusal.code == problem::RULE {
                    self.blame_rules(&origin, &tables).await;
                }
                return Err(problem::refused(refusal));
            }
        };
        let checked = match self.check(&query, identity.who()).await {
            Ok(checked) => checked,
            Err(error) => {
                // What the database says of a rule is not for those whom the rule keeps out.
                let is_wrong = matches!(&error, SqlError::Wrong(wrong) if is_of_text(wrong.code));
                if is_wrong && let Some(table) = self.blame_rules(&origin, &tables).await {
                    return Err(row_filter::rule_cannot_be_kept(&table));
                }
                let place = |position| origin.place(&tables, self.query_limits(), position);
                let problem = problem::check_failed(error, place);
                return Err(problem::of_parameter(problem, sql, params));
            }
        };
        let cost_max = self.options.queries.cost_max;
        // The planner knows all rows. Whoever may not see them all learns nothing of what it expects, neither
        // by a number nor by being refused: what the query is made of bounds them, and how long it may take.
        match checked.cost.filter(|_| !origin.sees_part()) {
            #[expect(clippy::cast_precision_loss, reason = "a cost is a rough guess")]
            Some(cost) if cost_max > 0 && cost > cost_max as f64 => {
                Err(problem::too_expensive(cost_max))
            }
            cost => Ok(Compiled {
                columns: columns(&query, &checked).into(),
                etag: etag(&query),
                cost,
                owner: identity.who().clone(),
                query: Arc::new(query),
                origin,
                tables: shapes(tables),
            }),
        }
    }

    /// What the caller may see of each table of a query, by the names of their events: of all that it
    /// names, be they there or not, so that a refusal tells nothing.
    async fn access_to(
        &self,
        identity: &Identity,
        names: &[TableName],
        named: &[Named],
    ) -> Result<HashMap<String, Access>, Problem> {
        let mut all = HashMap::with_capacity(names.len());
        for (name, named) in names.iter().zip(named) {
            let table = event_name(name, named);
            let stream = format!("{TABLE_PREFIX}{table}");
            let act = Act::Read(&stream);
            let access = match identity.may(act) {
                Ok(()) => self.access(identity, &table).await,
                Err(problem) => Err(problem),
            };
            let access = access.inspect_err(|problem| {
                audit::turned_away(&self.access, Some(identity), act, problem);
            })?;
            all.insert(table, access);
        }
        Ok(all)
    }

    /// Adds what tables are that rules read. One that is not watched is missed where it is named.
    pub(super) async fn add_ruled(
        &self,
        names: &[TableName],
        tables: &mut Vec<(TableName, Arc<TableShape>)>,
    ) -> Result<(), StoreError> {
        let named = self.queries.catalogue.look_up(&self.store, names).await?;
        tables.extend(names.iter().zip(named).filter_map(|(name, named)| match named {
            Named::Watched(shape) => Some((name.clone(), shape)),
            Named::NotWatched(_) | Named::Unknown => None,
        }));
        Ok(())
    }

    pub(super) fn query_limits(&self) -> QueryLimits {
        let options = &self.options.queries;
        let QueryOptions { rows_max, window_slack, hide_timing, .. } = *options;
        QueryLimits { rows_max, window_slack, hide_timing }
    }

    /// What the database says of a query, asked once.
    pub(super) async fn check(
        &self,
        query: &Query,
        owner: &Who,
    ) -> Result<Arc<CheckedQuery>, SqlError> {
        let lock = || self.queries.checks.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&query.key) {
            return Ok(Arc::clone(known));
        }
        let read = self.live_read(query, &query.rerun, owner);
        let checked = self.store.check_query(&read).await.inspect_err(|error| {
            if is_of_another_shape(error) {
                self.queries.catalogue.forget();
            }
        });
        let checked = Arc::new(checked?);
        let mut known = lock();
        if known.len() >= CHECKS_MAX {
            known.clear();
        }
        known.insert(query.key, Arc::clone(&checked));
        Ok(checked)
    }

    /// What is read of the database for a query.
    pub(super) fn live_read(&self, query: &Query, sql: &str, owner: &Who) -> LiveRead {
        let options = &self.options.queries;
        let tables = query.dependencies.iter();
        LiveRead {
            sql: sql.to_owned(),
            tables: tables.map(|table| (table.table.to_string(), table.fingerprint)).collect(),
            limits: SqlLimits {
                timeout_ms: u64::try_from(options.timeout.as_millis()).unwrap_or(u64::MAX),
                // A window reads more than is seen of it.
                rows_max: options.rows_max + 2 * options.window_slack,
                bytes_max: options.bytes_max,
            },
            account: Some(owner.account()),
        }
    }
}

/// The name that a table's events have or would have.
pub(super) fn event_name(name: &TableName, named: &Named) -> String {
    match (named, &name.schema) {
        (Named::Watched(shape), _) => shape.name.clone(),
        (Named::NotWatched(name), _) => name.clone(),
        (Named::Unknown, Some(schema)) => format!("{schema}.{}", name.name),
        (Named::Unknown, None) => name.name.to_string(),
    }
}

/// Whether a problem that the database has is with the text of a statement, and stays.
pub(super) fn is_of_text(code: &str) -> bool {
    matches!(code, "sql_syntax" | "sql_refused" | "sql_failed" | "query_failed")
}

/// Whether a table is not what a query was bound to, so that it is to be looked at again.
pub(super) fn is_of_another_shape(error: &SqlError) -> bool {
    matches!(error, SqlError::Wrong(wrong) if wrong.code == "shape_changed")
}

pub(super) fn shapes(tables: Vec<(TableName, Arc<TableShape>)>) -> Vec<Arc<TableShape>> {
    tables.into_iter().map(|(_, shape)| shape).collect()
}

pub(super) fn etag(query: &Query) -> String {
    let tables: Vec<_> = query.dependencies.iter().map(|table| table.fingerprint).collect();
    let digest =
        tidewire_access::auth::digest(format!("{:032x}{tables:?}", query.key.0).as_bytes());
    tidewire_access::auth::hex(&digest[..8])
}

/// The columns as clients are told them.
pub(super) fn columns(query: &Query, checked: &CheckedQuery) -> String {
    let mut out = BytesMut::from(&b"["[..]);
    for (index, name) in query.columns.iter().enumerate() {
        out.extend_from_slice(if index == 0 { b"{\"name\":" } else { b",{\"name\":" });
        put_json_string(&mut out, name);
        out.extend_from_slice(b",\"type\":");
        let type_name = checked.columns.get(index).map(|column| column.type_name.as_str());
        put_json_string(&mut out, type_name.unwrap_or_default());
        out.extend_from_slice(b"}");
    }
    out.extend_from_slice(b"]");
    String::from_utf8_lossy(&out).into_owned()
}
