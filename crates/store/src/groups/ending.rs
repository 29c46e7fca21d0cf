//! What follows from failures: another attempt, or letters and a parked key. Decided once, for both who drive groups,
//! in transactions and by leases; a store writes down what is decided here.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::assemble::Batch;
use super::holdings::Holdings;
use super::key::Key;
use super::page::GroupEvent;
use super::view::{Ending, Failure, Letter, OnDead, Verdict, kept_error};
use crate::offset::Position;

/// Events of a key that failed for good, all of them together: those of a source transaction, or all of the batch.
#[derive(Debug, Clone)]
pub struct DeadEvents<'a> {
    /// Whose.
    pub key: &'a Key,
    /// At least one, in order.
    pub events: &'a [Arc<GroupEvent>],
    /// What happened.
    pub error: String,
}

/// What becomes of a key's events behind some that died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behind {
    /// They are handled.
    GoOn,
    /// They are parked.
    Parked,
    /// They are letters, and stay such until a person looks at them again.
    Letters,
}

impl Failure {
    /// A key is to be tried again after these events of it failed.
    pub fn to_retry(
        key: &Key,
        events: &[Arc<GroupEvent>],
        verdict: Verdict,
        error: &str,
    ) -> Failure {
        let first = events.first().map_or(Position::START, |event| event.position);
        Failure { key: key.clone(), first, verdict, error: kept_error(error) }
    }
}

impl Holdings {
    /// Whether a key that fails once more, and so, has failed for good.
    pub fn is_for_good(&self, key: &Key, verdict: Verdict) -> bool {
        verdict == Verdict::Dead || self.is_last_attempt(key)
    }
}

impl Batch {
    fn behind_dead(&self, held: &Holdings) -> Behind {
        match (&self.redrive, held.group.on_dead) {
            (Some(_), _) => Behind::Letters,
            (None, OnDead::Park) => Behind::Parked,
            (None, OnDead::Skip) => Behind::GoOn,
        }
    }

    /// Whether a key's events behind some that died are not handled.
    pub fn stops_behind_dead(&self, held: &Holdings) -> bool {
        self.behind_dead(held) != Behind::GoOn
    }

    /// How it begins to end: the partition moves on, what is parked is set aside, and a key without letters is free.
    pub fn ending(&self) -> Ending {
        let (park, free) = (self.park.clone(), self.redrive.clone());
        Ending { next: self.next, park, free, ..Ending::default() }
    }

    /// How it ends if all of it is done but these, and what is behind them where that is not handled.
    pub fn done_but(&self, held: &Holdings, dead: &[DeadEvents<'_>]) -> Ending {
        let Ending { park, free, .. } = self.ending();
        let mut ending = Ending { park, ..Ending::of_failures(self, held, dead) };
        ending.free = free.filter(|_| ending.give_up.is_none());
        let letters: BTreeSet<Position> =
            ending.dead.iter().map(|letter| letter.event.position).collect();
        for keys in &self.groups {
            let mut behind = Behind::GoOn;
            for unit in keys.units() {
                if unit.iter().any(|event| letters.contains(&event.position)) {
                    behind = self.behind_dead(held);
                    continue;
                }
                match behind {
                    Behind::Parked => ending.park.extend(unit.iter().cloned()),
                    Behind::Letters => {}
                    Behind::GoOn if self.redrive.is_some() => {
                        ending.redriven.extend(unit.iter().map(|event| event.position));
                    }
                    Behind::GoOn => {}
                }
            }
            if held.attempts.contains_key(&keys.key) {
                ending.settle(&keys.key);
            }
        }
        ending
    }
}

impl Ending {
    /// What follows when events of a batch failed for good and nothing of it was done: they become letters, and their
    /// keys are parked from there on, or given up if they were letters. All else comes again, so it is also what a
    /// batch is given back with.
    pub fn of_failures(batch: &Batch, held: &Holdings, dead: &[DeadEvents<'_>]) -> Ending {
        let mut ending = Ending { next: batch.next, ..Ending::default() };
        let mut letters = BTreeSet::new();
        for DeadEvents { key, events, error } in dead {
            let Some(first) = events.first() else { continue };
            let (attempts, error) = (held.attempts_of(key).saturating_add(1), kept_error(error));
            let told_once = events.iter().filter(|event| letters.insert(event.position));
            ending.dead.extend(told_once.map(|event| Letter {
                event: Arc::clone(event),
                error: error.clone(),
                attempts,
            }));
            match batch.behind_dead(held) {
                Behind::GoOn => {}
                Behind::Parked => ending.park_from(key, first.position),
                Behind::Letters => ending.give_up = Some((*key).clone()),
            }
            ending.settle(key);
        }
        ending
    }

    fn park_from(&mut self, key: &Key, from: Position) {
        match self.parked_from.iter_mut().find(|(known, _)| known == key) {
            Some((_, first)) => *first = from.min(*first),
            None => self.parked_from.push((key.clone(), from)),
        }
    }

    fn settle(&mut self, key: &Key) {
        if !self.settled.contains(key) {
            self.settled.push(key.clone());
        }
    }
}

#[cfg(test)]
mod tests;
