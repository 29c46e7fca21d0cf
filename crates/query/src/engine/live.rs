//! One query that is kept, whatever its plan.

use std::sync::Arc;

use super::filter::Filter;
use super::groups::Groups;
use super::maintained::MaintainedQuery;
use super::messages::{AskId, Output, ReadFailed, Rows, Subscriber};
use super::query_context::QueryContext;
use super::requery::Requery;
use super::state::State;
use super::transaction::Transaction;
use super::window::Window;
use crate::plan::{Plan, PlanName, Query};
use crate::position::Position;

/// A query and who follows it.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) query: Arc<Query>,
    pub(super) body: Body,
    /// How often it was not known what became of its result.
    pub(super) unsure: u32,
    /// What it held when it was last looked at.
    pub(super) bytes: usize,
}

/// How it is kept.
#[derive(Debug)]
pub(super) enum Body {
    Filter(Filter),
    Maintained(Box<MaintainedQuery>),
}

impl Body {
    pub(super) fn maintained(state: impl State + 'static, is_run_again: bool) -> Body {
        Body::Maintained(Box::new(MaintainedQuery::new(Box::new(state), is_run_again)))
    }

    fn run_again(query: &Arc<Query>) -> Body {
        Body::maintained(Requery::new(Arc::clone(query)), true)
    }
}

impl Live {
    pub(super) fn new(query: Arc<Query>) -> Live {
        let body = match &query.plan {
            Plan::Filter(_) => Body::Filter(Filter::default()),
            Plan::Window(plan) => Body::maintained(Window::new(plan, &query.columns), false),
            Plan::Aggregate(plan) => Body::maintained(Groups::new(plan, &query.columns), false),
            Plan::Requery(_) => Body::run_again(&query),
        };
        Live { query, body, unsure: 0, bytes: 0 }
    }

    pub(super) fn plan(&self) -> PlanName {
        match &self.body {
            Body::Filter(_) => PlanName::Filter,
            Body::Maintained(kept) if kept.is_run_again() => PlanName::Requery,
            Body::Maintained(_) => self.query.plan.name(),
        }
    }

    /// All who follow, and whether they have been told rows.
    pub(super) fn members(&self) -> Vec<(Subscriber, bool)> {
        match &self.body {
            Body::Filter(filter) => filter.members().collect(),
            Body::Maintained(kept) => kept.members().collect(),
        }
    }

    /// Whether nobody follows.
    pub(super) fn is_empty(&self) -> bool {
        match &self.body {
            Body::Filter(filter) => filter.members().next().is_none(),
            Body::Maintained(kept) => kept.members().next().is_none(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match &self.body {
            Body::Filter(filter) => filter.bytes(),
            Body::Maintained(kept) => kept.bytes(),
        }
    }

    pub(super) fn join(&mut self, who: Subscriber, reset: bool, context: &mut QueryContext<'_>) {
        match &mut self.body {
            Body::Filter(filter) => filter.join(&self.query, who, reset, context),
            Body::Maintained(kept) => kept.join(&self.query, who, reset, context),
        }
    }

    pub(super) fn leave(&mut self, who: Subscriber, context: &mut QueryContext<'_>) {
        match &mut self.body {
            Body::Filter(filter) => filter.leave(who, context),
            Body::Maintained(kept) => kept.leave(who),
        }
    }

    pub(super) fn rows(
        &mut self,
        ask: AskId,
        rows: Result<Rows, ReadFailed>,
        context: &mut QueryContext<'_>,
    ) {
        match &mut self.body {
            Body::Filter(filter) => filter.rows(&self.query, ask, rows, context),
            Body::Maintained(kept) => kept.rows(&self.query, ask, rows, context),
        }
    }

    pub(super) fn settled(&mut self, ask: AskId, mark: Position, context: &mut QueryContext<'_>) {
        match &mut self.body {
            Body::Filter(filter) => filter.settled(ask, mark, context),
            Body::Maintained(kept) => kept.settled(ask, mark, context),
        }
    }

    pub(super) fn hurry(&mut self, ask: AskId) {
        match &mut self.body {
            Body::Filter(filter) => filter.hurry(ask),
            Body::Maintained(kept) => kept.hurry(ask),
        }
    }

    /// The open transaction ended, and it concerned the query.
    pub(super) fn close(&mut self, by: &Transaction, context: &mut QueryContext<'_>) {
        match &mut self.body {
            Body::Filter(filter) => filter.close(&self.query, by, context),
            Body::Maintained(kept) => kept.close(&self.query, by, context),
        }
    }

    /// Tells what can be told.
    pub(super) fn attend(&mut self, context: &mut QueryContext<'_>) {
        match &mut self.body {
            Body::Filter(filter) => filter.attend(&self.query, context),
            Body::Maintained(kept) => kept.attend(&self.query, context),
        }
    }

    /// What was read and told may be wrong.
    pub(super) fn reread(&mut self, context: &mut QueryContext<'_>) {
        match &mut self.body {
            Body::Filter(filter) => filter.reread(&self.query, context),
            Body::Maintained(kept) => kept.reread(&self.query, context),
        }
    }

    /// No read counts any more.
    pub(super) fn forget_asks(&mut self, context: &mut QueryContext<'_>) {
        match &mut self.body {
            Body::Filter(filter) => filter.forget_parties(context),
            Body::Maintained(kept) => {
                if let Some(ask) = kept.open_ask() {
                    context.asks.forget(ask);
                }
            }
        }
    }

    /// From now on the query is run again. Whoever follows gets all rows.
    pub(super) fn demote(&mut self, context: &mut QueryContext<'_>) {
        let members = self.members();
        self.forget_asks(context);
        self.body = Body::run_again(&self.query);
        context.out.push(Output::Plan { query: context.query, plan: PlanName::Requery });
        self.adopt(members, context);
    }

    /// All of these get all rows, whoever has been told rows before.
    pub(super) fn adopt(
        &mut self,
        members: Vec<(Subscriber, bool)>,
        context: &mut QueryContext<'_>,
    ) {
        match &mut self.body {
            Body::Filter(filter) => filter.adopt(&self.query, members, context),
            Body::Maintained(kept) => kept.adopt(&self.query, members, context),
        }
    }
}
