//! What capture aims at.

use super::design::Design;
use super::writers::Statement;
use super::{backlog, latency, writers};
use crate::aims::Aims;

impl Aims {
    /// Single rows: a share of no capture, and many times the designs of others.
    pub(crate) fn of_writers(&mut self, rows: &[writers::Row]) {
        let single = |clients: usize, design: Design| {
            rows.iter().find(|row| {
                row.clients == clients
                    && row.design == design
                    && row.statement == Statement::InsertOne
            })
        };
        let mut clients: Vec<usize> = rows.iter().map(|row| row.clients).collect();
        clients.dedup();
        for &clients in &clients {
            for (design, wanted) in [
                (Design::Wal, 0.85),
                (Design::WalAlone, 0.85),
                (Design::Outbox, 0.65),
                (Design::OutboxAlone, 0.65),
            ] {
                if let Some(row) = single(clients, design) {
                    let aim =
                        format!("{}, {clients} clients, single rows: share of none", design.name());
                    self.at_least(aim, wanted, row.share);
                }
            }
        }
        let Some(&clients) = clients.iter().max() else { return };
        for ours in [Design::Wal, Design::WalAlone, Design::Outbox, Design::OutboxAlone] {
            for theirs in [Design::NotifyPerRow, Design::CounterLock] {
                if let (Some(ours), Some(theirs)) = (single(clients, ours), single(clients, theirs))
                {
                    let ratio = ours.statements_per_second / theirs.statements_per_second;
                    let (ours, theirs) = (ours.design.name(), theirs.design.name());
                    self.at_least(
                        format!("{ours}, {clients} clients: times {theirs}"),
                        10.0,
                        ratio,
                    );
                }
            }
        }
    }

    /// Within 3 ms of the bare channel.
    pub(crate) fn of_latency(&mut self, rows: &[latency::Row]) {
        let Some(bare) = rows.iter().find(|row| row.design.is_none()) else { return };
        for row in rows.iter().filter(|row| row.design.is_some()) {
            let more = row.latency.p50_ms - bare.latency.p50_ms;
            self.at_most(format!("{}: p50 ms more than bare", row.way), 3.0, more);
        }
    }

    pub(crate) fn of_backlog(&mut self, rows: &[backlog::Row]) {
        for row in rows.iter().filter(|row| row.design == Design::Outbox) {
            let (name, size) = (row.design.name(), row.rows_per_transaction);
            let aim = format!("{name}: events/s of the sequencer, {size} rows a transaction");
            self.at_least(aim, 50_000.0, row.events_per_second);
        }
    }
}
