//! Streams' rows in the writer's memory.
//!
//! There is one writer, so what it last wrote or read is what is there: the cache needs no
//! invalidation but its own commits, is told of what upkeep changes, and starts anew where another
//! process wrote to the file after all. It saves every append the look-up of its stream.

use std::collections::HashMap;

use tidewire_store::decide::Plan;
use tidewire_store::stream::StreamState;

/// Rows kept. When more are in use, the cache starts anew.
const STREAMS_MAX: usize = 20_000;

/// Rows by name; `None` where there is no stream of that name.
#[derive(Debug, Default)]
pub(crate) struct StreamCache(HashMap<String, Option<StreamState>>);

impl StreamCache {
    /// What is known of a name: nothing, that it is free, or the stream's row.
    pub(crate) fn get(&self, name: &str) -> Option<&Option<StreamState>> {
        self.0.get(name)
    }

    /// Remembers what was read.
    pub(crate) fn put(&mut self, name: &str, state: Option<&StreamState>) {
        if self.0.len() >= STREAMS_MAX {
            self.0.clear();
        }
        self.0.insert(name.to_owned(), state.cloned());
    }

    /// Forgets everything: someone else may have changed it.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Forgets what is known of a name.
    pub(crate) fn forget(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Follows a plan that has been committed.
    pub(crate) fn follow(&mut self, plan: &Plan) {
        for name in &plan.removed {
            self.put(name, None);
        }
        for state in &plan.streams {
            self.put(&state.name, Some(state));
        }
    }
}
