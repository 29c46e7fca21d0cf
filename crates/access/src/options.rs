//! How the server is set up. Each struct is a table of the configuration, from which the binary reads
//! it; the defaults are those of `default.toml`.

mod groups;
mod jwt;
mod live;
mod queries;
mod rates;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use tidewire_options::{default_of, ms};
use tidewire_store::RetentionRules;
use tidewire_wire::peer::Network;

pub use groups::GroupOptions;
pub use jwt::{JwksSource, JwtOptions};
pub use live::{LiveOptions, SessionOptions};
pub use queries::QueryOptions;
pub use rates::Rate;

pub use tidewire_wire::tls::TlsOptions;

/// Who may use the server.
#[derive(Clone)]
pub enum Access {
    /// Anyone who can reach it, which is only processes of this machine: requests must name a
    /// loopback host, and a browser's must come from a page of a loopback host.
    OpenOnLoopback,
    /// Whoever presents a credential.
    Guarded {
        /// A key that may do everything, for as long as there is no other.
        admin_key: Option<String>,
    },
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Access::OpenOnLoopback => "OpenOnLoopback",
            Access::Guarded { admin_key: Some(_) } => "Guarded(with an admin key)",
            Access::Guarded { admin_key: None } => "Guarded",
        })
    }
}

/// How credentials are checked.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthOptions {
    /// How long a key or token that was found good is believed without looking again.
    #[serde(rename = "key_cache_ms", deserialize_with = "ms")]
    pub key_cache: Duration,
    /// How long a ticket can be used.
    #[serde(rename = "ticket_ttl_ms", deserialize_with = "ms")]
    pub ticket_ttl: Duration,
    /// The cookie that may hold a credential.
    pub cookie: String,
    /// Which pages' requests the cookie goes with.
    pub cookie_same_site: SameSite,
    /// Which tokens of end users are taken. A table of its own, with a secret.
    #[serde(skip)]
    pub jwt: JwtOptions,
    /// How often to look for what other nodes and operators say when nothing says that they did.
    #[serde(rename = "control_poll_ms", deserialize_with = "ms")]
    pub control_poll: Duration,
}

impl Default for AuthOptions {
    fn default() -> AuthOptions {
        default_of("auth")
    }
}

/// Which pages' requests a cookie goes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SameSite {
    /// Those of the same site only.
    Strict,
    /// Links from elsewhere too.
    Lax,
    /// All, where the page's origin is allowed.
    None,
}

/// How often callers may ask. Not applied where the server is open.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateOptions {
    /// Requests of one identity, in the long run. 0 is no limit, here and below.
    pub identity_per_second: u32,
    /// And at once, after a pause.
    pub identity_burst: u32,
    /// Requests from one address.
    pub address_per_second: u32,
    /// And at once, after a pause.
    pub address_burst: u32,
    /// Credentials from one address that turn out to be no good.
    pub failures_per_second: u32,
    /// And at once, after a pause.
    pub failures_burst: u32,
}

impl RateOptions {
    /// How often one identity may ask.
    pub fn identity(&self) -> Rate {
        Rate { per_second: self.identity_per_second, burst: self.identity_burst }
    }

    /// How often may be asked from one address.
    pub fn address(&self) -> Rate {
        Rate { per_second: self.address_per_second, burst: self.address_burst }
    }

    /// How often one address may fail to say who it is.
    pub fn failures(&self) -> Rate {
        Rate { per_second: self.failures_per_second, burst: self.failures_burst }
    }
}

impl Default for RateOptions {
    fn default() -> RateOptions {
        default_of("rates")
    }
}

/// What can change while the server runs.
#[derive(Debug, Clone, Default)]
pub struct Tunable {
    /// Pages of these origins may use the server from a browser, besides its own.
    pub allowed_origins: Vec<String>,
    /// How often callers may ask.
    pub rates: RateOptions,
    /// The rules for tables as they are written by then. Those of the start stay in force; these are
    /// looked at, and what is wrong with them is said.
    pub tables: BTreeMap<String, TableRule>,
}

