//! A filter: rows of one table, each tested by itself. No result is kept in memory.
//!
//! So each new follower needs rows and a snapshot of their own. Followers who begin at the same time
//! share an [`InitialRead`] until it is settled; after that all followers are treated alike.

use std::sync::Arc;

use super::followers::Followers;
use super::initial_read::{InitialRead, ReadOutcome};
use super::messages::{
    AskId, AskKind, EngineOptions, Output, ReadFailed, Recipients, Rows, Subscriber,
};
use super::project;
use super::query_context::QueryContext;
use super::state::StateError;
use super::transaction::{NetChanges, Transaction};
use crate::delta::{Delta, RowText};
use crate::plan::{FilterPlan, Query};
use crate::position::Position;
use crate::row::{Row, Unsure};

/// What a filter has of the transaction that is open.
#[derive(Debug, Default)]
pub(super) enum TransactionChanges {
    #[default]
    Nothing,
    Steps(NetChanges),
    Failed(StateError),
}

/// Who follows a filter.
#[derive(Debug, Default)]
pub(super) struct Filter {
    live: Followers,
    initial_reads: Vec<InitialRead>,
    gathered: TransactionChanges,
}

impl Filter {
    /// Someone waits for rows, `reset` if they have others; with those who wait for a read that was
    /// not answered yet, if there are any.
    pub(super) fn join(
        &mut self,
        query: &Query,
        who: Subscriber,
        reset: bool,
        context: &mut QueryContext<'_>,
    ) {
        self.leave(who, context);
        match self.initial_reads.iter_mut().find(|read| read.takes_more()) {
            Some(read) => read.join(who, reset),
            None => {
                let ask = context.ask(&query.read, AskKind::Begin);
                self.initial_reads.push(InitialRead::new(ask, context.position, [(who, reset)]));
            }
        }
    }

    /// Someone has everything up to here; `open` is what the open transaction did so far.
    pub(super) fn resume(&mut self, who: Subscriber, open: Option<NetChanges>) {
        self.live.insert(who);
        if let (Some(net), TransactionChanges::Nothing | TransactionChanges::Steps(_)) =
            (open, &self.gathered)
        {
            self.gathered = TransactionChanges::Steps(net);
        }
    }

    pub(super) fn leave(&mut self, who: Subscriber, context: &mut QueryContext<'_>) {
        self.live.remove(who);
        self.initial_reads.retain_mut(|read| {
            let stays = read.leave(who);
            if !stays {
                context.asks.forget(read.ask());
            }
            stays
        });
        if self.initial_reads.is_empty() {
            // Most filters have none, for most of their time.
            self.initial_reads = Vec::new();
        }
    }

