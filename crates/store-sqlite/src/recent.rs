//! The end of the log in memory, for the one who follows it.
//!
//! - **What**: the newest events of all streams with their payloads, in the log's order, as the writer
//!   committed them; at most 8,192 of them and 8 MiB. They come here only once their commit is durable.
//! - **Who reads it**: the node's follower, after each commit. There is one writer, so what it just committed is
//!   the end of the log, and a follower that is up to date does not read back from the file what was written a
//!   moment ago. One that is further behind reads the file. `tip` is where the log ends, as far as anyone may
//!   know.
//! - **Why nothing else serves**: the follower is the one who fills what is remembered of single streams
//!   (`hub::tail::topic`), and cannot get it from there. On PostgreSQL other nodes write too, so there is no
//!   such memory: following is one indexed read, whoever wrote.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidewire_store::decide::Plan;
use tidewire_store::event::TailEvent;
use tidewire_store::log::PageLimit;
use tidewire_store::offset::Position;

/// Events kept.
const EVENTS_MAX: usize = 8_192;
/// Payload bytes kept.
const BYTES_MAX: usize = 8 << 20;

/// The end of the log.
#[derive(Debug)]
pub(crate) struct Recent(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    /// All events after this position are in `events`, in order.
    covered_from: Position,
    events: VecDeque<TailEvent>,
    bytes: usize,
}

impl Recent {
    /// Nothing, at the end of a log that reaches to `tip`.
    pub(crate) fn new(tip: Position) -> Recent {
        Recent(Mutex::new(Inner { covered_from: tip, events: VecDeque::new(), bytes: 0 }))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The log's end, as far as it has been announced. An event that is in the file already but not
    /// here yet is not acknowledged to anyone either.
    pub(crate) fn tip(&self) -> Position {
        let inner = self.inner();
        inner.events.back().map_or(inner.covered_from, |last| last.position)
    }

    /// Takes the events of a plan that has been committed.
    pub(crate) fn push(&self, plan: &Plan, now_ms: i64) {
        let mut inner = self.inner();
        for event in &plan.events {
            let event = event.followed(now_ms);
            inner.bytes += event.bytes();
            inner.events.push_back(event);
        }
        while inner.events.len() > EVENTS_MAX || inner.bytes > BYTES_MAX {
            let Some(oldest) = inner.events.pop_front() else { break };
            inner.bytes -= oldest.bytes();
            inner.covered_from = oldest.position;
        }
    }

    /// The events after a position; `None` if that lies further back than memory reaches.
    pub(crate) fn after(
        &self,
        position: Position,
        limit: PageLimit,
        wants_payload: &dyn Fn(&str) -> bool,
    ) -> Option<Vec<TailEvent>> {
        let inner = self.inner();
        if position < inner.covered_from {
            return None;
        }
        let first = inner.events.partition_point(|event| event.position <= position);
        Some(limit.follow(inner.events.range(first..), wants_payload))
    }
}
