//! A filter: rows of one table, each tested by itself. Nothing is kept of the result.
//!
//! So everybody who begins has rows and a snapshot of their own, and is one of a *party* until these
//! are settled; from then on all are alike.

use std::sync::Arc;

use super::followers::Followers;
use super::party::{Party, Told};
use super::project;
use super::said::{
    AskId, AskKind, EngineOptions, Output, ReadFailed, Recipients, Rows, Subscriber,
};
use super::state::Lost;
use super::transaction::{Net, Transaction};
use super::turn::Turn;
use crate::delta::{Delta, RowText};
use crate::plan::{FilterPlan, Query};
use crate::position::Position;
use crate::row::{Row, Unsure};

/// What a filter has of the transaction that is open.
#[derive(Debug, Default)]
pub(super) enum Gathered {
    #[default]
    Nothing,
    Steps(Net),
    Lost(Lost),
}

/// Who follows a filter.
#[derive(Debug, Default)]
pub(super) struct Filter {
    live: Followers,
    parties: Vec<Party>,
    gathered: Gathered,
}

impl Filter {
    /// Someone waits for rows, `reset` if they have others; with those who wait for a read that was
    /// not answered yet, if there are any.
    pub(super) fn join(
        &mut self,
        query: &Query,
        who: Subscriber,
        reset: bool,
        turn: &mut Turn<'_>,
    ) {
        self.leave(who, turn);
        match self.parties.iter_mut().find(|party| party.takes_more()) {
            Some(party) => party.join(who, reset),
            None => {
                let ask = turn.ask(&query.read, AskKind::Begin);
                self.parties.push(Party::new(ask, turn.position, [(who, reset)]));
            }
        }
    }

    /// Someone has everything up to here; `open` is what the open transaction did so far.
    pub(super) fn resume(&mut self, who: Subscriber, open: Option<Net>) {
        self.live.insert(who);
        if let (Some(net), Gathered::Nothing | Gathered::Steps(_)) = (open, &self.gathered) {
            self.gathered = Gathered::Steps(net);
        }
    }

    pub(super) fn leave(&mut self, who: Subscriber, turn: &mut Turn<'_>) {
        self.live.remove(who);
        self.parties.retain_mut(|party| {
            let stays = party.leave(who);
            if !stays {
                turn.asks.forget(party.ask());
            }
            stays
        });
        if self.parties.is_empty() {
            // Most filters have none, for most of their time.
            self.parties = Vec::new();
        }
    }

