//! From what a client wrote to a query that can be kept: read, permitted, bound, and looked at by the
//! database.
//!
//! Whoever may not read one of the tables is told just that, before anything is said of any of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::BytesMut;
use serde_json::value::RawValue;

use tidewire_query::{
    Access, Binding, Dialect, Draft, Plan, Projected, Query, QueryKey, QueryLimits, Refusal,
    RuleUse, ShapeColumn, TableName, TableShape,
};
use tidewire_store::{CheckedQuery, LiveRead, SqlError, SqlLimits, StoreError, TABLE_PREFIX};

use super::catalogue::Named;
use super::problem;
use crate::access::auth::{Act, Identity, Who, audit};
use crate::access::options::QueryOptions;
use crate::access::problem::Problem;
use crate::hub::Hub;
use crate::hub::encode::put_json_string;
use crate::hub::lens;
use crate::hub::lens::{Person, Untried};

/// Queries of which it is remembered what the database said; with more, all are forgotten.
const CHECKS_MAX: usize = 10_000;

/// A query that can be kept.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) query: Arc<Query>,
    /// The result's columns as JSON: names and types.
    pub(crate) columns: Arc<str>,
    /// Told apart from others, and from the same over other columns.
    pub(crate) etag: String,
    /// What the database's planner expects, where it says.
    pub(crate) cost: Option<f64>,
    /// Who asked for it first, on whose account it is read.
    pub(super) owner: Who,
    origin: Arc<Origin>,
    /// The tables as it is bound to them.
    tables: Vec<Arc<TableShape>>,
}

/// What a query is bound from, and again when a table has changed.
#[derive(Debug)]
struct Origin {
    draft: Draft,
    /// What its caller may see of each table, by the names of their events.
    access: HashMap<String, Access>,
    /// Tables that rules about those read, and the query does not.
    ruled: Vec<TableName>,
    person: Person,
}

/// What the database said of queries. A key stands for the tables as they were, so it is true for good.
#[derive(Debug, Default)]
pub(super) struct Checks(Mutex<HashMap<QueryKey, Arc<CheckedQuery>>>);

