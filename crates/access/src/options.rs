//! How the server is set up. Filled in from the configuration by the binary; the defaults here are
//! the configuration's defaults.

mod groups;
mod jwt;
mod live;
mod queries;
mod rates;

use std::collections::BTreeMap;
use std::time::Duration;

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
#[derive(Debug, Clone)]
pub struct AuthOptions {
    /// How long a key or token that was found good is believed without looking again.
    pub key_cache: Duration,
    /// How long a ticket can be used.
    pub ticket_ttl: Duration,
    /// The cookie that may hold a credential.
    pub cookie: String,
    /// Which pages' requests the cookie goes with.
    pub cookie_same_site: SameSite,
    /// End users' tokens, where they are taken.
    pub jwt: Option<JwtOptions>,
    /// Scopes of tokens that have none of their own, as JSON.
    pub jwt_scopes: Option<String>,
    /// How often to look for what other nodes and operators say when nothing says that they did.
    pub control_poll: Duration,
}

impl Default for AuthOptions {
    fn default() -> AuthOptions {
        AuthOptions {
            key_cache: Duration::from_secs(300),
            ticket_ttl: Duration::from_secs(60),
            cookie: "tidewire".to_owned(),
            cookie_same_site: SameSite::Strict,
            jwt: None,
            jwt_scopes: None,
            control_poll: Duration::from_millis(500),
        }
    }
}

/// Which pages' requests a cookie goes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SameSite {
    /// Those of the same site only.
    Strict,
    /// Links from elsewhere too.
    Lax,
    /// All, where the page's origin is allowed.
    None,
}

/// How often callers may ask. Not applied where the server is open.
#[derive(Debug, Clone, Copy)]
pub struct RateOptions {
    /// Requests of one identity.
    pub identity: Rate,
    /// Requests from one address.
    pub address: Rate,
    /// Credentials from one address that turn out to be no good.
    pub failures: Rate,
}

impl Default for RateOptions {
    fn default() -> RateOptions {
        RateOptions {
            identity: Rate { per_second: 20_000, burst: 40_000 },
            address: Rate { per_second: 20_000, burst: 40_000 },
            failures: Rate { per_second: 5, burst: 50 },
        }
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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
#[derive(Debug, Clone)]
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
    pub tls_handshake_timeout: Duration,
    /// How long a client may take to send a request's headers.
    pub header_timeout: Duration,
    /// How long a client may take to send a request's body.
    pub body_timeout: Duration,
    /// How long a connection may rest between two requests, and a client take nothing of an answer.
    pub idle_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            body_bytes_max: 16 << 20,
            inflight_bytes_max: 256 << 20,
            stream_name_bytes_max: 1024,
            header_bytes_max: 16 << 10,
            query_bytes_max: 4 << 10,
            messages_per_append_max: 10_000,
            live_readers_max: 50_000,
            connections_max: 20_000,
            connections_per_address_max: 5_000,
            tls_handshake_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(120),
        }
    }
}

/// How streams are read.
#[derive(Debug, Clone)]
pub struct StreamOptions {
    /// How long a long-poll waits.
    pub long_poll: Duration,
    /// How long an SSE response lasts before the client is made to come back.
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
        StreamOptions {
            long_poll: Duration::from_secs(20),
            sse_duration: Duration::from_secs(60),
            read_bytes_max: 4 << 20,
            read_events_max: 10_000,
            page_cache_bytes_max: 64 << 20,
        }
    }
}

/// How the log is followed and kept.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// How often to look at the log when nothing says that it has grown.
    pub fallback_poll: Duration,
    /// How often expired and deleted streams are swept.
    pub sweep_interval: Duration,
    /// How long a reader waits for a `min_offset` or `min_txid`.
    pub min_offset_wait: Duration,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions {
            fallback_poll: Duration::from_secs(1),
            sweep_interval: Duration::from_secs(5),
            min_offset_wait: Duration::from_secs(10),
        }
    }
}

/// What bounds users' own SQL.
#[derive(Debug, Clone)]
pub struct SqlOptions {
    /// For so long a request's statements may run.
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
        let timeout = Duration::from_secs(5);
        SqlOptions { timeout, rows_max: 10_000, bytes_max: 16 << 20, log_statements: false }
    }
}

/// How this node is known to the others.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// The beginning of its name; what follows makes it unique.
    pub name: String,
    /// How long the others count on it after its last renewal.
    pub lease: Duration,
}

impl Default for NodeOptions {
    fn default() -> NodeOptions {
        NodeOptions { name: "node".to_owned(), lease: Duration::from_secs(15) }
    }
}

/// How webhooks are sent.
#[derive(Debug, Clone)]
pub struct WebhookOptions {
    /// Development only: allow targets on this machine, over plain http.
    pub allow_loopback: bool,
    /// How long a receiver may take to answer.
    pub timeout: Duration,
    /// Deliveries under way at once.
    pub concurrent_max: usize,
}

impl Default for WebhookOptions {
    fn default() -> WebhookOptions {
        WebhookOptions {
            allow_loopback: false,
            timeout: Duration::from_secs(10),
            concurrent_max: 16,
        }
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
            retention: default_retention(),
            webhooks: WebhookOptions::default(),
            live: LiveOptions::default(),
            sessions: SessionOptions::default(),
            node: NodeOptions::default(),
        }
    }
}

/// Captured rows are kept for 30 days, and for 90 where someone has not read them.
fn default_retention() -> RetentionRules {
    const DAY_MS: u64 = 86_400_000;
    RetentionRules {
        age_ms: Some(30 * DAY_MS),
        hard_age_ms: Some(90 * DAY_MS),
        ..RetentionRules::default()
    }
}