    /// All who follow, and whether they have been told rows.
    pub(super) fn members(&self) -> impl Iterator<Item = (Subscriber, bool)> + '_ {
        let live = self.live.iter().map(|who| (who, true));
        live.chain(self.parties.iter().flat_map(Party::members))
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
                    Gathered::Lost(_) => return true,
                    Gathered::Steps(net) => net,
                    nothing => {
                        *nothing = Gathered::Steps(Net::default());
                        let Gathered::Steps(net) = nothing else { return true };
                        net
                    }
                };
                let (rows, bytes) = (options.transaction_rows_max, options.state_bytes_max);
                if net.step(before, after, rows, bytes).is_err() {
                    self.lose(Lost::Dry);
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
    pub(super) fn lose(&mut self, lost: Lost) {
        if !matches!(self.gathered, Gathered::Lost(Lost::Unsure)) {
            self.gathered = Gathered::Lost(lost);
        }
    }

    /// The open transaction ended.
    pub(super) fn close(&mut self, query: &Query, by: &Transaction, turn: &mut Turn<'_>) {
        let effect = match std::mem::take(&mut self.gathered) {
            Gathered::Nothing => return,
            Gathered::Steps(net) => Ok(Arc::new(net.delta())),
            Gathered::Lost(lost) => Err(lost),
        };
        if effect.as_ref().is_ok_and(|delta| delta.is_empty()) {
            return;
        }
        let mut matters = !self.live.is_empty();
        for party in &mut self.parties {
            matters |= party.hear(query, by, &effect, turn);
        }
        match effect {
            Ok(delta) if !self.live.is_empty() => {
                let to = self.audience(turn);
                turn.out.push(Output::Change { to, delta, at: Some(by.last), txid: Some(by.txid) });
            }
            Ok(_) => {}
            // What the reads of all saw, or will be found to have seen, is no loss.
            Err(_) if !matters => {}
            Err(lost) => {
                turn.lost(&lost);
                let live = std::mem::take(&mut self.live);
                self.adopt(query, live.iter().map(|who| (who, true)).collect(), turn);
            }
        }
    }

    /// Everybody gets all rows anew, because what was read and told may be wrong.
    pub(super) fn reread(&mut self, query: &Query, turn: &mut Turn<'_>) {
        let members = self.members().collect::<Vec<_>>();
        self.forget_parties(turn);
        self.live = Followers::default();
        self.gathered = Gathered::Nothing;
        self.adopt(query, members, turn);
    }

    /// All of these get all rows, with a read of their own, whoever has been told rows before.
    pub(super) fn adopt(
        &mut self,
        query: &Query,
        members: Vec<(Subscriber, bool)>,
        turn: &mut Turn<'_>,
    ) {
        if !members.is_empty() {
            let begun = members.iter().any(|(_, begun)| *begun);
            let kind = if begun { AskKind::Refill } else { AskKind::Begin };
            let ask = turn.ask(&query.read, kind);
            self.parties.push(Party::new(ask, turn.position, members));
        }
    }

    /// Nobody's reads count any more.
    pub(super) fn forget_parties(&mut self, turn: &mut Turn<'_>) {
        for party in std::mem::take(&mut self.parties) {
            turn.asks.forget(party.ask());
        }
    }

    pub(super) fn rows(
        &mut self,
        query: &Query,
        ask: AskId,
        rows: Result<Rows, ReadFailed>,
        turn: &mut Turn<'_>,
    ) {
        let Some(at) = self.parties.iter().position(|party| party.ask() == ask) else { return };
        let answered = match rows {
            Ok(rows) => self.parties[at].answer(query, rows, turn),
            Err(ReadFailed::Later) => Ok(()),
            Err(ReadFailed::Ended(reason)) => Err(reason),
        };
        if let Err(reason) = answered {
            let party = self.parties.remove(at);
            self.parties.shrink_to_fit();
            turn.asks.forget(ask);
            party.end(reason, turn);
        }
    }

    pub(super) fn settled(&mut self, ask: AskId, mark: Position, turn: &mut Turn<'_>) {
        if let Some(party) = self.parties.iter_mut().find(|party| party.ask() == ask) {
            party.settled(mark, turn);
        }
    }

    pub(super) fn hurry(&mut self, ask: AskId) {
        if let Some(party) = self.parties.iter_mut().find(|party| party.ask() == ask) {
            party.hurry();
        }
    }

    /// Tells what can be told.
    pub(super) fn attend(&mut self, query: &Query, turn: &mut Turn<'_>) {
        for mut party in std::mem::take(&mut self.parties) {
            match party.tell(query, turn) {
                Told::Waits => self.parties.push(party),
                Told::Settled => {
                    turn.asks.forget(party.ask());
                    party.members().for_each(|(who, _)| self.live.insert(who));
                }
                Told::Over(reason) => {
                    turn.asks.forget(party.ask());
                    party.end(reason, turn);
                }
            }
        }
    }

    /// Bytes held for those who wait, and of the open transaction.
    pub(super) fn bytes(&self) -> usize {
        let gathered = match &self.gathered {
            Gathered::Steps(net) => net.bytes(),
            _ => 0,
        };
        gathered + self.parties.iter().map(Party::bytes).sum::<usize>()
    }

    /// Those whose rows are settled. Whoever has begun and is not one of them must not get what they
    /// get.
    fn audience(&self, turn: &Turn<'_>) -> Recipients {
        let apart = self.parties.iter().flat_map(Party::members).any(|(_, begun)| begun);
        match apart {
            true => Recipients::Only(turn.query, self.live.iter().collect()),
            false => Recipients::All(turn.query),
        }
    }
}

/// A row of the result before and after a change.
type Step = (Option<RowText>, Option<RowText>);

/// What a change does to the result.
pub(super) fn step(
    query: &Query,
    plan: &FilterPlan,
    (before, after): (Option<&Row<'_>>, Option<&Row<'_>>),
) -> Result<Step, Unsure> {
    let text = |row: Option<&Row<'_>>| match row {
        Some(row) if plan.conditions.admit(row)? => {
            project::of_image(&query.columns, &plan.projection, row).map(Some)
        }
        _ => Ok(None),
    };
    Ok((text(before)?, text(after)?))
}

/// What a transaction did to the result, or why that is not known.
pub(super) type Effect = Result<Arc<Delta>, Lost>;
