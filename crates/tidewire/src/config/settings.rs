//! The configuration as typed values, and what they mean to the store and the server.
//!
//! The field names are the file's keys. The options of the other crates are built field by field,
//! without their defaults, so that an option added there does not compile until it has a key here.

mod groups;
mod queries;
mod reading;
mod tables;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use tidewire_capture::{CaptureOptions, Source, Wake, WalLimits};
use tidewire_deliver as deliver;
use tidewire_store::CommitOptions;
use tidewire_store_postgres::PostgresOptions;
use tidewire_store_sqlite::SqliteOptions;

use groups::Groups;
use queries::Queries;
pub(super) use reading::stream_rule;
use reading::{ms, networks, source, wake};
use tables::given;
use tables::{
    Auth, Commit, Jwt, Limits, Live, Log, Node, Postgres, Rates, Retention, Sequencer, Sessions,
    Shutdown, Sql, Sqlite, Streams, TableRule, Telemetry, Tls, Wal, Webhooks,
};

/// All of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    pub(crate) listen: String,
    pub(crate) data: PathBuf,
    pub(crate) database: String,
    #[serde(deserialize_with = "ms")]
    pub(crate) database_wait_ms: Duration,
    #[serde(deserialize_with = "source")]
    pub(crate) capture: Source,
    #[serde(deserialize_with = "wake")]
    pub(crate) wake: Wake,
    pub(crate) public_url: String,
    pub(crate) allowed_origins: Vec<String>,
    #[serde(deserialize_with = "networks")]
    pub(crate) trusted_proxies: Vec<deliver::Network>,
    pub(crate) tls: Tls,
    pub(crate) streams: Streams,
    pub(crate) log: Log,
    pub(crate) sql: Sql,
    pub(crate) queries: Queries,
    pub(crate) groups: Groups,
    pub(crate) retention: Retention,
    /// Row rules, by table.
    #[serde(default)]
    pub(crate) tables: BTreeMap<String, TableRule>,
    pub(crate) commit: Commit,
    pub(crate) sqlite: Sqlite,
    pub(crate) postgres: Postgres,
    pub(crate) webhooks: Webhooks,
    pub(crate) live: Live,
    pub(crate) sessions: Sessions,
    pub(crate) node: Node,
    pub(crate) auth: Auth,
    pub(crate) jwt: Jwt,
    pub(crate) rates: Rates,
    pub(crate) limits: Limits,
    pub(crate) sequencer: Sequencer,
    pub(crate) wal: Wal,
    pub(crate) shutdown: Shutdown,
    pub(crate) telemetry: Telemetry,
}

/// Which store, and how to open it.
#[derive(Clone)]
pub(crate) enum StoreOptions {
    Sqlite(SqliteOptions),
    Postgres(PostgresOptions),
}

impl Settings {
    /// The database where one is given, else the folder.
    pub(crate) fn store(&self) -> StoreOptions {
        let Commit { commands_max, bytes_max, queue_max } = self.commit;
        let commit = CommitOptions { commands_max, bytes_max, queue_max };
        if self.database.is_empty() {
            let read_connections = self.sqlite.read_connections;
            let folder = self.data.clone();
            StoreOptions::Sqlite(SqliteOptions { folder, commit, read_connections })
        } else {
            StoreOptions::Postgres(PostgresOptions {
                commit,
                read_connections: self.postgres.read_connections,
                sql_connections: self.postgres.sql_connections,
                query_connections: self.postgres.query_connections,
                query_role: self.queries.role.clone(),
                connect_timeout: self.postgres.connect_timeout_ms,
                failover: self.postgres.failover,
                ..PostgresOptions::new(self.database.clone())
            })
        }
    }

    /// How a node takes part in capture, where the store is PostgreSQL.
    pub(crate) fn capture(&self, node: &str) -> CaptureOptions {
        let sequencer = &self.sequencer;
        CaptureOptions {
            source: self.capture,
            wake: self.wake,
            node: node.to_owned(),
            batch_rows_max: sequencer.batch_rows_max,
            batch_bytes_max: sequencer.batch_bytes_max,
            poll: sequencer.poll_ms,
            idle_poll: sequencer.idle_poll_ms,
            sleep_after: sequencer.sleep_after_ms,
            election_poll: sequencer.election_poll_ms,
            check: sequencer.check_ms,
            attempts_max: sequencer.attempts_max,
            retry: sequencer.retry_ms,
            compare_max: CaptureOptions::COMPARE_MAX,
            wal: WalLimits { warn_bytes: self.wal.warn_bytes, max_bytes: self.wal.keep_bytes_max },
        }
    }

    fn rules(&self) -> BTreeMap<String, deliver::TableRule> {
        let rule = |rule: &TableRule| deliver::TableRule {
            read: rule.read.clone(),
            place: rule.place.clone(),
        };
        self.tables.iter().map(|(table, own)| (table.clone(), rule(own))).collect()
    }

