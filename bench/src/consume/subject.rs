//! Who is measured.

use serde::{Serialize, Serializer};

use super::bare::BATCH;
use super::peers::Peer;

/// What it stands for in comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    Tidewire,
    BareLoop,
    Queue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    Library { partitions: u32, batch: usize },
    Sqlite { partitions: u32 },
    Http { workers: u32 },
    Bare,
    Queue { sessions: usize, take: usize },
    Peer(Peer),
}

impl Subject {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Library { partitions: 1, batch: BATCH } => "tidewire, 1 partition".to_owned(),
            Self::Library { partitions, batch: BATCH } => {
                format!("tidewire, {partitions} partitions")
            }
            Self::Library { partitions, batch } => {
                format!("tidewire, {partitions} partitions, {batch} a batch")
            }
            Self::Sqlite { partitions } => format!("tidewire sqlite, {partitions} partitions"),
            Self::Http { workers } => format!("tidewire HTTP, {workers} workers"),
            Self::Bare => "bare loop".to_owned(),
            Self::Queue { sessions: 1, take } => format!("SKIP LOCKED {take}, 1 session"),
            Self::Queue { sessions, take } => format!("SKIP LOCKED {take}, {sessions} sessions"),
            Self::Peer(peer) => peer.name.to_owned(),
        }
    }

    /// How many events or jobs it takes at once.
    pub(crate) fn batch(self) -> usize {
        match self {
            Self::Library { batch, .. } => batch,
            Self::Sqlite { .. } | Self::Http { .. } | Self::Bare => BATCH,
            Self::Queue { take, .. } => take,
            Self::Peer(peer) => peer.batch,
        }
    }

    pub(crate) fn role(self) -> Role {
        match self {
            Self::Library { .. } | Self::Sqlite { .. } | Self::Http { .. } => Role::Tidewire,
            Self::Bare => Role::BareLoop,
            Self::Queue { .. } | Self::Peer(_) => Role::Queue,
        }
    }
}

impl Serialize for Subject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name())
    }
}
