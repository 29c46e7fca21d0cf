//! The configuration as typed values, and what they mean to the store and the server.
//!
//! The field names are the file's keys. A table is the options of the crate that uses them: what is
//! filled in here is what those cannot have from their own table.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use tidewire_capture::{CaptureOptions, Source, Wake, WalLimits};
use tidewire_deliver as deliver;
use tidewire_options::ms;
use tidewire_store::{CommitOptions, RetentionRules};
use tidewire_store_postgres::PostgresOptions;
use tidewire_store_sqlite::SqliteOptions;

/// All of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    pub(crate) listen: String,
    pub(crate) data: PathBuf,
    pub(crate) database: String,
    #[serde(deserialize_with = "ms")]
    pub(crate) database_wait_ms: Duration,
    pub(crate) capture: Source,
    pub(crate) wake: Wake,
    pub(crate) public_url: String,
    pub(crate) allowed_origins: Vec<String>,
    #[serde(deserialize_with = "networks")]
    pub(crate) trusted_proxies: Vec<deliver::Network>,
    pub(crate) tls: deliver::TlsOptions,
    streams: deliver::StreamOptions,
    log: deliver::LogOptions,
    sql: deliver::SqlOptions,
    queries: deliver::QueryOptions,
    groups: deliver::GroupOptions,
    retention: RetentionRules,
    /// Row rules, by table.
    #[serde(default)]
    pub(crate) tables: BTreeMap<String, deliver::TableRule>,
    commit: CommitOptions,
    sqlite: SqliteOptions,
    postgres: PostgresOptions,
    webhooks: deliver::WebhookOptions,
    live: deliver::LiveOptions,
    sessions: deliver::SessionOptions,
    node: deliver::NodeOptions,
    auth: deliver::AuthOptions,
    jwt: deliver::JwtOptions,
    rates: deliver::RateOptions,
    limits: deliver::Limits,
    sequencer: CaptureOptions,
    wal: WalLimits,
    pub(crate) shutdown: Shutdown,
    pub(crate) telemetry: Telemetry,
}

/// How the process ends.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shutdown {
    #[serde(deserialize_with = "ms")]
    pub(crate) grace_ms: Duration,
}

/// What the process says about itself.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Telemetry {
    pub(crate) level: String,
    pub(crate) format: String,
}

fn networks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<deliver::Network>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
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
        let commit = self.commit.clone();
        if self.database.is_empty() {
            let folder = self.data.clone();
            StoreOptions::Sqlite(SqliteOptions { folder, commit, ..self.sqlite.clone() })
        } else {
            StoreOptions::Postgres(PostgresOptions {
                url: self.database.clone(),
                commit,
                query_role: self.queries.role.clone(),
                ..self.postgres.clone()
            })
        }
    }

    /// How a node takes part in capture, where the store is PostgreSQL.
    pub(crate) fn capture(&self, node: &str) -> CaptureOptions {
        CaptureOptions {
            source: self.capture,
            wake: self.wake,
            node: node.to_owned(),
            wal: self.wal,
            ..self.sequencer.clone()
        }
    }

    /// What can change while the server runs.
    pub(crate) fn tunable(&self) -> deliver::Tunable {
        deliver::Tunable {
            allowed_origins: self.allowed_origins.clone(),
            rates: self.rates,
            tables: self.tables.clone(),
        }
    }

    /// How the server is to serve. The secret is that of HS256 tokens.
    pub(crate) fn deliver(
        &self,
        access: deliver::Access,
        jwt_secret: Option<String>,
    ) -> deliver::Options {
        let jwt = deliver::JwtOptions { secret: jwt_secret, ..self.jwt.clone() };
        // That there is a key where there is a certificate is checked by those who serve.
        let is_encrypted = !self.tls.certificate.as_os_str().is_empty();
        deliver::Options {
            access,
            public_url: Some(self.public_url.clone()).filter(|url| !url.is_empty()),
            tunable: self.tunable(),
            reload: None,
            auth: deliver::AuthOptions { jwt, ..self.auth.clone() },
            trusted_proxies: self.trusted_proxies.clone(),
            tls: is_encrypted.then(|| self.tls.clone()),
            limits: self.limits.clone(),
            streams: self.streams.clone(),
            log: self.log.clone(),
            sql: self.sql.clone(),
            queries: self.queries.clone(),
            groups: self.groups.clone(),
            retention: self.retention.clone(),
            tables: self.tables.clone(),
            webhooks: self.webhooks.clone(),
            live: self.live.clone(),
            sessions: self.sessions.clone(),
            node: self.node.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::file;

    fn parsed(text: &str) -> Settings {
        toml::from_str(text).unwrap_or_else(|error| panic!("{error}"))
    }

    // A table that no struct reads, a key that no field is, or a field without a key does not parse.
    #[test]
    fn the_default_file_has_every_key_that_is_read_and_no_other() {
        let settings = parsed(file::DEFAULT);
        assert!(settings.tables.is_empty(), "rules are everyone's own");
    }

    #[test]
    fn what_stands_in_other_tables_is_filled_in() {
        let changed = [
            ("database = \"\"", "database = \"postgres://h/d\""),
            ("capture = \"auto\"", "capture = \"wal\""),
            ("wake = \"auto\"", "wake = \"always\""),
            ("role = \"tidewire_live\"", "role = \"reader\""),
            ("commands_max = 1000\n", "commands_max = 7\n"),
            ("warn_bytes = 1073741824", "warn_bytes = 5000000"),
        ];
        let mut text = file::DEFAULT.to_owned();
        for (from, to) in changed {
            assert_eq!(text.matches(from).count(), 1, "{from}");
            text = text.replace(from, to);
        }
        let settings = parsed(&text);
        let StoreOptions::Postgres(store) = settings.store() else { panic!("a database is set") };
        assert_eq!(store.url, "postgres://h/d");
        assert_eq!(store.query_role, "reader");
        assert_eq!(store.commit.commands_max, 7);
        let capture = settings.capture("a");
        assert_eq!((capture.source, capture.wake), (Source::Wal, Wake::Always));
        assert_eq!((capture.node.as_str(), capture.wal.warn_bytes), ("a", 5_000_000));
        let secret = Some("secret".to_owned());
        let options = settings.deliver(deliver::Access::OpenOnLoopback, secret);
        assert!(options.auth.jwt.takes_tokens() && options.tls.is_none());
    }
}
