//! What becomes of queries beside their events: too large, ended, bound anew.

use std::sync::Arc;

use super::messages::{EndReason, Output, QueryId, Recipients, TableNews};
use super::query_context::{QueryContext, UNSURE_MAX, state_too_large};
use super::{Body, Engine, Live};
use crate::plan::{PlanName, Query};

impl Engine {
    /// Something became of a table between two events.
    pub fn table(&mut self, table: &str, news: TableNews, out: &mut Vec<Output>) {
        let all = self.registry.queries_of(table);
        match news {
            TableNews::Reread => {
                for id in all {
                    self.with(id, out, Live::reread);
                }
            }
            TableNews::Rebound { mut bound, otherwise } => {
                let mut goes_on = Vec::new();
                for id in all {
                    match bound.remove(&id) {
                        Some(Ok(query)) => goes_on.push((id, query)),
                        Some(Err(reason)) => self.end(id, reason, out),
                        None => self.end(id, otherwise.clone(), out),
                    }
                }
                for (id, query) in goes_on {
                    self.rebind(id, query, out);
                }
            }
        }
        self.tell(out);
    }

    /// Looks at what a query holds after something was done to it: it ends if that is too much, and
    /// it is gone if nobody follows.
    pub(super) fn weigh(&mut self, id: QueryId, over: Option<EndReason>, out: &mut Vec<Output>) {
        let Some(live) = self.registry.get_mut(id) else { return };
        let bytes = live.bytes();
        let grew = bytes > live.bytes;
        self.stats.state_bytes = self.stats.state_bytes - live.bytes + bytes;
        live.bytes = bytes;
        let query_max = self.options.state_bytes_max;
        let too_large = matches!(live.body, Body::Maintained(_)) && bytes > query_max;
        let over = over.or_else(|| too_large.then(|| state_too_large(query_max)));
        let total_max = self.options.total_state_bytes_max;
        let too_much = grew && self.stats.state_bytes > total_max;
        let over = over.or_else(|| too_much.then(|| state_too_large(total_max)));
        if live.is_empty() {
            self.remove(id, out);
        } else if let Some(reason) = over {
            self.end(id, reason, out);
        } else if live.unsure >= UNSURE_MAX {
            live.unsure = 0;
            if live.plan() != PlanName::Requery {
                self.stats.demotions += 1;
                self.with(id, out, Live::demote);
            }
        }
    }

    /// A query cannot be kept on.
    fn end(&mut self, id: QueryId, reason: EndReason, out: &mut Vec<Output>) {
        let Some(live) = self.registry.get(id) else { return };
        let members = live.members().into_iter().map(|(who, _)| who).collect::<Vec<_>>();
        self.remove(id, out);
        for who in &members {
            self.registry.followers.remove(who);
        }
        out.push(Output::End { to: Recipients::Only(id, members), reason });
    }

    fn remove(&mut self, id: QueryId, out: &mut Vec<Output>) {
        let mut context =
            QueryContext::new(id, &self.options, self.position, self.open, &mut self.asks, out);
        if let Some(mut live) = self.registry.remove(id) {
            live.forget_asks(&mut context);
            self.stats.state_bytes -= live.bytes;
            self.due.remove(&id);
        }
    }

    /// Another query takes the place of one, and everybody gets its rows.
    fn rebind(&mut self, id: QueryId, query: Arc<Query>, out: &mut Vec<Output>) {
        let Some(live) = self.registry.get(id) else { return };
        let (plan, members) = (live.plan(), live.members());
        self.remove(id, out);
        self.registry.put(id, query);
        self.with(id, out, |live, context| live.adopt(members, context));
        if let Some(live) = self.registry.get(id)
            && live.plan() != plan
        {
            out.push(Output::Plan { query: id, plan: live.plan() });
        }
    }
}