    /// All who follow, and whether they have been told rows.
    pub(super) fn members(&self) -> impl Iterator<Item = (Subscriber, bool)> + '_ {
        let live = self.live.iter().map(|who| (who, true));
        live.chain(self.initial_reads.iter().flat_map(InitialRead::members))
    }

    /// A row changed. Whether that concerns the filter.
    pub(super) fn change(
        &mut self,
        query: &Query,
        plan: &FilterPlan,
        images: (Option<&Row<'_>>, Option<&Row<'_>>),
        options: &EngineOptions,
    ) -> bool {
        match step(query, plan, images) {
            Ok((None, None)) => false,
            Ok((before, after)) => {
                let net = match &mut self.gathered {
                    TransactionChanges::Failed(_) => return true,
                    TransactionChanges::Steps(net) => net,
                    nothing => {
                        *nothing = TransactionChanges::Steps(NetChanges::default());
                        let TransactionChanges::Steps(net) = nothing else { return true };
                        net
                    }
                };
                let (rows, bytes) = (options.transaction_rows_max, options.state_bytes_max);
                if net.step(before, after, rows, bytes).is_err() {
                    self.lose(StateError::Dry);
                }
                true
            }
            Err(unsure) => {
                self.lose(unsure.into());
                true
            }
        }
    }

    /// It is not known what the open transaction did.
    pub(super) fn lose(&mut self, lost: StateError) {
        if !matches!(self.gathered, TransactionChanges::Failed(StateError::Unsure)) {
            self.gathered = TransactionChanges::Failed(lost);
        }
    }

    /// The open transaction ended.
    pub(super) fn close(
        &mut self,
        query: &Query,
        by: &Transaction,
        context: &mut QueryContext<'_>,
    ) {
        let effect = match std::mem::take(&mut self.gathered) {
            TransactionChanges::Nothing => return,
            TransactionChanges::Steps(net) => Ok(Arc::new(net.delta())),
            TransactionChanges::Failed(lost) => Err(lost),
        };
        if effect.as_ref().is_ok_and(|delta| delta.is_empty()) {
            return;
        }
        let mut matters = !self.live.is_empty();
        for read in &mut self.initial_reads {
            matters |= read.hear(query, by, &effect, context);
        }
        match effect {
            Ok(delta) if !self.live.is_empty() => {
                let to = self.audience(context);
                context.out.push(Output::Change {
                    to,
                    delta,
                    at: Some(by.last),
                    txid: Some(by.txid),
                });
            }
            Ok(_) => {}
            // What the reads of all saw, or will be found to have seen, is no loss.
            Err(_) if !matters => {}
            Err(lost) => {
                context.lost(&lost);
                let live = std::mem::take(&mut self.live);
                self.adopt(query, live.iter().map(|who| (who, true)).collect(), context);
            }
        }
    }

    /// Everybody gets all rows anew, because what was read and told may be wrong.
    pub(super) fn reread(&mut self, query: &Query, context: &mut QueryContext<'_>) {
        let members = self.members().collect::<Vec<_>>();
        self.forget_parties(context);
        self.live = Followers::default();
        self.gathered = TransactionChanges::Nothing;
        self.adopt(query, members, context);
    }

    /// All of these get all rows, with a read of their own, whoever has been told rows before.
    pub(super) fn adopt(
        &mut self,
        query: &Query,
        members: Vec<(Subscriber, bool)>,
        context: &mut QueryContext<'_>,
    ) {
        if !members.is_empty() {
            let begun = members.iter().any(|(_, begun)| *begun);
            let kind = if begun { AskKind::Refill } else { AskKind::Begin };
            let ask = context.ask(&query.read, kind);
            self.initial_reads.push(InitialRead::new(ask, context.position, members));
        }
    }

    /// Nobody's reads count any more.
    pub(super) fn forget_parties(&mut self, context: &mut QueryContext<'_>) {
        for read in std::mem::take(&mut self.initial_reads) {
            context.asks.forget(read.ask());
        }
    }

    pub(super) fn rows(
        &mut self,
        query: &Query,
        ask: AskId,
        rows: Result<Rows, ReadFailed>,
        context: &mut QueryContext<'_>,
    ) {
        let Some(at) = self.initial_reads.iter().position(|read| read.ask() == ask) else { return };
        let answered = match rows {
            Ok(rows) => self.initial_reads[at].answer(query, rows, context),
            Err(ReadFailed::Later) => Ok(()),
            Err(ReadFailed::Ended(reason)) => Err(reason),
        };
        if let Err(reason) = answered {
            let read = self.initial_reads.remove(at);
            self.initial_reads.shrink_to_fit();
            context.asks.forget(ask);
            read.end(reason, context);
        }
    }

    pub(super) fn settled(&mut self, ask: AskId, mark: Position, context: &mut QueryContext<'_>) {
        if let Some(read) = self.initial_reads.iter_mut().find(|read| read.ask() == ask) {
            read.settled(mark, context);
        }
    }

    pub(super) fn hurry(&mut self, ask: AskId) {
        if let Some(read) = self.initial_reads.iter_mut().find(|read| read.ask() == ask) {
            read.hurry();
        }
    }

    /// Tells what can be told.
    pub(super) fn attend(&mut self, query: &Query, context: &mut QueryContext<'_>) {
        for mut read in std::mem::take(&mut self.initial_reads) {
            match read.tell(query, context) {
                ReadOutcome::Waits => self.initial_reads.push(read),
                ReadOutcome::Settled => {
                    context.asks.forget(read.ask());
                    read.members().for_each(|(who, _)| self.live.insert(who));
                }
                ReadOutcome::Over(reason) => {
                    context.asks.forget(read.ask());
                    read.end(reason, context);
                }
            }
        }
    }

    /// Bytes held for those who wait, and of the open transaction.
    pub(super) fn bytes(&self) -> usize {
        let gathered = match &self.gathered {
            TransactionChanges::Steps(net) => net.bytes(),
            _ => 0,
        };
        gathered + self.initial_reads.iter().map(InitialRead::bytes).sum::<usize>()
    }

    /// Those whose rows are settled. Whoever has begun and is not one of them must not get what they
    /// get.
    fn audience(&self, context: &QueryContext<'_>) -> Recipients {
        let apart =
            self.initial_reads.iter().flat_map(InitialRead::members).any(|(_, begun)| begun);
        match apart {
            true => Recipients::Only(context.query, self.live.iter().collect()),
            false => Recipients::All(context.query),
        }
    }
}

/// A row of the result before and after a change.
type RowTransition = (Option<RowText>, Option<RowText>);

/// What a change does to the result.
pub(super) fn step(
    query: &Query,
    plan: &FilterPlan,
    (before, after): (Option<&Row<'_>>, Option<&Row<'_>>),
) -> Result<RowTransition, Unsure> {
    let text = |row: Option<&Row<'_>>| match row {
        Some(row) if plan.conditions.admit(row)? => {
            project::of_image(&query.columns, &plan.projection, row).map(Some)
        }
        _ => Ok(None),
    };
    Ok((text(before)?, text(after)?))
}

/// What a transaction did to the result, or why that is not known.
pub(super) type Effect = Result<Arc<Delta>, StateError>;