/// What must hold of the rows of a table that are read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableRule {
    /// A predicate.
    pub read: String,
    /// Where it is written, for people.
    pub place: String,
}

/// Reads the configuration again. The error says what is wrong with it.
#[derive(Clone)]
pub struct Reload(pub std::sync::Arc<dyn Fn() -> Result<Tunable, String> + Send + Sync>);

impl std::fmt::Debug for Reload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reload")
    }
}

/// Sizes and counts that a client can reach. Each has its own error code.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Bytes of a request's body.
    pub body_bytes_max: usize,
    /// Bytes of requests and answers under way, of all clients together.
    pub inflight_bytes_max: usize,
    /// Bytes of a stream's name.
    pub stream_name_bytes_max: usize,
    /// Bytes of all of a request's headers.
    pub header_bytes_max: usize,
    /// Bytes of a request's query string.
    pub query_bytes_max: usize,
    /// JSON messages in one append.
    pub messages_per_append_max: usize,
    /// Readers that wait by long-poll or SSE.
    pub live_readers_max: usize,
    /// Open connections.
    pub connections_max: usize,
    /// Open connections from one address, 0 for no cap. Trusted proxies have none.
    pub connections_per_address_max: usize,
    /// How long a client may take to agree on keys.
    #[serde(rename = "tls_handshake_timeout_ms", deserialize_with = "ms")]
    pub tls_handshake_timeout: Duration,
    /// How long a client may take to send a request's headers.
    #[serde(rename = "header_timeout_ms", deserialize_with = "ms")]
    pub header_timeout: Duration,
    /// How long a client may take to send a request's body.
    #[serde(rename = "body_timeout_ms", deserialize_with = "ms")]
    pub body_timeout: Duration,
    /// How long a connection may rest between two requests, and a client take nothing of an answer.
    #[serde(rename = "idle_timeout_ms", deserialize_with = "ms")]
    pub idle_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        default_of("limits")
    }
}

/// How streams are read.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamOptions {
    /// How long a long-poll waits.
    #[serde(rename = "long_poll_ms", deserialize_with = "ms")]
    pub long_poll: Duration,
    /// How long an SSE response lasts before the client is made to come back.
    #[serde(rename = "sse_ms", deserialize_with = "ms")]
    pub sse_duration: Duration,
    /// Bytes of payload after which a read answers and lets the client ask on.
    pub read_bytes_max: usize,
    /// Events after which a read answers and lets the client ask on.
    pub read_events_max: usize,
    /// Bytes of pages that are kept in memory for readers that catch up on the same stream.
    pub page_cache_bytes_max: usize,
}

impl Default for StreamOptions {
    fn default() -> StreamOptions {
        default_of("streams")
    }
}

/// How the log is followed and kept.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogOptions {
    /// How often to look at the log when nothing says that it has grown.
    #[serde(rename = "fallback_poll_ms", deserialize_with = "ms")]
    pub fallback_poll: Duration,
    /// How often expired and deleted streams are swept.
    #[serde(rename = "sweep_interval_ms", deserialize_with = "ms")]
    pub sweep_interval: Duration,
    /// How long a reader waits for a `min_offset` or `min_txid`.
    #[serde(rename = "min_offset_wait_ms", deserialize_with = "ms")]
    pub min_offset_wait: Duration,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        default_of("log")
    }
}

/// What bounds users' own SQL.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SqlOptions {
    /// For so long a request's statements may run.
    #[serde(rename = "timeout_ms", deserialize_with = "ms")]
    pub timeout: Duration,
    /// So many rows may come back; more are an error.
    pub rows_max: usize,
    /// So many bytes of rows, likewise.
    pub bytes_max: usize,
    /// Whether texts and parameters are written into the log. They may hold anything.
    pub log_statements: bool,
}

