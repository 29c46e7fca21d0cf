//! Which servers there are, and what each does with a message: above all, what an acknowledged
//! append has survived.

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    TidewireSqlite,
    TidewirePostgres,
    NodePeer,
    RustPeerFile,
    RustPeerAcid,
    Nats,
    BareLoop,
    BareServer,
}

impl Kind {
    /// Those that speak the Durable Streams protocol.
    pub(crate) const STREAMS: [Self; 5] = [
        Self::TidewireSqlite,
        Self::TidewirePostgres,
        Self::NodePeer,
        Self::RustPeerFile,
        Self::RustPeerAcid,
    ];

    /// Those that fan out.
    pub(crate) const FAN_OUT: [Self; 4] =
        [Self::TidewireSqlite, Self::TidewirePostgres, Self::Nats, Self::BareLoop];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TidewireSqlite => "tidewire sqlite",
            Self::TidewirePostgres => "tidewire postgres",
            Self::NodePeer => "node reference",
            Self::RustPeerFile => "rust file-durable",
            Self::RustPeerAcid => "rust acid",
            Self::Nats => "nats",
            Self::BareLoop => "bare loop",
            Self::BareServer => "bare server",
        }
    }

    pub(crate) fn is_tidewire(self) -> bool {
        matches!(self, Self::TidewireSqlite | Self::TidewirePostgres)
    }

    /// As read in each server's source; `bench/README.md` says where.
    pub(crate) fn durability(self) -> &'static str {
        match self {
            Self::TidewireSqlite => "SQLite WAL, synchronous=FULL: one fsync per group commit",
            Self::TidewirePostgres => {
                "PostgreSQL, synchronous_commit=on: one WAL flush per group commit"
            }
            Self::NodePeer => {
                "file per stream, fdatasync before the answer, appends to a stream one by one; \
                 LMDB metadata not waited for"
            }
            Self::RustPeerFile => {
                "storage.mode=file-durable: file per stream, fdatasync per append, no group commit"
            }
            Self::RustPeerAcid => {
                "storage.mode=acid: redb in 16 shards, Durability::Immediate, a transaction per \
                 append, no group commit"
            }
            Self::Nats => {
                "core NATS over its WebSocket without TLS or compression: nothing is stored, \
                 publishing is not answered"
            }
            Self::BareLoop => {
                "a thread for each core writes Tidewire's frame, built once, to its sockets in turn: \
                 one write for each message, or (joined) for all messages of one read, or (synced) \
                 after the disk was waited for; nothing is queued or checked"
            }
            Self::BareServer => {
                "SQLite WAL, synchronous=FULL: one fsync per group commit; a thread for HTTP and one \
                 that writes, nothing is checked"
            }
        }
    }
}
