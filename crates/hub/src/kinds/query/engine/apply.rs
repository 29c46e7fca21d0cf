//! Applies events of the log to the engine, in order, each once.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use tidewire_query::{Change, Event, Kind};
use tidewire_store::{Operation, PageLimit, Position, TABLE_PREFIX, TailEvent, WantsPayload};

use super::catalogue::changes_table;
use super::task::RunningQueryEngine;

/// Events after which others get their turn.
const EVENTS_A_TURN: usize = 512;
/// Events read from the log at once, by a query engine that has fallen behind.
const PAGE: PageLimit = PageLimit { events: 2_000, bytes: 8 << 20 };
/// How long to wait after the log could not be read.
const RETRY: Duration = Duration::from_millis(200);

/// What a query engine has missed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lagging {
    /// What was missed ends here, or before.
    up_to: Position,
    /// When to read on.
    due: Instant,
}

impl RunningQueryEngine {
    /// Applies what is new of one look at the log.
    pub(super) async fn apply(&mut self, batch: &[TailEvent]) {
        for (number, event) in batch.iter().enumerate() {
            if event.position <= self.position() {
                continue;
            }
            self.apply_one(event).await;
            if (number + 1) % EVENTS_A_TURN == 0 {
                self.send().await;
                tokio::task::yield_now().await;
            }
        }
    }

    async fn apply_one(&mut self, event: &TailEvent) {
        self.created_at_ms = event.created_at_ms;
        let before = self.position();
        let mut out = std::mem::take(&mut self.out);
        self.engine.apply(&self.event(event), &mut out);
        self.out = out;
        self.tell();
        self.note_end(event, before);
        if let Some(table) = changes_table(event) {
            self.hub.queries.catalogue.forget();
            if self.attended.contains_key(event.stream.as_str()) {
                self.table_changed(table).await;
            }
        }
    }

    /// Notes where the last transaction ended, after an event that came after `before`.
    fn note_end(&mut self, event: &TailEvent, before: Position) {
        if event.txid.is_some() && self.open.is_some() && self.open != event.txid {
            // The last event of the one before will not come.
            self.open = None;
            self.whole = before;
        }
        match event.txid {
            Some(_) if !event.tx_last => self.open = event.txid,
            None if self.open.is_some() => {}
            _ => {
                self.open = None;
                self.whole = event.position;
            }
        }
    }

    /// An event as the engine takes it.
    pub(super) fn event<'a>(&self, event: &'a TailEvent) -> Event<'a> {
        let is_attended = self.attended.contains_key(event.stream.as_str());
        let table = event.stream.strip_prefix(TABLE_PREFIX);
        let change = table.filter(|_| is_attended && event.control.is_none()).map(|table| {
            let row = event.row.as_deref();
            Change {
                table,
                kind: match row.map(|row| row.operation) {
                    Some(Operation::Insert) => Kind::Insert,
                    Some(Operation::Update) => Kind::Update,
                    Some(Operation::Delete) => Kind::Delete,
                    Some(Operation::Truncate) => Kind::Truncate,
                    // The log was read before anyone attended the table, or the event is no row's.
                    None => Kind::Unknown,
                },
                before: row.and_then(|row| row.before.as_deref()),
                after: row.and_then(|row| row.after.as_deref()),
            }
        });
        Event {
            at: tidewire_query::Position(event.position.number()),
            txid: event.txid,
            tx_last: event.tx_last,
            change,
        }
    }

    /// Notes that more has happened than is kept for those who fall behind: the query engine reads on by itself,
    /// up to where the log is known to be. What came after that is heard again.
    pub(super) fn lag(&mut self) {
        self.hub.queries.counters.lagged();
        self.lagging = Some(Lagging { up_to: self.hub.tail.position(), due: Instant::now() });
    }

    /// Waits until there is something to read on. Waits for ever if nothing was missed.
    pub(super) async fn lagging(lagging: Option<Lagging>) {
        match lagging {
            Some(Lagging { due, .. }) => tokio::time::sleep_until(due).await,
            None => std::future::pending().await,
        }
    }

    /// Reads one page of what was missed: others get their turn before the next.
    pub(super) async fn catch_up(&mut self) {
        let Some(Lagging { up_to, .. }) = self.lagging else { return };
        let streams: Vec<Arc<str>> = self.attended.keys().cloned().collect();
        let wants: WantsPayload =
            Arc::new(move |stream: &str| streams.iter().any(|own| **own == *stream));
        match self.hub.store.follow(self.position(), PAGE, wants).await {
            Ok(events) => {
                self.apply(&events).await;
                if events.is_empty() || self.position() >= up_to {
                    self.lagging = None;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "live queries cannot follow the log; trying again");
                self.lagging = Some(Lagging { up_to, due: Instant::now() + RETRY });
            }
        }
    }
}