impl Default for SqlOptions {
    fn default() -> SqlOptions {
        default_of("sql")
    }
}

/// How this node is known to the others.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeOptions {
    /// The beginning of its name; what follows makes it unique.
    pub name: String,
    /// How long the others count on it after its last renewal.
    #[serde(rename = "lease_ms", deserialize_with = "ms")]
    pub lease: Duration,
}

impl Default for NodeOptions {
    fn default() -> NodeOptions {
        default_of("node")
    }
}

/// How webhooks are sent.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookOptions {
    /// Development only: allow targets on this machine, over plain http.
    pub allow_loopback: bool,
    /// How long a receiver may take to answer.
    #[serde(rename = "timeout_ms", deserialize_with = "ms")]
    pub timeout: Duration,
    /// Deliveries under way at once.
    pub concurrent_max: usize,
}

impl Default for WebhookOptions {
    fn default() -> WebhookOptions {
        default_of("webhooks")
    }
}

/// All of it.
#[derive(Debug, Clone)]
pub struct Options {
    /// Who may use the server.
    pub access: Access,
    /// The address that clients and webhook receivers reach this server at, such as
    /// `https://live.example.org`. Where none is given, the address it listens on.
    pub public_url: Option<String>,
    /// What can change while it runs.
    pub tunable: Tunable,
    /// Where that comes from, if it can be read again.
    pub reload: Option<Reload>,
    /// How credentials are checked.
    pub auth: AuthOptions,
    /// Proxies that are believed when they say in `X-Forwarded-For` for whom they speak.
    pub trusted_proxies: Vec<Network>,
    /// How connections are encrypted, if they are.
    pub tls: Option<TlsOptions>,
    /// What clients can reach.
    pub limits: Limits,
    /// How streams are read.
    pub streams: StreamOptions,
    /// How the log is followed and kept.
    pub log: LogOptions,
    /// What bounds users' own SQL.
    pub sql: SqlOptions,
    /// What bounds live SQL queries.
    pub queries: QueryOptions,
    /// What bounds consumer groups.
    pub groups: GroupOptions,
    /// What is kept of the log, and for how long.
    pub retention: RetentionRules,
    /// What must hold of the rows that are read of a table, by its name as one writes it in SQL.
    pub tables: BTreeMap<String, TableRule>,
    /// How webhooks are sent.
    pub webhooks: WebhookOptions,
    /// How live connections are served.
    pub live: LiveOptions,
    /// How long sessions are kept.
    pub sessions: SessionOptions,
    /// How this node is known to the others.
    pub node: NodeOptions,
}

impl Options {
    /// How addresses of this server begin.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// The usual settings, for this kind of access.
    pub fn new(access: Access) -> Options {
        Options {
            access,
            public_url: None,
            tunable: Tunable::default(),
            reload: None,
            auth: AuthOptions::default(),
            trusted_proxies: Vec::new(),
            tls: None,
            limits: Limits::default(),
            streams: StreamOptions::default(),
            tables: BTreeMap::new(),
            log: LogOptions::default(),
            sql: SqlOptions::default(),
            queries: QueryOptions::default(),
            groups: GroupOptions::default(),
            retention: default_of("retention"),
            webhooks: WebhookOptions::default(),
            live: LiveOptions::default(),
            sessions: SessionOptions::default(),
            node: NodeOptions::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_table_of_the_default_file_is_what_is_declared_here() {
        let options = Options::new(Access::OpenOnLoopback);
        assert_eq!(options.streams.sse_duration, Duration::from_secs(60));
        assert_eq!(options.groups.lease_max, Duration::from_secs(600));
        assert_eq!(options.auth.cookie_same_site, SameSite::Strict);
        assert_eq!(options.retention.bytes_max, None);
        assert_eq!(options.tunable.rates.failures(), Rate { per_second: 5, burst: 50 });
        assert!(!options.auth.jwt.takes_tokens());
    }
}
