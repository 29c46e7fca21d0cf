//! What a query is bound from: what its client wrote, and what the caller may see of each table.

use std::collections::HashMap;
use std::sync::Arc;

use tidewire_query::{
    Access, Binding, Dialect, Draft, Query, QueryKey, QueryLimits, Refusal, TableName, TableShape,
};

use super::catalogue::Named;
use super::compile::event_name;
use crate::row_filter;
use crate::row_filter::FilterCaller;
use tidewire_access::auth::Identity;
use tidewire_access::problem::Problem;

/// What a query is bound from, and again when a table has changed.
#[derive(Debug)]
pub(super) struct QuerySource {
    pub(super) draft: Draft,
    /// What its caller may see of each table, by the names of their events.
    pub(super) access: HashMap<String, Access>,
    /// Tables that rules about those read, and the query does not.
    pub(super) ruled: Vec<TableName>,
    pub(super) person: FilterCaller,
}

impl QuerySource {
    /// Whether rows are hidden from the caller.
    pub(super) fn sees_part(&self) -> bool {
        let hides = |access: &Access| !access.rules.is_empty() || access.tenants.is_some();
        self.access.values().any(hides)
    }

    /// Whether it is a table of the query, and its caller's to see.
    pub(super) fn reaches(&self, shape: &TableShape) -> bool {
        self.access.get(&shape.name).is_some_and(|access| reaches(access, shape))
    }

    pub(super) fn bind(
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
    pub(super) fn place(
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
        let digest = tidewire_access::auth::digest(format!("{:032x}{access:?}", key.0).as_bytes());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        QueryKey(u128::from_be_bytes(bytes))
    }
}

/// The tables of a query, if all are watched and within its caller's reach.
pub(super) fn within_reach(
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
                    return Err(row_filter::table_not_found(&told));
                }
                tables.push((name.clone(), shape));
            }
            Named::NotWatched(_) if !is_of_tenants => {
                return Err(row_filter::table_not_watched(&told));
            }
            Named::NotWatched(_) | Named::Unknown => {
                return Err(row_filter::table_not_found(&told));
            }
        }
    }
    Ok(tables)
}

/// Whether rows of a table may be someone's to see: one without a tenant's column is of no tenant.
fn reaches(access: &Access, shape: &TableShape) -> bool {
    let covers = |tenants| row_filter::covers(tenants, None);
    shape.host_column.is_some() || access.tenants.as_ref().is_none_or(covers)
}

/// Tables that rules about a query's tables read, and it does not.
pub(super) fn ruled(
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
