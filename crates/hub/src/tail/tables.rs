//! Tables whose changes live queries are kept by: their rows come with their images.

use std::collections::HashMap;
use std::sync::Arc;

use tidewire_store::TABLE_PREFIX;

use super::{Shared, Tail};

/// The streams of such tables, and how many queries there are of each.
#[derive(Debug, Default)]
pub(super) struct Sources(HashMap<Arc<str>, usize>);

impl Sources {
    pub(super) fn contains(&self, stream: &str) -> bool {
        self.0.contains_key(stream)
    }
}

impl Tail {
    /// Has the changes of a table come with their images from here on. What is being read at this moment
    /// may come without.
    pub(crate) fn attend_table(&self, table: &str) -> TableGuard {
        let stream: Arc<str> = format!("{TABLE_PREFIX}{table}").into();
        *self.shared.topics().tables.0.entry(Arc::clone(&stream)).or_default() += 1;
        TableGuard { stream, shared: Arc::clone(&self.shared) }
    }
}

/// Interest in a table. Dropping it ends it.
#[derive(Debug)]
pub struct TableGuard {
    stream: Arc<str>,
    shared: Arc<Shared>,
}

impl TableGuard {
    /// The table's stream.
    pub fn stream(&self) -> &Arc<str> {
        &self.stream
    }
}

impl Drop for TableGuard {
    fn drop(&mut self) {
        let tables = &mut self.shared.topics().tables.0;
        if let Some(count) = tables.get_mut(&self.stream) {
            *count -= 1;
            if *count == 0 {
                tables.remove(&self.stream);
            }
        }
    }
}
