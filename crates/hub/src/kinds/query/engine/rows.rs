//! Gives the engine the rows that reads of the database returned.

use tokio::time::Instant;

use tidewire_query::{AskId, EndReason, ReadFailed, Rows, Snapshot};
use tidewire_store::{LiveRows, Position, SqlError};

use super::problem;
use super::reads::ReadResult;
use super::task::RunningQueryEngine;

impl RunningQueryEngine {
    /// A read is done.
    pub(super) async fn read(&mut self, done: ReadResult) {
        let ReadResult { ask, outcome, took } = done;
        let (id, query, now) = (ask.id, ask.query, Instant::now());
        self.hub.queries.counters.read(took);
        if !self.engine.awaits(id) {
            // Nobody follows the query any more, or it was asked for anew.
            return self.answered(id);
        }
        match outcome {
            Ok(rows) => match rows_of(rows) {
                Some(rows) => {
                    self.reads.succeeded(query, took, now);
                    self.took(id, rows, now);
                }
                None => self.failed(id, problem::reason(problem::FAILED, None)),
            },
            Err(SqlError::Store(error)) => {
                tracing::debug!(%error, "could not read a live query's rows; trying again");
                self.reads.again(ask, now);
            }
            Err(SqlError::Wrong(wrong)) => match wrong.code {
                problem::TOO_SLOW if !self.reads.was_slow(query, ask.kind) => {
                    self.reads.again(ask, now);
                }
                "shape_changed" => {
                    self.hub.queries.catalogue.forget();
                    for table in self.tables_of(query) {
                        self.table_changed(&table).await;
                    }
                    if self.engine.awaits(id) {
                        self.reads.again(ask, now);
                    }
                }
                // A window reads more rows than may be seen of it: the store's number is not the one that is set.
                problem::TOO_LARGE => {
                    self.failed(id, problem::too_large(&self.hub.options.queries));
                }
                // The store says nothing in it that rows could have told.
                code => self.failed(id, problem::reason(code, Some(wrong.message))),
            },
        }
    }

    fn took(&mut self, id: AskId, rows: Rows, now: Instant) {
        let settled = rows.settled;
        self.engine.rows(id, Ok(rows), &mut self.out);
        self.tell();
        if settled || !self.engine.awaits(id) {
            self.answered_at(id, self.position());
        } else {
            self.settling.push(id, now + self.hub.options.queries.settle_wait);
        }
    }

    fn failed(&mut self, id: AskId, reason: EndReason) {
        self.engine.rows(id, Err(ReadFailed::Ended(reason)), &mut self.out);
        self.tell();
        self.answered(id);
    }

    /// The log has everything that these reads may show.
    pub(super) fn settled(&mut self, asks: &[AskId], mark: Position) {
        for ask in asks {
            self.engine.settled(*ask, tidewire_query::Position(mark.number()), &mut self.out);
            self.tell();
            self.answered_at(*ask, mark.max(self.position()));
        }
    }
}

/// Rows as the engine takes them, unless the database has a word for its snapshot that is not known.
fn rows_of(rows: LiveRows) -> Option<Rows> {
    let snapshot = match rows.snapshot.as_deref() {
        Some(text) => Snapshot::parse(text)?,
        None => Snapshot::Position,
    };
    let tip = tidewire_query::Position(rows.tip.number());
    Some(Rows { tip, snapshot, settled: rows.settled, rows: rows.rows })
}
