//! The configuration as typed values, and what they mean to the store and the server.
//!
//! The field names are the file's keys. The options of the other crates are built field by field,
//! without their defaults, so that an option added there does not compile until it has a key here.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use tidewire_capture::{CaptureOptions, Source, Wake, WalLimits};
use tidewire_deliver as deliver;
use tidewire_store::{CommitOptions, PostgresOptions, RetentionRules, SqliteOptions, StreamRule};

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
    pub(crate) retention: Retention,
    /// Row rules, by table.
    #[serde(default)]
    pub(crate) tables: BTreeMap<String, String>,
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tls {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Streams {
    #[serde(deserialize_with = "ms")]
    long_poll_ms: Duration,
    #[serde(deserialize_with = "ms")]
    sse_ms: Duration,
    read_bytes_max: usize,
    read_events_max: usize,
    page_cache_bytes_max: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Log {
    #[serde(deserialize_with = "ms")]
    fallback_poll_ms: Duration,
    #[serde(deserialize_with = "ms")]
    sweep_interval_ms: Duration,
    #[serde(deserialize_with = "ms")]
    min_offset_wait_ms: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sql {
    #[serde(deserialize_with = "ms")]
    timeout_ms: Duration,
    rows_max: usize,
    bytes_max: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Retention {
    age_ms: u64,
    bytes_max: u64,
    hard_age_ms: u64,
    hard_bytes_max: u64,
    archive: bool,
    #[serde(deserialize_with = "stream_rules")]
    streams: Vec<StreamRule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Commit {
    commands_max: usize,
    bytes_max: usize,
    queue_max: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sqlite {
    read_connections: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Postgres {
    read_connections: usize,
    sql_connections: usize,
    #[serde(deserialize_with = "ms")]
    connect_timeout_ms: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Webhooks {
    allow_loopback: bool,
    #[serde(deserialize_with = "ms")]
    timeout_ms: Duration,
    concurrent_max: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Live {
    shards: usize,
    #[serde(deserialize_with = "ms")]
    ping_ms: Duration,
    #[serde(deserialize_with = "ms")]
    silence_ms: Duration,
    queue_events_max: usize,
    queue_bytes_max: usize,
    #[serde(deserialize_with = "ms")]
    queue_age_ms: Duration,
    notify_bytes: usize,
    fan_out_threshold: usize,
    connections_per_identity_max: usize,
    subscriptions_max: usize,
    entities_max: usize,
    single_connection_per_user: bool,
    message_bytes_max: usize,
    #[serde(deserialize_with = "ms")]
    reconnect_spread_ms: Duration,
    memory_bytes_max: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sessions {
    #[serde(deserialize_with = "ms")]
    ttl_ms: Duration,
    #[serde(deserialize_with = "ms")]
    stale_ms: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Node {
    name: String,
    #[serde(deserialize_with = "ms")]
    lease_ms: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Auth {
    #[serde(deserialize_with = "ms")]
    key_cache_ms: Duration,
    #[serde(deserialize_with = "ms")]
    ticket_ttl_ms: Duration,
    cookie: String,
    cookie_same_site: String,
    #[serde(deserialize_with = "ms")]
    control_poll_ms: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Jwt {
    jwks: String,
    #[serde(deserialize_with = "ms")]
    jwks_refresh_ms: Duration,
    issuer: String,
    audience: Vec<String>,
    #[serde(deserialize_with = "ms")]
    skew_ms: Duration,
    host_claim: String,
    scopes_claim: String,
    scopes: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rates {
    identity_per_second: u32,
    identity_burst: u32,
    address_per_second: u32,
    address_burst: u32,
    failures_per_second: u32,
    failures_burst: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Limits {
    body_bytes_max: usize,
    stream_name_bytes_max: usize,
    header_bytes_max: usize,
    query_bytes_max: usize,
    messages_per_append_max: usize,
    live_readers_max: usize,
    connections_max: usize,
    connections_per_address_max: usize,
    #[serde(deserialize_with = "ms")]
    tls_handshake_timeout_ms: Duration,
    #[serde(deserialize_with = "ms")]
    header_timeout_ms: Duration,
    #[serde(deserialize_with = "ms")]
    body_timeout_ms: Duration,
    #[serde(deserialize_with = "ms")]
    idle_timeout_ms: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sequencer {
    batch_rows_max: usize,
    batch_bytes_max: usize,
    #[serde(deserialize_with = "ms")]
    poll_ms: Duration,
    #[serde(deserialize_with = "ms")]
    sleep_after_ms: Duration,
    #[serde(deserialize_with = "ms")]
    idle_poll_ms: Duration,
    #[serde(deserialize_with = "ms")]
    election_poll_ms: Duration,
    #[serde(deserialize_with = "ms")]
    check_ms: Duration,
    attempts_max: u32,
    #[serde(deserialize_with = "ms")]
    retry_ms: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wal {
    warn_bytes: u64,
    keep_bytes_max: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shutdown {
    #[serde(deserialize_with = "ms")]
    pub(crate) grace_ms: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Telemetry {
    pub(crate) level: String,
    pub(crate) format: String,
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
                url: self.database.clone(),
                commit,
                read_connections: self.postgres.read_connections,
                sql_connections: self.postgres.sql_connections,
                connect_timeout: self.postgres.connect_timeout_ms,
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
            wal: WalLimits { warn_bytes: self.wal.warn_bytes, max_bytes: self.wal.keep_bytes_max },
        }
    }

    /// What can change while the server runs.
    pub(crate) fn tunable(&self) -> deliver::Tunable {
        deliver::Tunable {
            allowed_origins: self.allowed_origins.clone(),
            rates: self.rates.options(),
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
            },
            retention: self.retention.rules(),
            tables: self.tables.clone(),
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

impl Retention {
    /// Zero is no limit.
    fn rules(&self) -> RetentionRules {
        let limit = |number: u64| Some(number).filter(|number| *number > 0);
        RetentionRules {
            age_ms: limit(self.age_ms),
            bytes_max: limit(self.bytes_max),
            hard_age_ms: limit(self.hard_age_ms),
            hard_bytes_max: limit(self.hard_bytes_max),
            archive: self.archive,
            streams: self.streams.clone(),
        }
    }
}

impl Tls {
    /// None where no certificate is named. That there is a key then is checked by those who serve.
    fn options(&self) -> Option<deliver::TlsOptions> {
        let Tls { certificate, key } = self;
        let named = !certificate.as_os_str().is_empty();
        named.then(|| deliver::TlsOptions { certificate: certificate.clone(), key: key.clone() })
    }
}

impl Jwt {
    /// How tokens are verified, where there is something to verify them with.
    fn options(&self, secret: Option<String>) -> Option<deliver::JwtOptions> {
        let is_url = self.jwks.contains("://");
        let jwks = given(&self.jwks).map(|jwks| {
            if is_url {
                deliver::JwksSource::Url(jwks)
            } else {
                deliver::JwksSource::File(jwks.into())
            }
        });
        if secret.is_none() && jwks.is_none() {
            return None;
        }
        Some(deliver::JwtOptions {
            secret,
            jwks,
            jwks_refresh: self.jwks_refresh_ms,
            issuer: given(&self.issuer),
            audience: self.audience.clone(),
            skew: self.skew_ms,
            host_claim: self.host_claim.clone(),
            scopes_claim: self.scopes_claim.clone(),
        })
    }
}

impl Rates {
    fn options(&self) -> deliver::RateOptions {
        let rate = |per_second, burst| deliver::Rate { per_second, burst };
        deliver::RateOptions {
            identity: rate(self.identity_per_second, self.identity_burst),
            address: rate(self.address_per_second, self.address_burst),
            failures: rate(self.failures_per_second, self.failures_burst),
        }
    }
}

/// A text that is not empty.
fn given(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

impl Live {
    fn options(&self) -> deliver::LiveOptions {
        deliver::LiveOptions {
            shards: self.shards,
            ping: self.ping_ms,
            silence: self.silence_ms,
            queue_events_max: self.queue_events_max,
            queue_bytes_max: self.queue_bytes_max,
            queue_age: self.queue_age_ms,
            notify_bytes: self.notify_bytes,
            fan_out_threshold: self.fan_out_threshold,
            connections_per_identity_max: self.connections_per_identity_max,
            subscriptions_max: self.subscriptions_max,
            entities_max: self.entities_max,
            single_connection_per_user: self.single_connection_per_user,
            message_bytes_max: self.message_bytes_max,
            reconnect_spread: self.reconnect_spread_ms,
            memory_bytes_max: self.memory_bytes_max,
        }
    }
}

fn ms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    u64::deserialize(deserializer).map(Duration::from_millis)
}

fn source<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Source, D::Error> {
    let word = String::deserialize(deserializer)?;
    Source::parse(&word).ok_or_else(|| D::Error::custom(format!("{word} is no source of changes")))
}

fn wake<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Wake, D::Error> {
    let word = String::deserialize(deserializer)?;
    Wake::parse(&word).ok_or_else(|| D::Error::custom(format!("{word} says nothing of waking")))
}

fn networks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<deliver::Network>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
}

fn stream_rules<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<StreamRule>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let rule = |text: &String| stream_rule(text).ok_or_else(|| D::Error::custom("no such rule"));
    texts.iter().map(rule).collect()
}

/// A pattern and an age, such as `logs/*=7d`.
pub(super) fn stream_rule(text: &str) -> Option<StreamRule> {
    let (pattern, age) = text.rsplit_once('=')?;
    let age = crate::cli::duration(age).ok()?;
    let age_ms = u64::try_from(age.as_millis()).ok().filter(|ms| *ms > 0)?;
    (!pattern.is_empty()).then(|| StreamRule { pattern: pattern.to_owned(), age_ms })
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
