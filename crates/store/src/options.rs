//! What all stores can be told when they are opened.

/// Bounds of the group commit, the same for all stores.
#[derive(Debug, Clone)]
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
        CommitOptions { commands_max: 1_000, bytes_max: 32 << 20, queue_max: 20_000 }
    }
}
