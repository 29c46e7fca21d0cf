//! A query of whose result something is kept: a window, groups, or the rows that were told.
//!
//! All who follow it share that. It is read when the first of them comes, and again whenever it does
//! not suffice; whatever it was read for, what follows is the same:
//!
//! ```text
//! Unread ──ask──► Waiting ──rows──► Settling ──the mark has passed──► Live
//!                   ▲  what happens    │ what the read saw is skipped    │
//!                   │  is held         │                                 │
//!                   └──────────────────┴── it does not suffice ──────────┘
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::handover::{Reading, Settling};
use super::matching::Images;
use super::messages::{
    AskId, AskKind, Change, EndReason, EngineOptions, Output, ReadFailed, Recipients, Rows,
    Subscriber,
};
use super::query_context::{QueryContext, UNSURE_MAX, too_many_rows};
use super::state::{State, StateError};
use super::transaction::Transaction;
use super::unsettled::UnsettledChanges;
use crate::plan::{Conditions, Plan, Query};
use crate::position::Position;

#[derive(Debug)]
pub(super) struct MaintainedQuery {
    state: Box<dyn State>,
    /// Whether nothing is kept but what was told: every change that concerns it is a read.
    is_run_again: bool,
    /// Who has been told what the state has as told.
    begun: BTreeSet<Subscriber>,
    /// Who waits for all rows.
    joining: BTreeMap<Subscriber, PendingFollower>,
    stage: MaintenancePhase,
    /// What the open transaction did.
    touched: Touched,
    /// Whether what was told last had no position.
    is_unsettled: bool,
    /// How many answers in a row could not be used.
    useless: u32,
}

#[derive(Debug, Clone, Copy)]
struct PendingFollower {
    /// Whether they have been told rows before, which these replace.
    reset: bool,
    /// Where the engine was: what happened up to there they may know, so no rows without it are for
    /// them.
    since: Position,
}

#[derive(Debug)]
enum MaintenancePhase {
    Unread,
    Waiting { ask: AskId, since: Position, held: UnsettledChanges },
    Settling(Settling),
    Live,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Touched {
    #[default]
    Not,
    Changed,
    Failed(StateError),
}

impl MaintainedQuery {
    pub(super) fn new(state: Box<dyn State>, is_run_again: bool) -> MaintainedQuery {
        MaintainedQuery {
            state,
            is_run_again,
            begun: BTreeSet::new(),
            joining: BTreeMap::new(),
            stage: MaintenancePhase::Unread,
            touched: Touched::Not,
            is_unsettled: false,
            useless: 0,
        }
    }

    pub(super) fn is_run_again(&self) -> bool {
        self.is_run_again
    }

    pub(super) fn join(
        &mut self,
        query: &Query,
        who: Subscriber,
        reset: bool,
        context: &mut QueryContext<'_>,
    ) {
        self.begun.remove(&who);
        self.joining.insert(who, PendingFollower { reset, since: context.position });
        if matches!(self.stage, MaintenancePhase::Unread) {
            self.ask(query, context);
        }
    }

    /// All of these get all rows, whoever has been told rows before.
    pub(super) fn adopt(
        &mut self,
        query: &Query,
        members: Vec<(Subscriber, bool)>,
        context: &mut QueryContext<'_>,
    ) {
        let since = context.position;
        let members = members.into_iter();
        self.joining.extend(members.map(|(who, reset)| (who, PendingFollower { reset, since })));
        self.ask(query, context);
    }

    pub(super) fn leave(&mut self, who: Subscriber) {
        self.begun.remove(&who);
        self.joining.remove(&who);
    }

    /// All who follow, and whether they have been told rows.
    pub(super) fn members(&self) -> impl Iterator<Item = (Subscriber, bool)> + '_ {
        let begun = self.begun.iter().map(|who| (*who, true));
        begun.chain(self.joining.iter().map(|(who, joining)| (*who, joining.reset)))
    }

    pub(super) fn bytes(&self) -> usize {
        let held = match &self.stage {
            MaintenancePhase::Waiting { held, .. } => held.bytes(),
            _ => 0,
        };
        self.state.bytes() + held
    }

