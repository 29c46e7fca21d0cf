//! Someone comes back to a filter with everything up to an earlier position.

use std::sync::Arc;

use super::Engine;
use super::filter::step;
use super::live::Body;
use super::matching::Images;
use super::messages::{Event, Output, QueryId, Recipients, Subscriber};
use super::query_context::whole;
use super::state::StateError;
use super::transaction::{NetChanges, Transaction};
use crate::delta::Delta;
use crate::plan::{FilterPlan, Plan, Query};
use crate::position::Position;

impl Engine {
    /// Someone follows a filter who has everything up to an earlier position: `past` is what happened
    /// since, up to where the engine is. They get the changes of that and no rows, and are told where
    /// that ends; where it cannot be done so, they get all rows.
    pub fn resume(
        &mut self,
        query: Arc<Query>,
        who: Subscriber,
        past: &[Event<'_>],
        out: &mut Vec<Output>,
    ) -> QueryId {
        self.unsubscribe(who, out);
        let replayed = match &query.plan {
            Plan::Filter(plan) => self.replay(&query, plan, past),
            _ => Err(StateError::Dry),
        };
        let (id, unindexed) = self.registry.query(query);
        let demoted =
            !matches!(self.registry.get(id).map(|live| &live.body), Some(Body::Filter(_)));
        let Ok(Replay { told, open, until }) = replayed.and_then(|replay| match demoted {
            true => Err(StateError::Dry),
            false => Ok(replay),
        }) else {
            self.join(id, who, (true, unindexed), out);
            return id;
        };
        self.registry.followers.insert(who, id);
        let to = Recipients::Only(id, vec![who]);
        for (by, delta) in told {
            let (to, at) = (to.clone(), Some(by.last));
            out.push(Output::Change { to, delta, at, txid: Some(by.txid) });
        }
        out.push(Output::Settled { to, at: until });
        if open.is_some() {
            self.touched.push(id);
        }
        self.with(id, out, |live, context| {
            if let Body::Filter(filter) = &mut live.body {
                filter.resume(who, open);
            }
            context.crowd(unindexed);
        });
        self.tell(out);
        id
    }

    /// What past events did to a result.
    fn replay(
        &self,
        query: &Query,
        plan: &FilterPlan,
        past: &[Event<'_>],
    ) -> Result<Replay, StateError> {
        let until = whole(self.position, self.open.as_ref());
        let mut replay = Replay { told: Vec::new(), open: None, until };
        let mut current: Option<(Transaction, NetChanges)> = None;
        for event in past {
            let change = event.change.filter(|change| *change.table == *plan.table);
            let Some(txid) = event.txid else {
                match change {
                    Some(_) => return Err(StateError::Dry),
                    None => continue,
                }
            };
            if current.as_ref().is_some_and(|(open, _)| open.txid != txid) {
                replay.close(current.take());
            }
            let at = Transaction { first: event.at, last: event.at, txid };
            let (by, net) = current.get_or_insert_with(|| (at, NetChanges::default()));
            by.last = event.at;
            if let Some(change) = change {
                let images = Images::read(&change).ok_or(StateError::Dry)?;
                let images = (images.before.as_ref(), images.after.as_ref());
                let (before, after) = step(query, plan, images)?;
                let (rows, bytes) =
                    (self.options.transaction_rows_max, self.options.state_bytes_max);
                net.step(before, after, rows, bytes).map_err(|_| StateError::Dry)?;
            }
            if event.tx_last {
                replay.close(current.take());
            }
        }
        match (self.open, current) {
            (None, current) => replay.close(current),
            // What is open must be known from its beginning on.
            (Some(open), Some((by, net))) if by.first == open.first => {
                replay.open = Some(net);
            }
            (Some(_), _) => return Err(StateError::Dry),
        }
        Ok(replay)
    }
}

/// What past events did.
struct Replay {
    told: Vec<(Transaction, Arc<Delta>)>,
    /// What the transaction did that is open still.
    open: Option<NetChanges>,
    /// Between two transactions, the last position that is known.
    until: Position,
}

impl Replay {
    fn close(&mut self, ended: Option<(Transaction, NetChanges)>) {
        if let Some((by, net)) = ended {
            let delta = net.delta();
            if !delta.is_empty() {
                self.told.push((by, Arc::new(delta)));
            }
        }
    }
}
