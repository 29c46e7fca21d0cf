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
use super::held::Held;
use super::matching::Images;
use super::said::{
    AskId, AskKind, Change, EndReason, EngineOptions, Output, ReadFailed, Recipients, Rows,
    Subscriber,
};
use super::state::{Lost, State};
use super::transaction::Transaction;
use super::turn::{Turn, UNSURE_MAX, too_many_rows};
use crate::plan::{Conditions, Plan, Query};
use crate::position::Position;

#[derive(Debug)]
pub(super) struct Kept {
    state: Box<dyn State>,
    /// Whether nothing is kept but what was told: every change that concerns it is a read.
    is_run_again: bool,
    /// Who has been told what the state has as told.
    begun: BTreeSet<Subscriber>,
    /// Who waits for all rows.
    joining: BTreeMap<Subscriber, Joining>,
    stage: Stage,
    /// What the open transaction did.
    touched: Touched,
    /// Whether what was told last had no position.
    is_unsettled: bool,
    /// How many answers in a row could not be used.
    useless: u32,
}

#[derive(Debug, Clone, Copy)]
struct Joining {
    /// Whether they have been told rows before, which these replace.
    reset: bool,
    /// Where the engine was: what happened up to there they may know, so no rows without it are for
    /// them.
    since: Position,
}

#[derive(Debug)]
enum Stage {
    Unread,
    Waiting { ask: AskId, since: Position, held: Held },
    Settling(Settling),
    Live,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Touched {
    #[default]
    Not,
    Changed,
    Lost(Lost),
}

impl Kept {
    pub(super) fn new(state: Box<dyn State>, is_run_again: bool) -> Kept {
        Kept {
            state,
            is_run_again,
            begun: BTreeSet::new(),
            joining: BTreeMap::new(),
            stage: Stage::Unread,
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
        turn: &mut Turn<'_>,
    ) {
        self.begun.remove(&who);
        self.joining.insert(who, Joining { reset, since: turn.position });
        if matches!(self.stage, Stage::Unread) {
            self.ask(query, turn);
        }
    }

    /// All of these get all rows, whoever has been told rows before.
    pub(super) fn adopt(
        &mut self,
        query: &Query,
        members: Vec<(Subscriber, bool)>,
        turn: &mut Turn<'_>,
    ) {
        let since = turn.position;
        let members = members.into_iter();
        self.joining.extend(members.map(|(who, reset)| (who, Joining { reset, since })));
        self.ask(query, turn);
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
            Stage::Waiting { held, .. } => held.bytes(),
            _ => 0,
        };
        self.state.bytes() + held
    }

    /// The read that is waited for, or that is to be settled.
    pub(super) fn open_ask(&self) -> Option<AskId> {
        match &self.stage {
            Stage::Waiting { ask, .. } | Stage::Settling(Settling { ask, .. }) => Some(*ask),
            Stage::Unread | Stage::Live => None,
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
            Stage::Unread => return false,
            Stage::Settling(Settling { reading, .. }) if reading.saw(by) => return false,
            Stage::Waiting { held, .. } => {
                let raw = |raw: Option<&[u8]>, of: bool| raw.filter(|_| of).map(Box::from);
                let images = (raw(change.before, was), raw(change.after, is));
                held.hold(by, images, options);
            }
            Stage::Settling(_) | Stage::Live => {
                if !matches!(self.touched, Touched::Lost(_)) {
                    let changed = self.state.change(before, after);
                    self.touched = changed.map_or_else(Touched::Lost, |()| Touched::Changed);
                }
            }
        }
        true
    }