    /// The read that is waited for, or that is to be settled.
    pub(super) fn open_ask(&self) -> Option<AskId> {
        match &self.stage {
            MaintenancePhase::Waiting { ask, .. }
            | MaintenancePhase::Settling(Settling { ask, .. }) => Some(*ask),
            MaintenancePhase::Unread | MaintenancePhase::Live => None,
        }
    }

    /// A row changed that may be one of the plan's. Whether it is, and was not seen already.
    pub(super) fn change(
        &mut self,
        conditions: &Conditions,
        change: &Change<'_>,
        images: &Images<'_>,
        by: &Transaction,
        options: &EngineOptions,
    ) -> bool {
        let admitted = |row: Option<&_>| match row {
            Some(row) => conditions.admit(row),
            None => Ok(false),
        };
        let (before, after) = (images.before.as_ref(), images.after.as_ref());
        let (was, is) = match (admitted(before), admitted(after)) {
            (Ok(was), Ok(is)) => (was, is),
            (Err(unsure), _) | (_, Err(unsure)) => return self.lose(unsure.into(), by),
        };
        let (before, after) = (before.filter(|_| was), after.filter(|_| is));
        match &mut self.stage {
            _ if !was && !is => return false,
            MaintenancePhase::Unread => return false,
            MaintenancePhase::Settling(Settling { reading, .. }) if reading.saw(by) => {
                return false;
            }
            MaintenancePhase::Waiting { held, .. } => {
                let raw = |raw: Option<&[u8]>, of: bool| raw.filter(|_| of).map(Box::from);
                let images = (raw(change.before, was), raw(change.after, is));
                held.hold(by, images, options);
            }
            MaintenancePhase::Settling(_) | MaintenancePhase::Live => {
                if !matches!(self.touched, Touched::Failed(_)) {
                    let changed = self.state.change(before, after);
                    self.touched = changed.map_or_else(Touched::Failed, |()| Touched::Changed);
                }
            }
        }
        true
    }

    /// It is not known what the open transaction did. Whether that matters.
    pub(super) fn lose(&mut self, lost: StateError, by: &Transaction) -> bool {
        match &mut self.stage {
            MaintenancePhase::Unread => return false,
            MaintenancePhase::Settling(Settling { reading, .. }) if reading.saw(by) => {
                return false;
            }
            MaintenancePhase::Waiting { held, .. } => held.lose(by, lost),
            MaintenancePhase::Settling(_) | MaintenancePhase::Live => {
                if self.touched != Touched::Failed(StateError::Unsure) {
                    self.touched = Touched::Failed(lost);
                }
            }
        }
        true
    }

    /// The open transaction concerns a query that is run again.
    pub(super) fn touch(&mut self) {
        self.touched = Touched::Changed;
    }

    /// The open transaction ended.
    pub(super) fn close(
        &mut self,
        query: &Query,
        by: &Transaction,
        context: &mut QueryContext<'_>,
    ) {
        let lost = match std::mem::take(&mut self.touched) {
            Touched::Not => return,
            Touched::Changed if self.is_run_again => return self.dirty(query, by, context),
            Touched::Changed => None,
            Touched::Failed(lost) => Some(lost),
        };
        let at = match &self.stage {
            MaintenancePhase::Live => Some(by.last),
            MaintenancePhase::Settling(Settling { told: true, .. }) => None,
            MaintenancePhase::Settling(_) if lost.is_some() => None,
            _ => return,
        };
        let told = match lost {
            Some(lost) => Err(lost),
            None => self.tell_change(at, Some(by.txid), context),
        };
        if let Err(lost) = told {
            context.lost(&lost);
            self.ask(query, context);
        }
    }

    /// Something that a query reads changed, and it can only be run again.
    fn dirty(&mut self, query: &Query, by: &Transaction, context: &mut QueryContext<'_>) {
        match &mut self.stage {
            MaintenancePhase::Unread => {}
            MaintenancePhase::Waiting { held, .. } => held.note(by),
            MaintenancePhase::Settling(settling) => {
                settling.judge(by);
                if settling.told && settling.unseen_first().is_some() {
                    self.ask(query, context);
                }
            }
            MaintenancePhase::Live => self.ask(query, context),
        }
    }

