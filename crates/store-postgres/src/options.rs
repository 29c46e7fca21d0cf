//! How the shared store is opened.

use std::time::Duration;

use serde::Deserialize;
use tidewire_options::{default_of, ms};
use tidewire_store::CommitOptions;

/// What a node does when its database is not the one that the log's epoch was noted in: after a
/// failover to a standby, or in a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failover {
    /// The log begins a new epoch, because its newest events may be missing.
    NewEpoch,
    /// The node stops, and the operator decides.
    Stop,
    /// The log goes on: the operator's word that nothing is missing.
    Lossless,
}

/// The shared store.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PostgresOptions {
    /// `postgres://user:password@host:port/database?sslmode=…`
    #[serde(skip)]
    pub url: String,
    /// Bounds of the group commit.
    #[serde(skip)]
    pub commit: CommitOptions,
    /// Connections that serve reads.
    pub read_connections: usize,
    /// Sessions that run users' own SQL.
    pub sql_connections: usize,
    /// Sessions that read for live queries: more than reads at once, so that new queries are looked at
    /// meanwhile.
    pub query_connections: usize,
    /// The role that live queries run as: a key of their table.
    #[serde(skip, default = "query_role")]
    pub query_role: String,
    /// How long to wait for a connection, and for a lost one to come back, before a command is
    /// refused as unavailable.
    #[serde(rename = "connect_timeout_ms", deserialize_with = "ms")]
    pub connect_timeout: Duration,
    /// What to do after a failover.
    pub failover: Failover,
}

impl PostgresOptions {
    /// The store at `url`, with the usual bounds.
    pub fn new(url: impl Into<String>) -> PostgresOptions {
        PostgresOptions { url: url.into(), ..default_of("postgres") }
    }
}

fn query_role() -> String {
    default_of("queries.role")
}

impl std::fmt::Debug for PostgresOptions {
    /// Leaves out the URL: it may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("commit", &self.commit)
            .field("read_connections", &self.read_connections)
            .field("sql_connections", &self.sql_connections)
            .field("query_connections", &self.query_connections)
            .field("query_role", &self.query_role)
            .field("connect_timeout", &self.connect_timeout)
            .field("failover", &self.failover)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_default_file_is_what_is_declared_here() {
        let options = PostgresOptions::new("postgres://h/d");
        assert_eq!(options.connect_timeout, Duration::from_secs(5));
        assert_eq!(options.failover, Failover::NewEpoch);
        assert_eq!(options.query_role, "tidewire_live");
    }
}