impl Hub {
    /// Makes a query of what someone wrote.
    pub(crate) async fn compile(
        &self,
        identity: &Identity,
        sql: &str,
        params: &[Box<RawValue>],
    ) -> Result<Compiled, Problem> {
        if !self.options.queries.enabled {
            return Err(problem::disabled());
        }
        let draft = Draft::parse(sql, params, lens::dialect(&self.store));
        let draft = draft.map_err(problem::refused)?;
        let named = self.queries.catalogue.look_up(&self.store, draft.tables()).await?;
        let access = self.access_to(identity, draft.tables(), &named).await?;
        let mut tables = within_reach(identity, draft.tables(), named, &access)?;
        let ruled = ruled(&tables, &access, lens::dialect(&self.store));
        self.add_ruled(&ruled, &mut tables).await?;
        let origin = Arc::new(Origin { draft, access, ruled, person: Person::of(identity) });
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
                    return Err(lens::rule_cannot_be_kept(&table));
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

    /// Says in the log what is wrong with the rules that a query was to keep, and for which table.
    async fn blame_rules(
        &self,
        origin: &Origin,
        tables: &[(TableName, Arc<TableShape>)],
    ) -> Option<String> {
        let mut blamed = None;
        for (name, shape) in tables {
            let rules = origin.access.get(&shape.name).into_iter().flat_map(|it| &it.rules);
            for rule in rules {
                if let Err(Untried::Wrong { message, position }) = self.try_rule(name, rule).await {
                    lens::blame(&shape.name, rule, position, &message);
                    blamed = Some(shape.name.clone());
                }
            }
        }
        blamed
    }

    /// Looks at a rule for the rows of a table, as a live query would be with it.
    pub(crate) async fn try_rule(&self, table: &TableName, rule: &str) -> Result<RuleUse, Untried> {
        let dialect = lens::dialect(&self.store);
        let later = |error: StoreError| Untried::Later(error.to_string());
        let wrong = |refusal: Refusal| Untried::Wrong {
            position: refusal.position,
            message: match refusal.hint {
                Some(hint) => format!("{} ({hint})", refusal.message),
                None => refusal.message,
            },
        };
        let named = self.queries.catalogue.look_up(&self.store, std::slice::from_ref(table)).await;
        let Some(Named::Watched(shape)) = named.map_err(later)?.into_iter().next() else {
            return Err(Untried::Later("its table is not watched".to_owned()));
        };
        // One that cannot be read is refused where it is looked at as a whole.
        let ruled = tidewire_query::rule_tables(rule, table, dialect).unwrap_or_default();
        let mut tables = Vec::new();
        self.add_ruled(&ruled, &mut tables).await.map_err(later)?;
        let kept = tidewire_query::check_rule(rule, table, &shape, &tables, dialect);
        let kept = kept.map_err(wrong)?;
        if kept == RuleUse::Everywhere || !self.options.queries.enabled {
            return Ok(kept);
        }
        // What the database thinks of its functions and types only it can say.
        let select = format!("SELECT count(*) AS n FROM {}", shape.sql_name);
        let draft = Draft::parse(&select, &[], dialect).map_err(wrong)?;
        let rules = vec![rule.into()];
        let access = HashMap::from([(shape.name.clone(), Access { rules, ..Access::default() })]);
        tables.extend(draft.tables().iter().map(|name| (name.clone(), Arc::clone(&shape))));
        let origin = Origin { draft, access, ruled, person: Person::default() };
        let query = origin.bind(&tables, self.query_limits()).map_err(wrong)?;
        match self.check(&query, &Who::Admin).await {
            Ok(_) => Ok(kept),
            Err(SqlError::Wrong(problem)) if is_of_text(problem.code) => {
                Err(Untried::Wrong { message: problem.message, position: None })
            }
            Err(error) => Err(Untried::Later(error.to_string())),
        }
    }

    /// Adds what tables are that rules read. One that is not watched is missed where it is named.
    async fn add_ruled(
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

    fn query_limits(&self) -> QueryLimits {
        let options = &self.options.queries;
        let QueryOptions { rows_max, window_slack, hide_timing, .. } = *options;
        QueryLimits { rows_max, window_slack, hide_timing }
    }

    /// What the database says of a query, asked once.
    async fn check(&self, query: &Query, owner: &Who) -> Result<Arc<CheckedQuery>, SqlError> {
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

/// The tables of a query, if all are watched and within its caller's reach.
fn within_reach(
    identity: &Identity,
    names: &[TableName],
    named: Vec<Named>,
    access: &HashMap<String, Access>,
) -> Result<Vec<(TableName, Arc<TableShape>)>, Problem> {
    let is_of_tenants = identity.scopes().reach() != &tidewire_store::Reach::All;
    let mut tables = Vec::with_capacity(names.len());
    for (name, named) in names.iter().zip(named) {
        let told = event_name(name, &named);
        match named {
            Named::Watched(shape) => {
                if !access.get(&told).is_some_and(|access| reaches(access, &shape)) {
                    // Its rows are of no tenant, and out of this caller's reach.
                    return Err(lens::table_not_found(&told));
                }
                tables.push((name.clone(), shape));
            }
            Named::NotWatched(_) if !is_of_tenants => {
                return Err(lens::table_not_watched(&told));
            }
            Named::NotWatched(_) | Named::Unknown => return Err(lens::table_not_found(&told)),
        }
    }
    Ok(tables)
}

/// The name that a table's events have or would have.
fn event_name(name: &TableName, named: &Named) -> String {
    match (named, &name.schema) {
        (Named::Watched(shape), _) => shape.name.clone(),
        (Named::NotWatched(name), _) => name.clone(),
        (Named::Unknown, Some(schema)) => format!("{schema}.{}", name.name),
        (Named::Unknown, None) => name.name.to_string(),
    }
}

/// Whether a problem that the database has is with the text of a statement, and stays.
fn is_of_text(code: &str) -> bool {
    matches!(code, "sql_syntax" | "sql_refused" | "sql_failed" | "query_failed")
}

/// Whether rows of a table may be someone's to see: one without a tenant's column is of no tenant.
fn reaches(access: &Access, shape: &TableShape) -> bool {
    let covers = |tenants| lens::covers(tenants, None);
    shape.host_column.is_some() || access.tenants.as_ref().is_none_or(covers)
}

/// Tables that rules about a query's tables read, and it does not.
fn ruled(
    tables: &[(TableName, Arc<TableShape>)],
    access: &HashMap<String, Access>,
    dialect: Dialect,
) -> Vec<TableName> {
    let mut all: Vec<TableName> = Vec::new();
    for (name, shape) in tables {
        for rule in access.get(&shape.name).iter().flat_map(|access| &access.rules) {
            // A rule that cannot be read is refused where it is bound.
            for read in tidewire_query::rule_tables(rule, name, dialect).unwrap_or_default() {
                if !all.contains(&read) && !tables.iter().any(|(named, _)| *named == read) {
                    all.push(read);
                }
            }
        }
    }
    all
}

impl Origin {
    /// Whether rows are hidden from the caller.
    fn sees_part(&self) -> bool {
        let hides = |access: &Access| !access.rules.is_empty() || access.tenants.is_some();
        self.access.values().any(hides)
    }

    /// Whether it is a table of the query, and its caller's to see.
    fn reaches(&self, shape: &TableShape) -> bool {
        self.access.get(&shape.name).is_some_and(|access| reaches(access, shape))
    }

    fn bind(
        &self,
        tables: &[(TableName, Arc<TableShape>)],
        limits: QueryLimits,
    ) -> Result<Query, Refusal> {
        let access = |table: &str| self.access(table);
        let (access, caller) = (&access, &self.person);
        let mut query = self.draft.bind(&Binding { tables, access, caller, limits })?;
        query.key = self.key(query.key);
        Ok(query)
    }

    /// Where in the client's text something is that the database found in what it was given.
    fn place(
        &self,
        tables: &[(TableName, Arc<TableShape>)],
        limits: QueryLimits,
        position: usize,
    ) -> Option<usize> {
        let access = |table: &str| self.access(table);
        let (access, caller) = (&access, &self.person);
        self.draft.origin(&Binding { tables, access, caller, limits }, position)
    }

    /// What is seen of a table: nothing, if it is none of the query's.
    fn access(&self, table: &str) -> Access {
        let nothing = || Access { columns: Some(Vec::new()), ..Access::default() };
        self.access.get(table).cloned().unwrap_or_else(nothing)
    }

    /// A query's key, apart for those who may see different things: what is the same for both by now may
    /// be another when a table has changed, and is bound again for one of them.
    fn key(&self, key: QueryKey) -> QueryKey {
        let mut access: Vec<_> = self.access.iter().collect();
        access.sort_unstable_by_key(|(table, _)| *table);
        let digest = crate::access::auth::digest(format!("{:032x}{access:?}", key.0).as_bytes());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        QueryKey(u128::from_be_bytes(bytes))
    }
}

/// What has become of a query whose table changed.
#[derive(Debug)]
pub(super) enum Rebound {
    /// It is the same.
    Same,
    /// It goes on as another, with the same columns.
    Other(Box<Compiled>),
    /// It cannot go on.
    Ended(tidewire_query::EndReason),
}

impl Compiled {
    /// Binds it to its tables as they are. An error if that is to be tried again.
    pub(super) async fn rebind(&self, hub: &Hub) -> Result<Rebound, SqlError> {
        let names = self.origin.draft.tables();
        let named = hub.queries.catalogue.look_up(&hub.store, names).await?;
        let mut tables = Vec::with_capacity(names.len());
        for (name, named) in names.iter().zip(named) {
            match named {
                // What the caller may see is known by the name that a table has for its events.
                Named::Watched(shape) if self.origin.reaches(&shape) => {
                    tables.push((name.clone(), shape));
                }
                _ => return Ok(Rebound::Ended(problem::reason(problem::TABLE_GONE, None))),
            }
        }
        hub.add_ruled(&self.origin.ruled, &mut tables).await?;
        let changed = |message| Rebound::Ended(problem::reason(problem::SCHEMA_CHANGED, message));
        let query = match self.origin.bind(&tables, hub.query_limits()) {
            Err(refusal) => return Ok(changed(Some(refusal.to_string()))),
            Ok(query) if query.dependencies == self.query.dependencies => return Ok(Rebound::Same),
            Ok(query) => query,
        };
        if query.columns != self.query.columns || query.ordered != self.query.ordered {
            return Ok(changed(None));
        }
        let tables = shapes(tables);
        let mut cost = self.cost;
        if !has_same_types((&self.query, &self.tables), (&query, &tables)) {
            let checked = match hub.check(&query, &self.owner).await {
                Ok(checked) => checked,
                Err(error) if is_of_another_shape(&error) => return Err(error),
                Err(SqlError::Store(error)) => return Err(error.into()),
                Err(SqlError::Wrong(wrong)) => {
                    let code = match wrong.code {
                        // It was right before: what is compared or computed is of another type.
                        "sql_syntax" | "sql_refused" => problem::SCHEMA_CHANGED,
                        code => code,
                    };
                    return Ok(Rebound::Ended(problem::reason(code, Some(wrong.message))));
                }
            };
            if columns(&query, &checked) != *self.columns {
                return Ok(changed(None));
            }
            cost = checked.cost.filter(|_| !self.origin.sees_part());
        }
        Ok(Rebound::Other(Box::new(Compiled {
            columns: Arc::clone(&self.columns),
            etag: etag(&query),
            cost,
            owner: self.owner.clone(),
            query: Arc::new(query),
            origin: Arc::clone(&self.origin),
            tables,
        })))
    }
}

/// A query and the tables that it is bound to.
type Tied<'a> = (&'a Query, &'a [Arc<TableShape>]);

/// Whether it is plain that the result's columns are of the types that they were: they are those of one
/// table. So that the database need not be asked for each of very many filters.
fn has_same_types((was, before): Tied<'_>, (is, after): Tied<'_>) -> bool {
    let (Plan::Filter(was), Plan::Filter(is)) = (&was.plan, &is.plan) else { return false };
    let ([before], [after]) = (before, after) else { return false };
    was.projection == is.projection
        && is.projection.iter().all(|projected| match projected {
            Projected::Column(name) => {
                let before = column(before, name);
                before.is_some() && before == column(after, name)
            }
            Projected::Literal(_) => true,
        })
}

/// Whether a table is not what a query was bound to, so that it is to be looked at again.
pub(super) fn is_of_another_shape(error: &SqlError) -> bool {
    matches!(error, SqlError::Wrong(wrong) if wrong.code == "shape_changed")
}

fn shapes(tables: Vec<(TableName, Arc<TableShape>)>) -> Vec<Arc<TableShape>> {
    tables.into_iter().map(|(_, shape)| shape).collect()
}

fn column<'a>(shape: &'a TableShape, name: &str) -> Option<&'a ShapeColumn> {
    shape.columns.iter().find(|own| own.column.name == name)
}

fn etag(query: &Query) -> String {
    let tables: Vec<_> = query.dependencies.iter().map(|table| table.fingerprint).collect();
    let digest = crate::access::auth::digest(format!("{:032x}{tables:?}", query.key.0).as_bytes());
    crate::access::auth::hex(&digest[..8])
}

/// The columns as clients are told them.
fn columns(query: &Query, checked: &CheckedQuery) -> String {
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

#[cfg(test)]
mod tests {
    use tidewire_query::Column;

    use super::*;

    fn shape(columns: &[(&str, &str)]) -> Arc<TableShape> {
        let column = |(name, type_name): &(&str, &str)| ShapeColumn {
            column: Column {
                name: (*name).to_owned(),
                type_name: (*type_name).to_owned(),
                collation: None,
            },
            generated: false,
            scale: None,
            json_text: false,
        };
        Arc::new(TableShape {
            name: "orders".to_owned(),
            sql_name: "orders".to_owned(),
            columns: columns.iter().map(column).collect(),
            key: vec!["id".to_owned()],
            host_column: None,
            fingerprint: 1,
            row_security: false,
            inherited: false,
        })
    }

    fn bound(sql: &str, shape: &Arc<TableShape>) -> Query {
        let draft = Draft::parse(sql, &[], Dialect::Postgres).expect("a SELECT");
        let tables = draft.tables().iter().map(|name| (name.clone(), Arc::clone(shape)));
        let tables: Vec<_> = tables.collect();
        let limits = QueryLimits { rows_max: 10, window_slack: 5, hide_timing: true };
        let access = |_: &str| Access::default();
        let binding = Binding { tables: &tables, access: &access, caller: &(), limits };
        draft.bind(&binding).expect("it can be kept")
    }

    #[test]
    fn only_a_filter_whose_columns_are_of_their_types_is_not_looked_at_again() {
        let before = shape(&[("id", "int8"), ("total", "int4"), ("note", "text")]);
        let added = shape(&[("id", "int8"), ("total", "int4"), ("more", "text")]);
        let wider = shape(&[("id", "int8"), ("total", "int8"), ("note", "text")]);
        for (sql, after, same) in [
            ("SELECT id, total FROM orders WHERE id > 1", &added, true),
            ("SELECT id FROM orders WHERE total > 1", &wider, true),
            ("SELECT id, total FROM orders WHERE id > 1", &wider, false),
            ("SELECT count(*) AS n FROM orders", &added, false),
        ] {
            let (was, is) = (bound(sql, &before), bound(sql, after));
            let was = (&was, &[Arc::clone(&before)][..]);
            assert_eq!(has_same_types(was, (&is, &[Arc::clone(after)])), same, "{sql}");
        }
    }
}
