//! The read that gives new followers of a filter their first rows, until it is settled.
//!
//! ```text
//! Waiting ──rows──► Settling ──the mark has passed──► live, with all others
//!    what happens      what the read saw is skipped,
//!    is held           the rest is applied
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use super::filter::Effect;
use super::handover::Reading;
use super::messages::{AskId, AskKind, EndReason, Output, Recipients, Rows, Subscriber};
use super::project;
use super::query_context::{QueryContext, UNSURE_MAX, too_many_bytes, too_many_rows};
use super::transaction::Transaction;
use crate::delta::{Delta, Multiset, RowText};
use crate::plan::Query;
use crate::position::Position;

#[derive(Debug)]
pub(super) struct InitialRead {
    /// Each with whether they have been told other rows before, which these replace.
    members: BTreeMap<Subscriber, bool>,
    ask: AskId,
    /// Where the engine was when it asked: the read finds the log at least this long.
    since: Position,
    stage: ReadPhase,
    /// How many answers in a row came too late to be used.
    spilled: u32,
}

#[derive(Debug)]
enum ReadPhase {
    Waiting(BufferedTransactions),
    Settling { reading: Reading, untold: Option<PendingRows> },
}

/// Whole transactions that came before the read's answer.
#[derive(Debug, Default)]
struct BufferedTransactions {
    transactions: Vec<(Transaction, Effect)>,
    rows: usize,
    bytes: usize,
    /// There were more than may be held: the answer cannot be used.
    spilled: bool,
}

/// Rows that nobody has been told yet, and what became of them since they were read.
#[derive(Debug)]
struct PendingRows {
    rows: Vec<RowText>,
    later: Vec<Arc<Delta>>,
    bytes: usize,
    /// What became of them was not to be found in them: an image says something else than a read.
    broken: bool,
}

/// What came of telling.
#[derive(Debug)]
pub(super) enum ReadOutcome {
    Waits,
    Settled,
    Over(EndReason),
}

impl InitialRead {
    pub(super) fn new(
        ask: AskId,
        since: Position,
        members: impl IntoIterator<Item = (Subscriber, bool)>,
    ) -> InitialRead {
        let stage = ReadPhase::Waiting(BufferedTransactions::default());
        InitialRead { members: members.into_iter().collect(), ask, since, stage, spilled: 0 }
    }

    pub(super) fn ask(&self) -> AskId {
        self.ask
    }

    /// Whether its read was not answered, so that more can wait for it.
    pub(super) fn takes_more(&self) -> bool {
        matches!(&self.stage, ReadPhase::Waiting(held) if !held.spilled)
    }

    pub(super) fn join(&mut self, who: Subscriber, reset: bool) {
        self.members.insert(who, reset);
    }

    /// Whether there are others.
    pub(super) fn leave(&mut self, who: Subscriber) -> bool {
        self.members.remove(&who);
        !self.members.is_empty()
    }

