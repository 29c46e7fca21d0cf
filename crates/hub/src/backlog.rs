//! Large audiences that are being served, a slice at a time.
//!
//! ```text
//!   lane of doc-1     [ round under way, 600 of 15,000 ][ next round: what came since ]
//!   lane of query 7   [ round under way,  64 of  5,000 ]
//! ```
//!
//! Each stream, query or code of entities has a lane, and the lanes take turns: a large audience delays
//! another one by a slice, not by its whole. Within a lane rounds go in order, because what happened did.

use std::collections::{HashMap, VecDeque};

use super::round::Round;
use crate::kinds::{Cohort, Lane};

/// Rounds of queries that wait, before the query engine that says more of them does.
const PILED_UP_MAX: usize = 1_024;

/// Rounds that wait or are under way.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// None is empty.
    lanes: HashMap<Lane, VecDeque<Round>>,
    /// All lanes. The first is the next to be served.
    turns: VecDeque<Lane>,
    /// Rounds whose number has to be bounded.
    piled_up: usize,
}

impl Backlog {
    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Whether as much waits as may.
    pub(super) fn is_full(&self) -> bool {
        self.piled_up >= PILED_UP_MAX
    }

    /// Whether something waits in a lane, behind which what comes for it must stay.
    pub(super) fn holds(&self, lane: &Lane) -> bool {
        !self.is_empty() && self.lanes.contains_key(lane)
    }

    /// Puts the rounds of a lane, one for each cohort, behind those that wait, or into those that wait for
    /// the same cohort. A table may have as many cohorts as followers.
    pub(super) fn push(&mut self, rounds: Vec<Round>) {
        let Some(first) = rounds.first() else { return };
        let (lane, piles_up) = (first.news.lane(), first.news.piles_up());
        let Some(waiting) = self.lanes.get_mut(&lane) else {
            self.piled_up += if piles_up { rounds.len() } else { 0 };
            self.turns.push_back(lane.clone());
            self.lanes.insert(lane, rounds.into());
            return;
        };
        let waited = waiting.len();
        // Nothing may overtake what is for no cohort, and of those for one cohort the last counts.
        let mut places: HashMap<Cohort, usize> = HashMap::new();
        for (place, round) in waiting.iter().enumerate() {
            match round.news.cohort() {
                Some(cohort) => _ = places.insert(cohort, place),
                None => places.clear(),
            }
        }
        for round in rounds {
            let place = round.news.cohort().and_then(|cohort| places.get(&cohort));
            let left = match place.and_then(|place| waiting.get_mut(*place)) {
                Some(last) => last.absorb(round),
                None => Some(round),
            };
            waiting.extend(left);
        }
        self.piled_up += if piles_up { waiting.len() - waited } else { 0 };
    }

    /// Takes the round whose turn it is.
    pub(super) fn turn(&mut self) -> Option<Round> {
        self.lane_mut()?.pop_front()
    }

    /// What waits in the lane whose turn it is.
    pub(super) fn lane_mut(&mut self) -> Option<&mut VecDeque<Round>> {
        self.lanes.get_mut(self.turns.front()?)
    }

    /// Ends the turn of the lane that is being served. Its round goes on in the next, unless it is
    /// done.
    pub(super) fn end_turn(&mut self, round: Round) {
        let Some(lane) = self.turns.pop_front() else { return };
        let Some(waiting) = self.lanes.get_mut(&lane) else { return };
        match round.is_done() {
            true => self.piled_up -= usize::from(round.news.piles_up()),
            false => waiting.push_front(round),
        }
        match waiting.is_empty() {
            true => _ = self.lanes.remove(&lane),
            false => self.turns.push_back(lane),
        }
    }

    /// What waits, to be looked at through row filters. Of each lane in order; lanes in any order.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Round> {
        self.lanes.values_mut().flatten()
    }

    /// Whether anything waits besides the round that is being served.
    pub(super) fn has_more(&self) -> bool {
        self.lanes.values().any(|lane| !lane.is_empty())
    }
}
