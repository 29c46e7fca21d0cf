//! The configuration's tables, each a struct whose fields are the table's keys.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use tidewire_deliver as deliver;
use tidewire_store::{RetentionRules, StreamRule};
use tidewire_store_postgres::Failover;

use super::reading::{failover, ms, stream_rules};

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
    pub(super) long_poll_ms: Duration,
    #[serde(deserialize_with = "ms")]
    pub(super) sse_ms: Duration,
    pub(super) read_bytes_max: usize,
    pub(super) read_events_max: usize,
    pub(super) page_cache_bytes_max: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Log {
    #[serde(deserialize_with = "ms")]
    pub(super) fallback_poll_ms: Duration,
    #[serde(deserialize_with = "ms")]
    pub(super) sweep_interval_ms: Duration,
    #[serde(deserialize_with = "ms")]
    pub(super) min_offset_wait_ms: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sql {
    #[serde(deserialize_with = "ms")]
    pub(super) timeout_ms: Duration,
    pub(super) rows_max: usize,
    pub(super) bytes_max: usize,
    pub(super) log_statements: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Retention {
    pub(super) age_ms: u64,
    pub(super) bytes_max: u64,
    pub(super) hard_age_ms: u64,
    pub(super) hard_bytes_max: u64,
    pub(super) archive: bool,
    #[serde(deserialize_with = "stream_rules")]
    pub(super) streams: Vec<StreamRule>,
}

/// What must hold of the rows of a table that are read.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TableRule {
    pub(crate) read: String,
    /// Where that is written: it is no key of the file.
    pub(crate) place: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Commit {
    pub(super) commands_max: usize,
    pub(super) bytes_max: usize,
    pub(super) queue_max: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sqlite {
    pub(super) read_connections: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Postgres {
    pub(super) read_connections: usize,
    pub(super) sql_connections: usize,
    pub(super) query_connections: usize,
    #[serde(deserialize_with = "ms")]
    pub(super) connect_timeout_ms: Duration,
    #[serde(deserialize_with = "failover")]
    pub(super) failover: Failover,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Webhooks {
    pub(super) allow_loopback: bool,
    #[serde(deserialize_with = "ms")]
    pub(super) timeout_ms: Duration,
    pub(super) concurrent_max: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Live {
    pub(super) shards: usize,
    #[serde(deserialize_with = "ms")]
    pub(super) ping_ms: Duration,
    #[serde(deserialize_with = "ms")]
    pub(super) silence_ms: Duration,
    pub(super) queue_events_max: usize,
    pub(super) queue_bytes_max: usize,
    #[serde(deserialize_with = "ms")]
    pub(super) queue_age_ms: Duration,
    pub(super) notify_bytes: usize,
    pub(super) fan_out_threshold: usize,
    pub(super) connections_per_identity_max: usize,
    pub(super) subscriptions_max: usize,
    pub(super) entities_max: usize,
    pub(super) single_connection_per_user: bool,
    pub(super) message_bytes_max: usize,
    #[serde(deserialize_with = "ms")]
    pub(super) reconnect_spread_ms: Duration,
    pub(super) memory_bytes_max: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sessions {
    #[serde(deserialize_with = "ms")]
    pub(super) ttl_ms: Duration,
    #[serde(deserialize_with = "ms")]
    pub(super) stale_ms: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Node {
    pub(super) name: String,
    #[serde(deserialize_with = "ms")]
    pub(super) lease_ms: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Auth {
    #[serde(deserialize_with = "ms")]
    pub(super) key_cache_ms: Duration,
    #[serde(deserialize_with = "ms")]
    pub(super) ticket_ttl_ms: Duration,
    pub(super) cookie: String,
    pub(super) cookie_same_site: String,
    #[serde(deserialize_with = "ms")]
    pub(super) control_poll_ms: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Jwt {
    pub(super) jwks: String,
    #[serde(deserialize_with = "ms")]
    pub(super) jwks_refresh_ms: Duration,
    pub(super) issuer: String,
    pub(super) audience: Vec<String>,
    #[serde(deserialize_with = "ms")]
    pub(super) skew_ms: Duration,
    pub(super) host_claim: String,
    pub(super) scopes_claim: String,
    pub(super) scopes: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rates {
    pub(super) identity_per_second: u32,
    pub(super) identity_burst: u32,
    pub(super) address_per_second: u32,
    pub(super) address_burst: u32,
    pub(super) failures_per_second: u32,
    pub(super) failures_burst: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Limits {
    pub(super) body_bytes_max: usize,
    pub(super) inflight_bytes_max: usize,
    pub(super) stream_name_bytes_max: usize,
    pub(super) header_bytes_max: usize,
    pub(super) query_bytes_max: usize,
    pub(super) messages_per_append_max: usize,
    pub(super) live_readers_max: usize,
    pub(super) connections_max: usize,
    pub(super) connections_per_address_max: usize,
    #[serde(deserialize_with = "ms")]
    pub(super) tls_handshake_timeout_ms: Duration,
    #[serde(deserialize_with = "ms")]
    pub(super) header_timeout_ms: Duration,
    #[serde(deserialize_with = "ms")]
    pub(super) body_timeout_ms: Duration,
    #[serde(deserialize_with = "ms")]
    pub(super) idle_timeout_ms: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sequencer {
    pub(super) batch_rows_max: usize,
    pub(super) batch_bytes_max: usize,
    #[serde(deserialize_with = "ms")]
    pub(super) poll_ms: Duration,
    #[serde(deserialize_with = "ms")]
    pub(super) sleep_after_ms: Duration,
    #[serde(deserialize_with = "ms")]
    pub(super) idle_poll_ms: Duration,
    #[serde(deserialize_with = "ms")]
    pub(super) election_poll_ms: Duration,
    #[serde(deserialize_with = "ms")]
    pub(super) check_ms: Duration,
    pub(super) attempts_max: u32,
    #[serde(deserialize_with = "ms")]
    pub(super) retry_ms: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wal {
    pub(super) warn_bytes: u64,
    pub(super) keep_bytes_max: u64,
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

impl Retention {
    /// Zero is no limit.
    pub(super) fn rules(&self) -> RetentionRules {
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
    pub(super) fn options(&self) -> Option<deliver::TlsOptions> {
        let Tls { certificate, key } = self;
        let named = !certificate.as_os_str().is_empty();
        named.then(|| deliver::TlsOptions { certificate: certificate.clone(), key: key.clone() })
    }
}

impl Jwt {
    /// How tokens are verified, where there is something to verify them with.
    pub(super) fn options(&self, secret: Option<String>) -> Option<deliver::JwtOptions> {
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
    pub(super) fn options(&self) -> deliver::RateOptions {
        let rate = |per_second, burst| deliver::Rate { per_second, burst };
        deliver::RateOptions {
            identity: rate(self.identity_per_second, self.identity_burst),
            address: rate(self.address_per_second, self.address_burst),
            failures: rate(self.failures_per_second, self.failures_burst),
        }
    }
}

impl Live {
    pub(super) fn options(&self) -> deliver::LiveOptions {
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

/// A text that is not empty.
pub(super) fn given(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}
