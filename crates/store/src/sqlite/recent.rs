//! The newest events in memory, for the follower of the log.
//!
//! There is one writer, so what it just committed is the end of the log. A follower that is up to
//! date gets it from here and does not read back what was written a moment ago; one that is behind
//! reads the file. Events are put here only after their commit is durable.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::decide::Plan;
use crate::event::TailEvent;
use crate::log::PageLimit;
use crate::offset::Position;

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

fn size(event: &TailEvent) -> usize {
    let row = event.row.as_ref().map_or(0, |row| row.bytes());
    event.payload.as_ref().map_or(0, Bytes::len) + row
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
            let event = TailEvent {
                entity: event.entity.clone(),
                position: event.position,
                stream: event.stream.clone(),
                control: event.control,
                payload: event.payload.clone(),
                row: event.row.clone(),
                txid: event.txid,
                tx_last: event.tx_last,
                created_at_ms: now_ms,
            };
            inner.bytes += size(&event);
            inner.events.push_back(event);
        }
        while inner.events.len() > EVENTS_MAX || inner.bytes > BYTES_MAX {
            let Some(oldest) = inner.events.pop_front() else { break };
            inner.bytes -= size(&oldest);
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
        let mut bytes = 0;
        let mut page = Vec::new();
        for event in inner.events.range(first..).take(limit.events) {
            let mut event = event.clone();
            if !wants_payload(&event.stream) {
                (event.payload, event.row) = (None, None);
            }
            bytes += size(&event);
            page.push(event);
            if limit.is_reached(page.len(), bytes) {
                break;
            }
        }
        Some(page)
    }
}