    /// It is not known what the open transaction did. Whether that matters.
    pub(super) fn lose(&mut self, lost: Lost, by: &Transaction) -> bool {
        match &mut self.stage {
            Stage::Unread => return false,
            Stage::Settling(Settling { reading, .. }) if reading.saw(by) => return false,
            Stage::Waiting { held, .. } => held.lose(by, lost),
            Stage::Settling(_) | Stage::Live => {
                if self.touched != Touched::Lost(Lost::Unsure) {
                    self.touched = Touched::Lost(lost);
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
    pub(super) fn close(&mut self, query: &Query, by: &Transaction, turn: &mut Turn<'_>) {
        let lost = match std::mem::take(&mut self.touched) {
            Touched::Not => return,
            Touched::Changed if self.is_run_again => return self.dirty(query, by, turn),
            Touched::Changed => None,
            Touched::Lost(lost) => Some(lost),
        };
        let at = match &self.stage {
            Stage::Live => Some(by.last),
            Stage::Settling(Settling { told: true, .. }) => None,
            Stage::Settling(_) if lost.is_some() => None,
            _ => return,
        };
        let told = match lost {
            Some(lost) => Err(lost),
            None => self.tell_change(at, Some(by.txid), turn),
        };
        if let Err(lost) = told {
            turn.lost(&lost);
            self.ask(query, turn);
        }
    }

    /// Something that a query reads changed, and it can only be run again.
    fn dirty(&mut self, query: &Query, by: &Transaction, turn: &mut Turn<'_>) {
        match &mut self.stage {
            Stage::Unread => {}
            Stage::Waiting { held, .. } => held.note(by),
            Stage::Settling(settling) => {
                settling.judge(by);
                if settling.told && settling.unseen_first().is_some() {
                    self.ask(query, turn);
                }
            }
            Stage::Live => self.ask(query, turn),
        }
    }

    /// What was read may be wrong.
    pub(super) fn reread(&mut self, query: &Query, turn: &mut Turn<'_>) {
        self.touched = Touched::Not;
        if !matches!(self.stage, Stage::Unread) {
            self.ask(query, turn);
        }
    }

    /// Reads all that is kept anew, and forgets the read that was asked for before.
    fn ask(&mut self, query: &Query, turn: &mut Turn<'_>) {
        if let Some(ask) = self.open_ask() {
            turn.asks.forget(ask);
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
        let ask = turn.ask(sql, kind);
        self.stage = Stage::Waiting { ask, since: turn.position, held: Held::default() };
    }

    pub(super) fn rows(
        &mut self,
        query: &Query,
        ask: AskId,
        rows: Result<Rows, ReadFailed>,
        turn: &mut Turn<'_>,
    ) {
        let Stage::Waiting { ask: waited, since, held } = &mut self.stage else { return };
        if *waited != ask {
            return;
        }
        let rows = match rows {
            Ok(rows) => rows,
            Err(ReadFailed::Later) => return,
            Err(ReadFailed::Ended(reason)) => {
                turn.over = Some(reason);
                return;
            }
        };
        let (held, is_early) = (std::mem::take(held), rows.tip < *since);
        if self.is_run_again && rows.rows.len() > turn.options.rows_max {
            turn.over = Some(too_many_rows(turn.options.rows_max));
            return;
        }
        match self.state.load(&rows.rows) {
            Ok(()) => {}
            Err(_) if self.is_run_again => {
                turn.over = Some(not_what_was_asked_for());
                return;
            }
            // Rows that are as fresh as they can be will not do better the next time.
            Err(Lost::Unsure) => {
                turn.unsure += UNSURE_MAX;
                return;
            }
            Err(Lost::Dry) => {
                turn.unsure += 1;
                return self.ask(query, turn);
            }
        }
        if is_early || held.is_spilled() {
            return self.ask_in_vain(query, turn);
        }
        let reading = Reading::new(rows.tip, rows.snapshot, rows.settled);
        if turn.open.is_some_and(|open| held.has_some_of(&open) && !reading.saw(&open)) {
            self.touched = Touched::Changed;
        }
        let noted = match held.replay(&reading, self.state.as_mut()) {
            Ok(noted) => noted,
            Err(lost) => {
                turn.lost(&lost);
                return self.ask(query, turn);
            }
        };
        if let Some(mark) = reading.awaited() {
            turn.wait_for(mark);
        }
        let settling = Settling::new(ask, reading, &noted);
        self.stage = Stage::Settling(settling);
    }

    pub(super) fn settled(&mut self, ask: AskId, mark: Position, turn: &mut Turn<'_>) {
        if let Stage::Settling(settling) = &mut self.stage
            && settling.ask == ask
        {
            turn.wait_for(settling.reading.mark(mark));
        }
    }

    pub(super) fn hurry(&mut self, ask: AskId) {
        if let Stage::Settling(settling) = &mut self.stage
            && settling.ask == ask
        {
            settling.reading.hurried = true;
        }
    }

    /// Tells what can be told.
    pub(super) fn attend(&mut self, query: &Query, turn: &mut Turn<'_>) {
        if let Err(lost) = self.try_to_tell(query, turn) {
            turn.lost(&lost);
            self.ask_in_vain(query, turn);
        }
    }

    /// An answer could not be used. A query of which this is so again and again is only run again.
    fn ask_in_vain(&mut self, query: &Query, turn: &mut Turn<'_>) {
        self.useless += 1;
        match self.useless >= UNSURE_MAX && !self.is_run_again {
            true => turn.unsure += UNSURE_MAX,
            false => self.ask(query, turn),
        }
    }

    fn try_to_tell(&mut self, query: &Query, turn: &mut Turn<'_>) -> Result<(), Lost> {
        // What a part of a transaction made of a result is nobody's.
        if turn.open.is_some() && !self.is_run_again && self.touched != Touched::Not {
            return Ok(());
        }
        let whole = turn.whole();
        match &mut self.stage {
            Stage::Unread | Stage::Waiting { .. } => Ok(()),
            Stage::Live => self.begin(Some(whole), None, turn),
            Stage::Settling(settling) => {
                let is_settled = settling.reading.is_settled(whole);
                if !is_settled && !settling.told && !settling.reading.hurried {
                    return Ok(());
                }
                let position = settling.exact_at(whole).filter(|_| is_settled);
                let missing = settling.unseen_first();
                let was_told = std::mem::replace(&mut settling.told, true);
                if !was_told {
                    self.tell_change(position, None, turn)?;
                }
                self.begin(position, missing, turn)?;
                self.useless = 0;
                if let Some(at) = position.filter(|_| self.is_unsettled) {
                    self.is_unsettled = false;
                    if !self.begun.is_empty() {
                        turn.out.push(Output::Settled { to: self.audience(turn), at });
                    }
                }
                if missing.is_some() {
                    self.ask(query, turn);
                } else if is_settled {
                    if let Some(ask) = self.open_ask() {
                        turn.asks.forget(ask);
                    }
                    self.stage = Stage::Live;
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
        turn: &mut Turn<'_>,
    ) -> Result<(), Lost> {
        let delta = self.state.tell()?;
        if !delta.is_empty() && !self.begun.is_empty() {
            let to = self.audience(turn);
            self.is_unsettled = at.is_none();
            turn.out.push(Output::Change { to, delta: Arc::new(delta), at, txid });
        }
        Ok(())
    }

    /// Tells those who wait all rows, but for those who may know something that is missing from them.
    fn begin(
        &mut self,
        at: Option<Position>,
        missing: Option<Position>,
        turn: &mut Turn<'_>,
    ) -> Result<(), Lost> {
        let begins = |joining: &Joining| missing.is_none_or(|missing| joining.since < missing);
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
                let to = Recipients::Only(turn.query, those);
                turn.out.push(Output::Begin { to, rows: Arc::clone(&rows), at, reset });
            }
        }
        self.joining.retain(|_, joining| !begins(joining));
        self.is_unsettled |= at.is_none();
        Ok(())
    }

    /// Those who have begun. Whoever waits for all rows again must not get what they get.
    fn audience(&self, turn: &Turn<'_>) -> Recipients {
        match self.joining.values().any(|joining| joining.reset) {
            true => Recipients::Only(turn.query, self.begun.iter().copied().collect()),
            false => Recipients::All(turn.query),
        }
    }
}

fn not_what_was_asked_for() -> EndReason {
    let message = "the rows that were read have other columns than the query; subscribe again";
    EndReason { code: "schema_changed", message: Some(message.to_owned()) }
}
