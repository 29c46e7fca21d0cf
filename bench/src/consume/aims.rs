//! What consumer groups aim at: many times the queues of jobs, and a fair share of a bare loop.

use super::bare::BATCH;
use super::rows::Row;
use super::subject::{Role, Subject};
use crate::aims::Aims;

const TIMES_QUEUES: f64 = 10.0;
const OF_BARE: f64 = 0.6;

impl Aims {
    /// Each number of partitions beside the bare loop; the largest beside every queue, with large batches if the
    /// queue takes many jobs at once too.
    pub(crate) fn of_consumers(&mut self, rows: &[Row]) {
        let is_library = |row: &&Row| matches!(row.subject, Subject::Library { .. });
        for row in rows.iter().filter(is_library).filter(|row| row.subject.batch() == BATCH) {
            if let Some(share) = row.of_bare {
                let aim = format!("{}: of the bare loop", row.label());
                self.at_least(aim, OF_BARE, share);
            }
        }
        for queue in rows.iter().filter(|row| row.subject.role() == Role::Queue) {
            let batch = queue.subject.batch().max(BATCH);
            let beside = |row: &&Row| row.effect == queue.effect && row.subject.batch() == batch;
            let ours = rows.iter().filter(is_library).rfind(beside);
            let rates = ours.and_then(|ours| ours.rate()).zip(queue.rate());
            if let (Some(ours), Some((our_rate, their_rate))) = (ours, rates) {
                // What one connection gets that does nothing but read and advance, for comparison.
                let is_limit =
                    |row: &&Row| row.effect == queue.effect && row.subject == Subject::Bare;
                let limit = rows.iter().find(is_limit).and_then(Row::rate);
                let limit = limit.map(|rate| format!(" (the bare loop: {:.1})", rate / their_rate));
                let aim = format!("{}: times {}", ours.label(), queue.subject.name());
                let aim = aim + &limit.unwrap_or_default();
                self.at_least(aim, TIMES_QUEUES, our_rate / their_rate);
            }
        }
    }
}
