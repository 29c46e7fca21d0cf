//! Which plan a query is kept by: the cheapest that is exact, and why not a cheaper one.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use sqlparser::ast::{Expr, GroupByExpr, TableFactor};

use super::single::SingleTable;
use super::{
    Conditions, Dependency, FilterPlan, Plan, PlanName, Query, QueryKey, RequeryPlan, aggregate,
    projection, relevance, window,
};
use crate::names;
use crate::refusal::{NOT_EXACT, NOT_SUPPORTED, Refusal};
use crate::shape::QueryLimits;
use crate::statement::Bound;

/// Makes the query.
pub(crate) fn choose(bound: &Bound<'_>, limits: QueryLimits) -> Result<Query, Refusal> {
    let mut why = Vec::new();
    let mut refuse = |plan: PlanName, refusal: Refusal| why.push((plan, refusal));
    let chosen = match single(bound) {
        Ok(filter) => {
            let projection = projection::projection(bound);
            match filter_only(bound).and_then(|()| projection.clone()) {
                Ok(projected) => {
                    let plan = FilterPlan { projection: names::projection(projected), ..filter };
                    Some((Plan::Filter(plan), None))
                }
                Err(refusal) => {
                    refuse(PlanName::Filter, refusal);
                    kept(bound, &filter, &projection, limits, &mut refuse)
                }
            }
        }
        Err(refusal) => {
            for plan in [PlanName::Filter, PlanName::Window, PlanName::Aggregate] {
                refuse(plan, refusal.clone());
            }
            None
        }
    };
    let is_requery = chosen.is_none();
    if is_requery {
        // The other plans know of each value what it is compared with.
        bound.without_clock()?;
    }
    let rerun: Arc<str> = bound.emit(is_requery).text.into();
    let (plan, read) = chosen.unwrap_or_else(|| {
        let identity = relevance::identity(bound);
        (Plan::Requery(RequeryPlan { relevance: relevance::relevance(bound), identity }), None)
    });
    let columns = names::labels(projection::told_apart(&bound.outputs));
    let is_requery_in_order = is_requery && bound.statement.order_by.is_some();
    let ordered = match plan.name() {
        PlanName::Filter => false,
        PlanName::Requery => is_requery_in_order,
        PlanName::Window | PlanName::Aggregate => bound.statement.order_by.is_some(),
    };
    let dependencies = dependencies(bound);
    let read = read.map_or_else(|| Arc::clone(&rerun), Arc::from);
    let key = key(bound, &plan, &read, &rerun, &columns, &dependencies);
    Ok(Query { key, plan, why, columns, ordered, dependencies, read, rerun })
}

/// The plans that keep something of one table.
fn kept(
    bound: &Bound<'_>,
    filter: &FilterPlan,
    projection: &Result<Vec<super::Projected>, Refusal>,
    limits: QueryLimits,
    refuse: &mut impl FnMut(PlanName, Refusal),
) -> Option<(Plan, Option<String>)> {
    let (select, it) = (bound.select()?, bound.occurrences().first()?);
    let known = &bound.known[it.table];
    let visible: Vec<&str> =
        known.visible.iter().map(|at| known.shape.columns[*at].column.name.as_str()).collect();
    let columns = projection::told_apart(&bound.outputs);
    let from_where = bound.source_sql();
    let position = |expr: &Expr| bound.position(expr);
    let single = SingleTable {
        dialect: bound.dialect(),
        shape: &known.shape,
        visible: &visible,
        alias: &it.alias,
        statement: bound.statement,
        select,
        filter,
        projection: projection.as_ref().map(|projected| (&*columns, &**projected)),
        from_where: &from_where,
        limits,
        position: &position,
    };
    let window = match bound.is_grouped() {
        true => Err(Refusal::new(NOT_SUPPORTED, "it groups rows")),
        false => window::plan(&single),
    };
    match window {
        Ok((plan, read)) => return Some((Plan::Window(Box::new(plan)), Some(read))),
        Err(refusal) => refuse(PlanName::Window, refusal),
    }
    match aggregate::plan(&single) {
        Ok((plan, read)) => return Some((Plan::Aggregate(Box::new(plan)), Some(read))),
        Err(refusal) => refuse(PlanName::Aggregate, refusal),
    }
    None
}

