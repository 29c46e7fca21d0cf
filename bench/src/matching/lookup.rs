//! What an event costs, from the image of its row to the queries whose conditions hold of it.

use std::hint::black_box;
use std::time::Duration;

use anyhow::{Result, bail};
use tidewire_query::{Conditions, Index, QueryId, Row};

use super::timing::{repeat, thread_time};
use crate::median::median;

/// Kinds of events take turns, so that a moment in which the machine is slow is not one kind's alone.
const ROUNDS: u32 = 9;
/// Images that are read before their rows are looked up, so that finding is timed alone, and of rows that
/// have just been read. Many beside one look at the clock, and few enough to stay in the nearest cache.
const READ_AHEAD: usize = 32;

/// What is looked up, and where.
pub(super) struct Lookup<'a> {
    pub(super) index: &'a Index,
    pub(super) registry: &'a [Conditions],
}

/// Nanoseconds of CPU of an event: medians of the rounds.
pub(super) struct Times {
    /// Its image is read, its candidates are found, and each is tested.
    pub(super) event_ns: f64,
    /// The same without the reading.
    pub(super) found_ns: f64,
}

impl Lookup<'_> {
    /// The times of kinds of events, each with the number of queries that must match, over some milliseconds
    /// each.
    pub(super) fn times(&self, kinds: &[(&[String], usize)], time: u64) -> Result<Vec<Times>> {
        for (images, expected) in kinds {
            for image in *images {
                let matching = self.matching(&Row::parse(image.as_bytes())?, &mut Vec::new());
                if matching != *expected {
                    bail!("{image} matches {matching} queries, not {expected}");
                }
            }
        }
        let round = Duration::from_millis(time) / ROUNDS;
        let mut rounds = vec![(Vec::new(), Vec::new()); kinds.len()];
        for _ in 0..ROUNDS {
            for ((images, _), (events, found)) in kinds.iter().zip(&mut rounds) {
                events.push(self.event_ns(images, round));
                found.push(self.found_ns(images, round)?);
            }
        }
        let times = |(events, found)| Times {
            event_ns: median(events).unwrap_or_default(),
            found_ns: median(found).unwrap_or_default(),
        };
        Ok(rounds.into_iter().map(times).collect())
    }

    fn event_ns(&self, images: &[String], time: Duration) -> f64 {
        let mut found = Vec::new();
        repeat(time, images, |image| {
            let row = Row::parse(image.as_bytes());
            black_box(row.map(|row| self.matching(&row, &mut found)).ok());
        })
    }

    fn found_ns(&self, images: &[String], time: Duration) -> Result<f64> {
        let mut found = Vec::new();
        let (mut spent, mut done) = (Duration::ZERO, 0);
        for images in images.chunks(READ_AHEAD).cycle() {
            let rows = rows_of(images)?;
            let began = thread_time();
            for row in &rows {
                black_box(self.matching(row, &mut found));
            }
            spent += thread_time() - began;
            done += rows.len();
            if spent >= time {
                break;
            }
        }
        Ok(spent.as_nanos() as f64 / done as f64)
    }

    /// The time of an event that every query is tested on.
    pub(super) fn scan_ns(&self, images: &[String], time: u64) -> Result<f64> {
        Ok(repeat(Duration::from_millis(time), &rows_of(images)?, |row| {
            let admits = |conditions: &&Conditions| conditions.admit(row) == Ok(true);
            black_box(self.registry.iter().filter(admits).count());
        }))
    }

    fn matching(&self, row: &Row<'_>, found: &mut Vec<QueryId>) -> usize {
        found.clear();
        self.index.candidates(None, Some(row), found);
        let admits = |query: &&QueryId| self.registry[query.0 as usize].admit(row) == Ok(true);
        found.iter().filter(admits).count()
    }
}

fn rows_of(images: &[String]) -> Result<Vec<Row<'_>>> {
    images.iter().map(|image| Ok(Row::parse(image.as_bytes())?)).collect()
}