    /// What was read may be wrong.
    pub(super) fn reread(&mut self, query: &Query, context: &mut QueryContext<'_>) {
        self.touched = Touched::Not;
        if !matches!(self.stage, MaintenancePhase::Unread) {
            self.ask(query, context);
        }
    }

    /// Reads all that is kept anew, and forgets the read that was asked for before.
    fn ask(&mut self, query: &Query, context: &mut QueryContext<'_>) {
        if let Some(ask) = self.open_ask() {
            context.asks.forget(ask);
        }
        let sql = match &query.plan {
            Plan::Requery(_) => &query.read,
            _ if self.is_run_again => &query.rerun,
            _ => &query.read,
        };
        let kind = match (!self.members().any(|(_, begun)| begun), self.is_run_again) {
            (true, _) => AskKind::Begin,
            (false, true) => AskKind::Requery,
            (false, false) => AskKind::Refill,
        };
        let ask = context.ask(sql, kind);
        self.stage = MaintenancePhase::Waiting {
            ask,
            since: context.position,
            held: UnsettledChanges::default(),
        };
    }

    pub(super) fn rows(
        &mut self,
        query: &Query,
        ask: AskId,
        rows: Result<Rows, ReadFailed>,
        context: &mut QueryContext<'_>,
    ) {
        let MaintenancePhase::Waiting { ask: waited, since, held } = &mut self.stage else {
            return;
        };
        if *waited != ask {
            return;
        }
        let rows = match rows {
            Ok(rows) => rows,
            Err(ReadFailed::Later) => return,
            Err(ReadFailed::Ended(reason)) => {
                context.over = Some(reason);
                return;
            }
        };
        let (held, is_early) = (std::mem::take(held), rows.tip < *since);
        if self.is_run_again && rows.rows.len() > context.options.rows_max {
            context.over = Some(too_many_rows(context.options.rows_max));
            return;
        }
        match self.state.load(&rows.rows) {
            Ok(()) => {}
            Err(_) if self.is_run_again => {
                context.over = Some(not_what_was_asked_for());
                return;
            }
            // Rows that are as fresh as they can be will not do better the next time.
            Err(StateError::Unsure) => {
                context.unsure += UNSURE_MAX;
                return;
            }
            Err(StateError::Dry) => {
                context.unsure += 1;
                return self.ask(query, context);
            }
        }
        if is_early || held.is_spilled() {
            return self.ask_in_vain(query, context);
        }
        let reading = Reading::new(rows.tip, rows.snapshot, rows.settled);
        if context.open.is_some_and(|open| held.has_some_of(&open) && !reading.saw(&open)) {
            self.touched = Touched::Changed;
        }
        let noted = match held.replay(&reading, self.state.as_mut()) {
            Ok(noted) => noted,
            Err(lost) => {
                context.lost(&lost);
                return self.ask(query, context);
            }
        };
        if let Some(mark) = reading.awaited() {
            context.wait_for(mark);
        }
        let settling = Settling::new(ask, reading, &noted);
        self.stage = MaintenancePhase::Settling(settling);
    }

    pub(super) fn settled(&mut self, ask: AskId, mark: Position, context: &mut QueryContext<'_>) {
        if let MaintenancePhase::Settling(settling) = &mut self.stage
            && settling.ask == ask
        {
            context.wait_for(settling.reading.mark(mark));
        }
    }

    pub(super) fn hurry(&mut self, ask: AskId) {
        if let MaintenancePhase::Settling(settling) = &mut self.stage
            && settling.ask == ask
        {
            settling.reading.hurried = true;
        }
    }

    /// Tells what can be told.
    pub(super) fn attend(&mut self, query: &Query, context: &mut QueryContext<'_>) {
        if let Err(lost) = self.try_to_tell(query, context) {
            context.lost(&lost);
            self.ask_in_vain(query, context);
        }
    }