/// The rows of a SELECT from one table that are told by their images.
fn single(bound: &Bound<'_>) -> Result<FilterPlan, Refusal> {
    let refuse = |what: &str| Err(Refusal::new(NOT_SUPPORTED, what));
    let Some(select) = bound.select().filter(|_| bound.statement.with.is_none()) else {
        return refuse("it is no single SELECT");
    };
    let ([it], 1, [from]) = (bound.occurrences(), bound.walk.selects, select.from.as_slice())
    else {
        return refuse("it does not read exactly one table, once");
    };
    let is_plain = from.joins.is_empty()
        && matches!(&from.relation, TableFactor::Table { alias, .. }
            if alias.as_ref().is_none_or(|alias| alias.columns.is_empty()));
    if !is_plain {
        return refuse("it does not read exactly one table, by its own columns");
    }
    if select.distinct.is_some() {
        return refuse("DISTINCT makes one row of many");
    }
    if let Some(position) = bound.walk.window {
        let refusal = Refusal::new(NOT_SUPPORTED, "a window function looks at other rows");
        return Err(refusal.at(Some(position)));
    }
    if bound.statement.fetch.is_some() {
        return refuse("FETCH is not kept in memory; LIMIT is");
    }
    let shape = bound.shape(0);
    if shape.row_security {
        let message = "the table has row security: only the database knows which rows are seen";
        return Err(Refusal::new(NOT_EXACT, message));
    }
    let guard = &bound.guards[it.table];
    if !guard.is_exact {
        let message = "the table's row rule is more than a comparison of its columns with values";
        return Err(Refusal::new(NOT_EXACT, message));
    }
    let mut conditions: Conditions = guard.conditions.clone();
    if let Some(condition) = &select.selection {
        let Some(tokens) = bound.where_tokens(it.select) else {
            return Err(Refusal::new(NOT_SUPPORTED, "its WHERE was not found")
                .at(bound.position(condition)));
        };
        conditions.predicates.push(bound.condition(0, tokens)?.predicate);
    }
    // A list of one has room for four, and there may be very many of these.
    conditions.predicates.shrink_to_fit();
    Ok(FilterPlan {
        table: shape.name.as_str().into(),
        conditions,
        projection: Arc::default(),
        key: names::labels(shape.key.iter().map(|column| column.as_str().into()).collect()),
    })
}

/// Whether nothing but the condition says which rows there are, and nothing in which order.
fn filter_only(bound: &Bound<'_>) -> Result<(), Refusal> {
    let refuse = |what: &str| Err(Refusal::new(NOT_SUPPORTED, what));
    if bound.statement.limit_clause.is_some() {
        return refuse("LIMIT and OFFSET depend on other rows");
    }
    if bound.statement.order_by.is_some() {
        return refuse("its rows have an order");
    }
    if bound.is_grouped() {
        return refuse("it groups rows");
    }
    Ok(())
}

impl Bound<'_> {
    /// Whether GROUP BY or HAVING is there.
    pub(crate) fn is_grouped(&self) -> bool {
        let Some(select) = self.select() else { return false };
        let grouped = match &select.group_by {
            GroupByExpr::All(_) => true,
            GroupByExpr::Expressions(columns, _) => !columns.is_empty(),
        };
        grouped || select.having.is_some()
    }
}

fn dependencies(bound: &Bound<'_>) -> Vec<Dependency> {
    let mut dependencies: Vec<Dependency> = Vec::new();
    let named = bound.known.iter().map(|known| &known.shape);
    let rules = bound.guards.iter().flat_map(|guard| &guard.reads);
    for shape in named.chain(rules.map(|read| &read.shape)) {
        if !dependencies.iter().any(|it| *it.table == *shape.name) {
            let (table, fingerprint) = (shape.name.as_str().into(), shape.fingerprint);
            dependencies.push(Dependency { table, fingerprint });
        }
    }
    dependencies.shrink_to_fit();
    dependencies
}

/// The hash of all that the result is made of. It is the same on every node.
fn key(
    bound: &Bound<'_>,
    plan: &Plan,
    read: &str,
    rerun: &str,
    columns: &[Box<str>],
    dependencies: &[Dependency],
) -> QueryKey {
    let half = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        (salt, bound.dialect(), plan.name(), read, rerun, columns).hash(&mut hasher);
        for dependency in dependencies {
            (&dependency.table, dependency.fingerprint).hash(&mut hasher);
        }
        for guard in &bound.guards {
            for predicate in &guard.conditions.predicates {
                predicate.key().hash(&mut hasher);
            }
            guard.conditions.tenants.hash(&mut hasher);
        }
        salt.hash(&mut hasher);
        u128::from(hasher.finish())
    };
    QueryKey(half(1) << 64 | half(2))
}
