//! Connections whose changes cannot be committed with those of others: someone has their rows locked,
//! or they are broken. Each is tried by itself until it goes through, so that it costs nobody else
//! anything.
//!
//! What comes for a connection that is here joins what it waits for, so its order is kept.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use super::work::Work;

/// How long one that failed by itself waits: doubled each time. Whoever asks for something meanwhile
/// waits as long.
const RETRY_MIN: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(8);
/// How often something is tried that the store refuses each time.
const REFUSED_TRIES_MAX: u32 = 20;

/// When one is tried: those that somebody waits for before others, and then as they came.
type RetryOrder = (Instant, bool, u64);

/// Those that are set aside.
#[derive(Debug, Default)]
pub(super) struct RetryQueue {
    groups: HashMap<String, Group>,
    /// One for each group that is not being tried.
    turns: BTreeMap<RetryOrder, String>,
    next_serial: u64,
}

/// What one connection waits for.
#[derive(Debug, Default)]
struct Group {
    work: Vec<Work>,
    /// How often it has failed by itself.
    failures: u32,
}

impl RetryQueue {
    pub(super) fn holds(&self, connection_id: &str) -> bool {
        self.groups.contains_key(connection_id)
    }

    /// Puts something behind what its connection waits for. Returns it if the connection is not here.
    pub(super) fn join(&mut self, work: Work) -> Option<Work> {
        match self.groups.get_mut(work.connection_id()) {
            Some(group) => {
                group.work.push(work);
                None
            }
            None => Some(work),
        }
    }

    /// Sets aside what could not be done together.
    pub(super) fn enter(&mut self, together: Vec<Work>, now: Instant) {
        let mut entered = Vec::new();
        for work in together {
            let connection_id = work.connection_id();
            if !self.holds(connection_id) {
                if let Work::Settle(..) = work {
                    work.done();
                    continue;
                }
                entered.push(connection_id.to_owned());
                self.groups.insert(connection_id.to_owned(), Group::default());
            }
            self.join(work);
        }
        for connection_id in entered {
            self.queue(connection_id, now);
        }
    }

    fn queue(&mut self, connection_id: String, at: Instant) {
        let group = self.groups.get(&connection_id);
        let is_awaited = group.is_some_and(|group| group.work.iter().any(Work::is_awaited));
        self.next_serial += 1;
        self.turns.insert((at, !is_awaited, self.next_serial), connection_id);
    }

    /// When the next one is to be tried.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.turns.first_key_value().map(|((at, ..), _)| *at)
    }

    /// Takes out all that the next connection waits for, if its time has come. It stays here until it
    /// is [`done`](Aside::done) or [`failed`](Aside::failed).
    pub(super) fn next(&mut self, now: Instant) -> Option<(String, Vec<Work>)> {
        let first = self.turns.first_entry().filter(|turn| turn.key().0 <= now)?;
        let connection_id = first.remove();
        let group = self.groups.get_mut(&connection_id)?;
        Some((connection_id, std::mem::take(&mut group.work)))
    }

    /// All of them are to be tried, whether their time has come or not.
    pub(super) fn hurry(&mut self, now: Instant) {
        for connection_id in std::mem::take(&mut self.turns).into_values() {
            self.queue(connection_id, now);
        }
    }

    /// What was taken out for a connection is committed.
    pub(super) fn done(&mut self, connection_id: &str, now: Instant) {
        let Some(group) = self.groups.get_mut(connection_id) else { return };
        group.failures = 0;
        if group.work.is_empty() {
            self.groups.remove(connection_id);
        } else {
            self.queue(connection_id.to_owned(), now);
        }
    }

    /// It is not, and these notes are left of it. Returns how many are given up: some, if it was tried
    /// often enough and `is_temporary` says that this will not help.
    pub(super) fn failed(
        &mut self,
        connection_id: &str,
        mut notes: Vec<Work>,
        is_temporary: bool,
        now: Instant,
    ) -> usize {
        let Some(group) = self.groups.get_mut(connection_id) else { return 0 };
        group.failures += 1;
        let mut given_up = 0;
        if !is_temporary && group.failures >= REFUSED_TRIES_MAX {
            given_up = notes.len();
            notes.clear();
        }
        notes.append(&mut group.work);
        group.work = notes;
        if group.work.is_empty() {
            self.groups.remove(connection_id);
        } else {
            let doubled = RETRY_MIN.saturating_mul(1 << (group.failures - 1).min(16));
            self.queue(connection_id.to_owned(), now + doubled.min(RETRY_MAX));
        }
        given_up
    }
}
