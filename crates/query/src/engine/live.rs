//! One query that is kept, whatever its plan.

use std::sync::Arc;

use super::filter::Filter;
use super::groups::Groups;
use super::kept::Kept;
use super::requery::Requery;
use super::said::{AskId, Output, ReadFailed, Rows, Subscriber};
use super::state::State;
use super::transaction::Transaction;
use super::turn::Turn;
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
    Kept(Box<Kept>),
}

impl Body {
    pub(super) fn kept(state: impl State + 'static, is_run_again: bool) -> Body {
        Body::Kept(Box::new(Kept::new(Box::new(state), is_run_again)))
    }

    fn run_again(query: &Arc<Query>) -> Body {
        Body::kept(Requery::new(Arc::clone(query)), true)
    }
}

impl Live {
    pub(super) fn new(query: Arc<Query>) -> Live {
        let body = match &query.plan {
            Plan::Filter(_) => Body::Filter(Filter::default()),
            Plan::Window(plan) => Body::kept(Window::new(plan, &query.columns), false),
            Plan::Aggregate(plan) => Body::kept(Groups::new(plan, &query.columns), false),
            Plan::Requery(_) => Body::run_again(&query),
        };
        Live { query, body, unsure: 0, bytes: 0 }
    }

    pub(super) fn plan(&self) -> PlanName {
        match &self.body {
            Body::Filter(_) => PlanName::Filter,
            Body::Kept(kept) if kept.is_run_again() => PlanName::Requery,
            Body::Kept(_) => self.query.plan.name(),
        }
    }

    /// All who follow, and whether they have been told rows.
    pub(super) fn members(&self) -> Vec<(Subscriber, bool)> {
        match &self.body {
            Body::Filter(filter) => filter.members().collect(),
            Body::Kept(kept) => kept.members().collect(),
        }
    }

    /// Whether nobody follows.
    pub(super) fn is_empty(&self) -> bool {
        match &self.body {
            Body::Filter(filter) => filter.members().next().is_none(),
            Body::Kept(kept) => kept.members().next().is_none(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match &self.body {
            Body::Filter(filter) => filter.bytes(),
            Body::Kept(kept) => kept.bytes(),
        }
    }

    pub(super) fn join(&mut self, who: Subscriber, reset: bool, turn: &mut Turn<'_>) {
        match &mut self.body {
            Body::Filter(filter) => filter.join(&self.query, who, reset, turn),
            Body::Kept(kept) => kept.join(&self.query, who, reset, turn),
        }
    }

    pub(super) fn leave(&mut self, who: Subscriber, turn: &mut Turn<'_>) {
        match &mut self.body {
            Body::Filter(filter) => filter.leave(who, turn),
            Body::Kept(kept) => kept.leave(who),
        }
    }

    pub(super) fn rows(&mut self, ask: AskId, rows: Result<Rows, ReadFailed>, turn: &mut Turn<'_>) {
        match &mut self.body {
            Body::Filter(filter) => filter.rows(&self.query, ask, rows, turn),
            Body::Kept(kept) => kept.rows(&self.query, ask, rows, turn),
        }
    }

    pub(super) fn settled(&mut self, ask: AskId, mark: Position, turn: &mut Turn<'_>) {
        match &mut self.body {
            Body::Filter(filter) => filter.settled(ask, mark, turn),
            Body::Kept(kept) => kept.settled(ask, mark, turn),
        }
    }

    pub(super) fn hurry(&mut self, ask: AskId) {
        match &mut self.body {
            Body::Filter(filter) => filter.hurry(ask),
            Body::Kept(kept) => kept.hurry(ask),
        }
    }

    /// The open transaction ended, and it concerned the query.
    pub(super) fn close(&mut self, by: &Transaction, turn: &mut Turn<'_>) {
        match &mut self.body {
            Body::Filter(filter) => filter.close(&self.query, by, turn),
            Body::Kept(kept) => kept.close(&self.query, by, turn),
        }
    }

    /// Tells what can be told.
    pub(super) fn attend(&mut self, turn: &mut Turn<'_>) {
        match &mut self.body {
            Body::Filter(filter) => filter.attend(&self.query, turn),
            Body::Kept(kept) => kept.attend(&self.query, turn),
        }
    }

    /// What was read and told may be wrong.
    pub(super) fn reread(&mut self, turn: &mut Turn<'_>) {
        match &mut self.body {
            Body::Filter(filter) => filter.reread(&self.query, turn),
            Body::Kept(kept) => kept.reread(&self.query, turn),
        }
    }

    /// No read counts any more.
    pub(super) fn forget_asks(&mut self, turn: &mut Turn<'_>) {
        match &mut self.body {
            Body::Filter(filter) => filter.forget_parties(turn),
            Body::Kept(kept) => {
                if let Some(ask) = kept.open_ask() {
                    turn.asks.forget(ask);
                }
            }
        }
    }

    /// From now on the query is run again. Whoever follows gets all rows.
    pub(super) fn demote(&mut self, turn: &mut Turn<'_>) {
        let members = self.members();
        self.forget_asks(turn);
        self.body = Body::run_again(&self.query);
        turn.out.push(Output::Plan { query: turn.query, plan: PlanName::Requery });
        self.adopt(members, turn);
    }

    /// All of these get all rows, whoever has been told rows before.
    pub(super) fn adopt(&mut self, members: Vec<(Subscriber, bool)>, turn: &mut Turn<'_>) {
        match &mut self.body {
            Body::Filter(filter) => filter.adopt(&self.query, members, turn),
            Body::Kept(kept) => kept.adopt(&self.query, members, turn),
        }
    }
}
