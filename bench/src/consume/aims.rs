//! What consumer groups aim at: many times the queues of jobs, and a fair share of a bare loop.

use super::rows::Row;
use super::subject::{Role, Subject};
use crate::aims::Aims;

const TIMES_QUEUES: f64 = 10.0;
const OF_BARE: f64 = 0.6;

impl Aims {
    /// Each number of partitions beside the bare loop; the largest beside every queue, however it is run.
    pub(crate) fn of_consumers(&mut self, rows: &[Row]) {
        for row in rows.iter().filter(|row| matches!(row.subject, Subject::Library { .. })) {
            if let Some(share) = row.of_bare {
                let aim = format!("{}: of the bare loop", row.label());
                self.at_least(aim, OF_BARE, share);
            }
        }
        for queue in rows.iter().filter(|row| row.subject.role() == Role::Queue) {
            let ours = rows.iter().rfind(|row| {
                matches!(row.subject, Subject::Library { .. }) && row.effect == queue.effect
            });
            let rates = ours.and_then(|ours| ours.rate()).zip(queue.rate());
            if let (Some(ours), Some((our_rate, their_rate))) = (ours, rates) {
                let aim = format!("{}: times {}", ours.label(), queue.subject.name());
                self.at_least(aim, TIMES_QUEUES, our_rate / their_rate);
            }
        }
    }
}