    /// An answer could not be used. A query of which this is so again and again is only run again.
    fn ask_in_vain(&mut self, query: &Query, context: &mut QueryContext<'_>) {
        self.useless += 1;
        match self.useless >= UNSURE_MAX && !self.is_run_again {
            true => context.unsure += UNSURE_MAX,
            false => self.ask(query, context),
        }
    }

    fn try_to_tell(
        &mut self,
        query: &Query,
        context: &mut QueryContext<'_>,
    ) -> Result<(), StateError> {
        // What a part of a transaction made of a result is nobody's.
        if context.open.is_some() && !self.is_run_again && self.touched != Touched::Not {
            return Ok(());
        }
        let whole = context.whole();
        match &mut self.stage {
            MaintenancePhase::Unread | MaintenancePhase::Waiting { .. } => Ok(()),
            MaintenancePhase::Live => self.begin(Some(whole), None, context),
            MaintenancePhase::Settling(settling) => {
                let is_settled = settling.reading.is_settled(whole);
                if !is_settled && !settling.told && !settling.reading.hurried {
                    return Ok(());
                }
                let position = settling.exact_at(whole).filter(|_| is_settled);
                let missing = settling.unseen_first();
                let was_told = std::mem::replace(&mut settling.told, true);
                if !was_told {
                    self.tell_change(position, None, context)?;
                }
                self.begin(position, missing, context)?;
                self.useless = 0;
                if let Some(at) = position.filter(|_| self.is_unsettled) {
                    self.is_unsettled = false;
                    if !self.begun.is_empty() {
                        context.out.push(Output::Settled { to: self.audience(context), at });
                    }
                }
                if missing.is_some() {
                    self.ask(query, context);
                } else if is_settled {
                    if let Some(ask) = self.open_ask() {
                        context.asks.forget(ask);
                    }
                    self.stage = MaintenancePhase::Live;
                }
                Ok(())
            }
        }
    }

    /// Tells those who have begun what changed.
    fn tell_change(
        &mut self,
        at: Option<Position>,
        txid: Option<i64>,
        context: &mut QueryContext<'_>,
    ) -> Result<(), StateError> {
        let delta = self.state.tell()?;
        if !delta.is_empty() && !self.begun.is_empty() {
            let to = self.audience(context);
            self.is_unsettled = at.is_none();
            context.out.push(Output::Change { to, delta: Arc::new(delta), at, txid });
        }
        Ok(())
    }

    /// Tells those who wait all rows, but for those who may know something that is missing from them.
    fn begin(
        &mut self,
        at: Option<Position>,
        missing: Option<Position>,
        context: &mut QueryContext<'_>,
    ) -> Result<(), StateError> {
        let begins =
            |joining: &PendingFollower| missing.is_none_or(|missing| joining.since < missing);
        if !self.joining.values().any(begins) {
            return Ok(());
        }
        let rows: Arc<[_]> = self.state.result()?.into();
        for reset in [false, true] {
            let those = self.joining.iter();
            let those = those.filter(|(_, joining)| joining.reset == reset && begins(joining));
            let those = those.map(|(who, _)| *who).collect::<Vec<_>>();
            if !those.is_empty() {
                self.begun.extend(&those);
                let to = Recipients::Only(context.query, those);
                context.out.push(Output::Begin { to, rows: Arc::clone(&rows), at, reset });
            }
        }
        self.joining.retain(|_, joining| !begins(joining));
        self.is_unsettled |= at.is_none();
        Ok(())
    }

    /// Those who have begun. Whoever waits for all rows again must not get what they get.
    fn audience(&self, context: &QueryContext<'_>) -> Recipients {
        match self.joining.values().any(|joining| joining.reset) {
            true => Recipients::Only(context.query, self.begun.iter().copied().collect()),
            false => Recipients::All(context.query),
        }
    }
}

fn not_what_was_asked_for() -> EndReason {
    let message = "the rows that were read have other columns than the query; subscribe again";
    EndReason { code: "schema_changed", message: Some(message.to_owned()) }
}
