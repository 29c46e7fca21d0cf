//! Edits of the list of live queries, folded into what they come to, so that however many they are, they
//! are a few statements.

use std::collections::{BTreeMap, BTreeSet};

use super::{LiveQueryEdit, LiveQueryRow};

/// What edits come to, if it is done in this order: connections go, rows go, rows come, rows are counted
/// for. No edit before a row's coming counts for it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct EditPlan {
    pub disconnected: BTreeSet<String>,
    pub closed: BTreeSet<String>,
    pub opened: BTreeMap<String, LiveQueryRow>,
    pub counted: BTreeMap<String, Counted>,
}

/// What was counted for a row since.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Counted {
    pub changes: u64,
    pub lag_ms: Option<u64>,
    pub queue_depth: u64,
    pub plan: String,
}

impl EditPlan {
    pub fn of(edits: Vec<LiveQueryEdit>) -> EditPlan {
        let mut plan = EditPlan::default();
        for edit in edits {
            plan.add(edit);
        }
        plan
    }

    fn add(&mut self, edit: LiveQueryEdit) {
        match edit {
            LiveQueryEdit::Open(row) => {
                self.counted.remove(&row.live_id);
                self.opened.insert(row.live_id.clone(), row);
            }
            LiveQueryEdit::Count { live_id, changes, lag_ms, queue_depth, plan } => {
                let counted = self.counted.entry(live_id).or_default();
                counted.changes += changes;
                counted.lag_ms = lag_ms.or(counted.lag_ms);
                counted.queue_depth = queue_depth;
                counted.plan = plan;
            }
            LiveQueryEdit::Close { live_id } => {
                self.opened.remove(&live_id);
                self.counted.remove(&live_id);
                self.closed.insert(live_id);
            }
            LiveQueryEdit::Disconnect { connection_id } => {
                let counted = &mut self.counted;
                self.opened.retain(|live_id, row| {
                    let stays = row.connection_id != connection_id;
                    if !stays {
                        counted.remove(live_id);
                    }
                    stays
                });
                self.disconnected.insert(connection_id);
            }
        }
    }
}