    /// What can change while the server runs.
    pub(crate) fn tunable(&self) -> deliver::Tunable {
        deliver::Tunable {
            allowed_origins: self.allowed_origins.clone(),
            rates: self.rates.options(),
            tables: self.rules(),
        }
    }

    /// How the server is to serve. The secret is that of HS256 tokens.
    pub(crate) fn deliver(
        &self,
        access: deliver::Access,
        jwt_secret: Option<String>,
    ) -> deliver::Options {
        let limits = &self.limits;
        deliver::Options {
            access,
            public_url: given(&self.public_url),
            tunable: self.tunable(),
            reload: None,
            auth: deliver::AuthOptions {
                key_cache: self.auth.key_cache_ms,
                ticket_ttl: self.auth.ticket_ttl_ms,
                cookie: self.auth.cookie.clone(),
                cookie_same_site: match self.auth.cookie_same_site.as_str() {
                    "lax" => deliver::SameSite::Lax,
                    "none" => deliver::SameSite::None,
                    _ => deliver::SameSite::Strict,
                },
                jwt: self.jwt.options(jwt_secret),
                jwt_scopes: given(&self.jwt.scopes),
                control_poll: self.auth.control_poll_ms,
            },
            trusted_proxies: self.trusted_proxies.clone(),
            tls: self.tls.options(),
            limits: deliver::Limits {
                body_bytes_max: limits.body_bytes_max,
                inflight_bytes_max: limits.inflight_bytes_max,
                stream_name_bytes_max: limits.stream_name_bytes_max,
                header_bytes_max: limits.header_bytes_max,
                query_bytes_max: limits.query_bytes_max,
                messages_per_append_max: limits.messages_per_append_max,
                live_readers_max: limits.live_readers_max,
                connections_max: limits.connections_max,
                connections_per_address_max: limits.connections_per_address_max,
                tls_handshake_timeout: limits.tls_handshake_timeout_ms,
                header_timeout: limits.header_timeout_ms,
                body_timeout: limits.body_timeout_ms,
                idle_timeout: limits.idle_timeout_ms,
            },
            streams: deliver::StreamOptions {
                long_poll: self.streams.long_poll_ms,
                sse_duration: self.streams.sse_ms,
                read_bytes_max: self.streams.read_bytes_max,
                read_events_max: self.streams.read_events_max,
                page_cache_bytes_max: self.streams.page_cache_bytes_max,
            },
            log: deliver::LogOptions {
                fallback_poll: self.log.fallback_poll_ms,
                sweep_interval: self.log.sweep_interval_ms,
                min_offset_wait: self.log.min_offset_wait_ms,
            },
            sql: deliver::SqlOptions {
                timeout: self.sql.timeout_ms,
                rows_max: self.sql.rows_max,
                bytes_max: self.sql.bytes_max,
                log_statements: self.sql.log_statements,
            },
            queries: self.queries.options(),
            groups: self.groups.options(),
            retention: self.retention.rules(),
            tables: self.rules(),
            webhooks: deliver::WebhookOptions {
                allow_loopback: self.webhooks.allow_loopback,
                timeout: self.webhooks.timeout_ms,
                concurrent_max: self.webhooks.concurrent_max,
            },
            live: self.live.options(),
            sessions: deliver::SessionOptions {
                ttl: self.sessions.ttl_ms,
                stale: self.sessions.stale_ms,
            },
            node: deliver::NodeOptions { name: self.node.name.clone(), lease: self.node.lease_ms },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::file;

    // The default file has every key of the structs and no other, or this does not parse.
    fn default_settings() -> Settings {
        toml::from_str(file::DEFAULT).expect("the default file fits the settings")
    }

    #[test]
    fn the_default_file_says_what_the_server_does_by_default() {
        let of_file = default_settings().deliver(deliver::Access::OpenOnLoopback, None);
        let of_code = deliver::Options::new(deliver::Access::OpenOnLoopback);
        assert_eq!(format!("{of_file:#?}"), format!("{of_code:#?}"));
    }

    #[test]
    fn the_default_file_says_how_changes_are_captured_by_default() {
        let (of_file, of_code) = (default_settings().capture("a"), CaptureOptions::new("a"));
        assert_eq!(format!("{of_file:#?}"), format!("{of_code:#?}"));
    }

    #[test]
    fn the_default_file_says_what_the_stores_do_by_default() {
        let mut settings = default_settings();
        let StoreOptions::Sqlite(of_file) = settings.store() else { panic!("no database is set") };
        let of_code = SqliteOptions::new("./tidewire-data");
        assert_eq!(format!("{of_file:#?}"), format!("{of_code:#?}"));

        settings.database = "postgres://localhost/app".to_owned();
        let StoreOptions::Postgres(of_file) = settings.store() else { panic!("one is set") };
        let of_code = PostgresOptions::new("postgres://localhost/app");
        assert_eq!(format!("{of_file:#?}"), format!("{of_code:#?}"));
    }
}