    /// Who is in it, and whether they have been told rows.
    pub(super) fn members(&self) -> impl Iterator<Item = (Subscriber, bool)> + '_ {
        let told = matches!(&self.stage, ReadPhase::Settling { untold: None, .. });
        self.members.iter().map(move |(who, reset)| (*who, told || *reset))
    }

    pub(super) fn bytes(&self) -> usize {
        match &self.stage {
            ReadPhase::Waiting(held) => held.bytes,
            ReadPhase::Settling { untold, .. } => untold.as_ref().map_or(0, |untold| untold.bytes),
        }
    }

    /// A transaction ended that did something to the result. Whether its effect is needed, and not
    /// known.
    pub(super) fn hear(
        &mut self,
        query: &Query,
        by: &Transaction,
        effect: &Effect,
        context: &mut QueryContext<'_>,
    ) -> bool {
        match &mut self.stage {
            ReadPhase::Waiting(held) => held.hold(by, effect, context),
            ReadPhase::Settling { reading, .. } if reading.saw(by) => {}
            ReadPhase::Settling { untold, .. } => match (effect, untold) {
                (Ok(delta), Some(untold)) => {
                    untold.bytes += delta.bytes();
                    untold.later.push(Arc::clone(delta));
                    // What does not even fit when it is folded is found when it is told.
                    if untold.bytes > context.options.state_bytes_max {
                        untold.fold();
                    }
                }
                (Ok(delta), None) => context.out.push(Output::Change {
                    to: Recipients::Only(context.query, self.members.keys().copied().collect()),
                    delta: Arc::clone(delta),
                    at: None,
                    txid: Some(by.txid),
                }),
                (Err(_), _) => {
                    self.ask_again(query, context);
                    return true;
                }
            },
        }
        false
    }

    /// The read was answered. An error if they can get no rows.
    pub(super) fn answer(
        &mut self,
        query: &Query,
        rows: Rows,
        context: &mut QueryContext<'_>,
    ) -> Result<(), EndReason> {
        let ReadPhase::Waiting(held) = &mut self.stage else { return Ok(()) };
        let held = std::mem::take(held);
        let reading = Reading::new(rows.tip, rows.snapshot, rows.settled);
        let Some(mut untold) = PendingRows::new(query, &rows.rows) else {
            context.unsure += 1;
            self.ask_again(query, context);
            return Ok(());
        };
        untold.check(context)?;
        if held.spilled || rows.tip < self.since {
            self.spilled += 1;
            match self.spilled >= UNSURE_MAX {
                true => context.unsure += UNSURE_MAX,
                false => self.ask_again(query, context),
            }
            return Ok(());
        }
        self.spilled = 0;
        for (by, effect) in held.transactions {
            match effect {
                _ if reading.saw(&by) => {}
                Ok(delta) => {
                    untold.bytes += delta.bytes();
                    untold.later.push(delta);
                }
                Err(lost) => {
                    context.lost(&lost);
                    self.ask_again(query, context);
                    return Ok(());
                }
            }
        }
        if let Some(mark) = reading.awaited() {
            context.wait_for(mark);
        }
        self.stage = ReadPhase::Settling { reading, untold: Some(untold) };
        Ok(())
    }

    pub(super) fn settled(&mut self, mark: Position, context: &mut QueryContext<'_>) {
        if let ReadPhase::Settling { reading, .. } = &mut self.stage {
            context.wait_for(reading.mark(mark));
        }
    }

    pub(super) fn hurry(&mut self) {
        if let ReadPhase::Settling { reading, .. } = &mut self.stage {
            reading.hurried = true;
        }
    }

    /// Tells what can be told. What the open transaction did is not in it.
    pub(super) fn tell(&mut self, query: &Query, context: &mut QueryContext<'_>) -> ReadOutcome {
        let ReadPhase::Settling { reading, untold } = &mut self.stage else {
            return ReadOutcome::Waits;
        };
        let settled = reading.is_settled(context.whole());
        let is_due = settled || (reading.hurried && untold.is_some());
        if !is_due {
            return ReadOutcome::Waits;
        }
        let Some(mut rows) = untold.take() else {
            let to = Recipients::Only(context.query, self.members.keys().copied().collect());
            context.out.push(Output::Settled { to, at: context.whole() });
            return ReadOutcome::Settled;
        };
        rows.fold();
        if rows.broken {
            context.unsure += 1;
            self.ask_again(query, context);
            return ReadOutcome::Waits;
        }
        if let Err(reason) = rows.check(context) {
            return ReadOutcome::Over(reason);
        }
        let rows: Arc<[RowText]> = rows.rows.into();
        for reset in [false, true] {
            let those = self.members.iter().filter(|(_, member)| **member == reset);
            let those = those.map(|(who, _)| *who).collect::<Vec<_>>();
            if !those.is_empty() {
                let to = Recipients::Only(context.query, those);
                let at = settled.then(|| context.whole());
                context.out.push(Output::Begin { to, rows: Arc::clone(&rows), at, reset });
            }
        }
        if settled { ReadOutcome::Settled } else { ReadOutcome::Waits }
    }

    /// They cannot go on.
    pub(super) fn end(self, reason: EndReason, context: &mut QueryContext<'_>) {
        let members = self.members.into_keys().collect::<Vec<_>>();
        context.ended.extend(&members);
        context.out.push(Output::End { to: Recipients::Only(context.query, members), reason });
    }

    /// All that they have been told or would be is replaced by another read's rows.
    fn ask_again(&mut self, query: &Query, context: &mut QueryContext<'_>) {
        self.members = self.members().collect();
        context.asks.forget(self.ask);
        let begun = self.members.values().any(|begun| *begun);
        let kind = if begun { AskKind::Refill } else { AskKind::Begin };
        self.ask = context.ask(&query.read, kind);
        self.since = context.position;
        self.stage = ReadPhase::Waiting(BufferedTransactions::default());
    }
}

impl BufferedTransactions {
    fn hold(&mut self, by: &Transaction, effect: &Effect, context: &QueryContext<'_>) {
        let (rows, bytes) = match effect {
            Ok(delta) => (delta.len(), delta.bytes()),
            Err(_) => (1, 0),
        };
        self.rows += rows;
        self.bytes += bytes;
        let options = context.options;
        if self.rows > options.transaction_rows_max || self.bytes > options.state_bytes_max {
            *self = BufferedTransactions { spilled: true, ..BufferedTransactions::default() };
        }
        if !self.spilled {
            self.transactions.push((*by, effect.clone()));
        }
    }
}

impl PendingRows {
    /// None if rows are not what was asked for.
    fn new(query: &Query, rows: &[Vec<Box<serde_json::value::RawValue>>]) -> Option<PendingRows> {
        let rows = rows.iter().map(|row| project::of_values(&query.columns, row));
        let rows = rows.collect::<Option<Vec<_>>>()?;
        let bytes = rows.iter().map(|row| row.len()).sum();
        Some(PendingRows { rows, later: Vec::new(), bytes, broken: false })
    }

    fn fold(&mut self) {
        if self.later.is_empty() {
            return;
        }
        let mut rows = Multiset::new(std::mem::take(&mut self.rows));
        let fits = self.later.drain(..).all(|delta| rows.apply(&delta).is_ok());
        self.broken |= !fits;
        self.rows = rows.into_rows();
        self.bytes = self.rows.iter().map(|row| row.len()).sum();
    }

    fn check(&self, context: &QueryContext<'_>) -> Result<(), EndReason> {
        let options = context.options;
        if self.rows.len() > options.rows_max {
            return Err(too_many_rows(options.rows_max));
        }
        if self.bytes > options.state_bytes_max {
            return Err(too_many_bytes(options.state_bytes_max));
        }
        Ok(())
    }
}
