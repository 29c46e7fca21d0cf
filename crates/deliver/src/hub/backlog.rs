//! Large audiences that are being served, a slice at a time.
//!
//! ```text
//!   lane of doc-1   [ round under way, 600 of 15,000 ][ next round: what came since ]
//!   lane of doc-2   [ round under way,  64 of    300 ]
//! ```
//!
//! Each stream has a lane, and the lanes take turns: a large audience delays another one by a slice,
//! not by its whole. Within a lane rounds go in order, because a stream's events must.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::audience::Circle;
use super::job::Job;
use crate::hub::tail::Topic;

/// Rounds that wait or are under way.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// None is empty. The first is the next to be served.
    lanes: VecDeque<VecDeque<Job>>,
}

impl Backlog {
    pub(super) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Whether something waits of a stream, behind which its next events must stay.
    pub(super) fn holds(&self, topic: &Arc<Topic>) -> bool {
        self.lanes.iter().any(|lane| is_of(lane, topic))
    }

    /// Puts a stream's rounds, one for each circle, behind those that wait, or into those that wait for
    /// the same circle. A table may have as many circles as followers.
    pub(super) fn push(&mut self, jobs: Vec<Job>) {
        let Some(first) = jobs.first() else { return };
        let Some(lane) = self.lanes.iter_mut().find(|lane| is_of(lane, &first.topic)) else {
            self.lanes.push_back(jobs.into());
            return;
        };
        let place = |(place, job): (usize, &Job)| (job.circle.clone(), place);
        // Of those for one circle the last counts.
        let places: HashMap<Circle, usize> = lane.iter().enumerate().map(place).collect();
        for job in jobs {
            let waiting = places.get(&job.circle).and_then(|place| lane.get_mut(*place));
            let left = match waiting {
                Some(waiting) => waiting.absorb(job),
                None => Some(job),
            };
            lane.extend(left);
        }
    }

    /// Serves a slice of the lane whose turn it is.
    pub(super) fn turn(&mut self) -> Option<Job> {
        self.lanes.front_mut()?.pop_front()
    }

    /// What waits in the lane whose turn it is.
    pub(super) fn lane_mut(&mut self) -> impl Iterator<Item = &mut Job> {
        self.lanes.front_mut().into_iter().flatten()
    }

    /// Ends the turn of the lane that is being served. Its round goes on in the next, unless it is
    /// done.
    pub(super) fn end_turn(&mut self, job: Job) {
        let Some(mut lane) = self.lanes.pop_front() else { return };
        if !job.is_done() {
            lane.push_front(job);
        }
        if !lane.is_empty() {
            self.lanes.push_back(lane);
        }
    }

    /// What waits, to be looked at through lenses.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Job> {
        self.lanes.iter_mut().flatten()
    }

    /// What waits.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Job> {
        self.lanes.iter().flatten()
    }
}

fn is_of(lane: &VecDeque<Job>, topic: &Arc<Topic>) -> bool {
    lane.front().is_some_and(|job| Arc::ptr_eq(&job.topic, topic))
}
