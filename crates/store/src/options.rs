//! What all stores can be told when they are opened.

use serde::Deserialize;
use tidewire_options::default_of;

/// Bounds of the group commit, the same for all stores.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommitOptions {
    /// At most so many commands share a commit.
    pub commands_max: usize,
    /// A commit takes no further command once its payload reaches this.
    pub bytes_max: usize,
    /// At most so many commands wait; the next one is refused as overloaded.
    pub queue_max: usize,
}

impl Default for CommitOptions {
    fn default() -> CommitOptions {
        default_of("commit")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_default_file_is_what_is_declared_here() {
        assert_eq!(CommitOptions::default().commands_max, 1_000);
    }
}
