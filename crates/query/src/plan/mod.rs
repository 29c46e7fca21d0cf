//! How a query is kept: one of four plans.
//!
//! A plan is an optimisation. What the query means is its emitted text ([`Query::rerun`]); whatever
//! cannot be kept exactly in memory is run again.
//!
//! - `aggregate`: counts, sums and extremes of groups of a table's rows
//! - `choose`: which plan a query is kept by
//! - `conditions`: which rows of a table a query concerns
//! - `explain`: what can be said of a query
//! - `order`: ORDER BY and LIMIT
//! - `projection`: the columns of a result that are read off an image, and what all of them are
//!   called
//! - `relevance`: which changes concern a query that is run again, and which columns tell its rows
//!   apart
//! - `single`: a SELECT over one table, as the plans that read images look at it
//! - `window`: the first rows of a table in an order

pub(crate) mod aggregate;
mod choose;
mod conditions;
mod explain;
mod order;
mod projection;
mod relevance;
#[cfg(test)]
pub(crate) mod sample;
mod single;
pub(crate) mod window;

use std::fmt;
use std::sync::Arc;

pub use aggregate::AggregatePlan;
pub(crate) use aggregate::{ColumnAggregate, Measure};
pub(crate) use choose::choose;
pub use conditions::Conditions;
pub(crate) use order::Direction;
pub(crate) use window::Shown;
pub use window::WindowPlan;

use crate::index::Index;
use crate::predicate::Predicate;
use crate::refusal::Refusal;

/// What makes two queries the same: tables, text, parameters and what their callers may see. Equal
/// keys give equal results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueryKey(pub u128);

/// A query that can be kept live. Immutable; callers share it.
#[derive(Debug, Clone)]
pub struct Query {
    /// What makes it the same as another.
    pub key: QueryKey,
    /// How it is kept.
    pub plan: Plan,
    /// Why not by a cheaper plan, for each of those, cheapest first.
    pub why: Vec<(PlanName, Refusal)>,
    /// The names of its result's columns, each once.
    pub columns: Arc<[Box<str>]>,
    /// Whether its rows have an order that clients are told.
    pub ordered: bool,
    /// The tables it reads.
    pub dependencies: Vec<Dependency>,
    /// What begins the plan: the SELECT whose rows the plan's state is made of. Of a filter and a
    /// re-query the result itself; of the others as their plans say.
    pub read: Arc<str>,
    /// The query itself, as the database runs it. Where it is what is read, they are one text.
    pub rerun: Arc<str>,
}

impl Query {
    /// Whether it gives what another gives: the same text over the same tables.
    pub(crate) fn is_same(&self, other: &Query) -> bool {
        self.key == other.key
            && self.rerun == other.rerun
            && self.columns == other.columns
            && self.dependencies == other.dependencies
            && self.plan.name() == other.plan.name()
    }
}

impl Query {
    /// Patterns of the client's that each changed row of a table is tried on, because no index finds the
    /// query: by the table, each once.
    pub fn unindexed_patterns(&self) -> Vec<(&str, usize)> {
        let count = |conditions: &Conditions| match Index::finds(conditions) {
            true => 0,
            false => conditions.predicates.iter().map(Predicate::patterns).sum(),
        };
        let of_one = |filter: &FilterPlan| count(&filter.conditions);
        let all: Vec<(&str, usize)> = match &self.plan {
            Plan::Filter(filter) => vec![(&filter.table, of_one(filter))],
            Plan::Window(window) => vec![(&window.filter.table, of_one(&window.filter))],
            Plan::Aggregate(aggregate) => {
                vec![(&aggregate.filter.table, of_one(&aggregate.filter))]
            }
            Plan::Requery(plan) => {
                let of_table = |it: &Relevance| it.any_of.iter().map(count).sum();
                plan.relevance.iter().map(|it| (&*it.table, of_table(it))).collect()
            }
        };
        all.into_iter().filter(|(_, patterns)| *patterns > 0).collect()
    }
}

/// A table that a query reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// As its events call it.
    pub table: Box<str>,
    /// Of the shape that the query was bound to.
    pub fingerprint: u64,
}

/// The four plans' names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlanName {
    /// One table, its own columns; nothing is kept.
    Filter,
    /// The first rows in an order.
    Window,
    /// Counts and sums of groups.
    Aggregate,
    /// Anything: run again when something it reads changed.
    Requery,
}

impl PlanName {
    /// All there are.
    pub const ALL: [PlanName; 4] =
        [PlanName::Filter, PlanName::Window, PlanName::Aggregate, PlanName::Requery];

    /// The word that clients and people have for it.
    pub fn as_str(self) -> &'static str {
        match self {
            PlanName::Filter => "filter",
            PlanName::Window => "window",
            PlanName::Aggregate => "aggregate",
            PlanName::Requery => "requery",
        }
    }
}

impl fmt::Display for PlanName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a query is kept. Of filters there may be very many, so that larger plans are apart.
#[derive(Debug, Clone)]
pub enum Plan {
    /// Before and after of each change are tested.
    Filter(FilterPlan),
    /// The first rows are kept in memory, and some more.
    Window(Box<WindowPlan>),
    /// Groups are kept in memory.
    Aggregate(Box<AggregatePlan>),
    /// It is run again.
    Requery(RequeryPlan),
}

impl Plan {
    /// Its name.
    pub fn name(&self) -> PlanName {
        match self {
            Plan::Filter(_) => PlanName::Filter,
            Plan::Window(_) => PlanName::Window,
            Plan::Aggregate(_) => PlanName::Aggregate,
            Plan::Requery(_) => PlanName::Requery,
        }
    }
}

/// Rows of one table, each by itself.
#[derive(Debug, Clone)]
pub struct FilterPlan {
    /// The table, as its events call it.
    pub table: Box<str>,
    /// Which rows: what the client asks for, what rules allow, whose tenants'.
    pub conditions: Conditions,
    /// What of them, aligned with [`Query::columns`].
    pub projection: Arc<[Projected]>,
    /// The columns that tell rows apart; none if the whole row does.
    pub key: Arc<[Box<str>]>,
}

/// A column of a result that is read off an image.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Projected {
    /// A column of the table.
    Column(Box<str>),
    /// The same in every row, as JSON.
    Literal(Box<str>),
}

/// A query that is run again when a change concerns it.
#[derive(Debug, Clone)]
pub struct RequeryPlan {
    /// Of each table it reads, which changes concern it. A table may be there once only.
    pub relevance: Vec<Relevance>,
    /// Columns of the result (indices into [`Query::columns`]) that together tell its rows apart, if
    /// that is known: by them a changed row is told from a deleted and a new one.
    pub identity: Vec<usize>,
}

/// Which changes of a table concern a query.
#[derive(Debug, Clone)]
pub struct Relevance {
    /// The table, as its events call it.
    pub table: Box<str>,
    /// The columns that are read; none if all may be. A change of others does not concern it.
    pub columns: Option<Vec<Box<str>>>,
    /// Only rows for which one of these holds, before or after; empty if all do.
    pub any_of: Vec<Conditions>,
}
