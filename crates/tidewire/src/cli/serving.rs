//! The flags of a server and its store: `dev`, `serve`, `config`, `migrate`, `backup`, `restore`.

use std::path::PathBuf;

use clap::Args;
use tidewire_store::Epoch;
use tidewire_store_postgres::CompatSchemas;

use crate::config::RawSettings;

/// Which store.
#[derive(Debug, Args)]
pub(crate) struct StoreFlags {
    /// The folder of the embedded SQLite store; not used with a database [default: ./tidewire-data]
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// A PostgreSQL database to use instead: postgres://user:password@host:5432/name
    ///
    /// Other users of the machine can see it; TIDEWIRE_DATABASE sets it without showing it.
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// The configuration file [default: $TIDEWIRE_CONFIG, else ./tidewire.toml if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl StoreFlags {
    /// As settings for the configuration.
    pub(crate) fn given(self) -> RawSettings {
        let data = self.data.map(|data| ("--data", "data", data));
        let database = self.database.map(|database| ("--database", "database", database));
        RawSettings { file: self.config, flags: data.into_iter().chain(database).collect() }
    }
}

/// How to serve.
#[derive(Debug, Args)]
pub(crate) struct ServerFlags {
    /// Where to listen [default: 127.0.0.1:4437]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// The names other tools use, so that an error can name ours.
    #[arg(long, short, hide = true, value_parser = not_port)]
    port: Option<String>,
    #[arg(long, hide = true, alias = "bind", alias = "address", value_parser = not_host)]
    host: Option<String>,
    #[command(flatten)]
    store: StoreFlags,
}

impl ServerFlags {
    /// As settings for the configuration.
    pub(crate) fn given(self) -> RawSettings {
        let mut given = self.store.given();
        given.flags.extend(self.listen.map(|listen| ("--listen", "listen", listen)));
        given
    }
}

fn not_port(port: &str) -> Result<String, String> {
    let port = port.trim_start_matches(':');
    Err(format!("the address and the port go together: --listen 127.0.0.1:{port}"))
}

fn not_host(host: &str) -> Result<String, String> {
    let port = if host.contains(':') { "" } else { ":4437" };
    Err(format!("the address and the port go together: --listen {host}{port}"))
}

/// What to print.
#[derive(Debug, Args)]
pub(crate) struct ConfigFlags {
    /// Print the default configuration instead: every key there is, explained
    #[arg(long)]
    pub(crate) default: bool,
    #[command(flatten)]
    pub(crate) server: ServerFlags,
}

/// What to bring up to date.
#[derive(Debug, Args)]
pub(crate) struct MigrateFlags {
    /// Also create or update the names that other systems' SQL uses, as views and functions
    ///
    /// rxdb_subscription, logging and the functions on them; outbox, outbox_message_t, api_keys,
    /// log_counter and consumer_offsets. In PostgreSQL only. Nothing is changed if anything else has one
    /// of the names.
    #[arg(long)]
    pub(crate) compat: bool,
    /// The schema for the names of subscriptions to entities; created if it is missing
    #[arg(long, value_name = "SCHEMA", default_value = "app", requires = "compat")]
    pub(crate) compat_schema: String,
    /// The schema for the other names; created if it is missing
    #[arg(long, value_name = "SCHEMA", default_value = "public", requires = "compat")]
    pub(crate) compat_public: String,
    #[command(flatten)]
    pub(crate) store: StoreFlags,
}

impl MigrateFlags {
    /// The schemas for other systems' names, if those are asked for.
    pub(crate) fn compat(&self) -> Option<CompatSchemas> {
        let (app, public) = (self.compat_schema.clone(), self.compat_public.clone());
        self.compat.then_some(CompatSchemas { app, public })
    }
}

/// Where a backup goes.
#[derive(Debug, Args)]
pub(crate) struct BackupFlags {
    /// The file to write; it must not exist
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) store: StoreFlags,
}

/// What to restore.
#[derive(Debug, Args)]
pub(crate) struct RestoreFlags {
    /// A file that `tidewire backup` has written; not with --database
    pub(crate) file: Option<PathBuf>,
    /// Move an existing store aside instead of refusing
    #[arg(long)]
    pub(crate) replace: bool,
    /// The log's new epoch, higher than all earlier ones [default: the next]
    ///
    /// Needed when the same backup is restored a second time and the first restored store was in use.
    #[arg(long, value_name = "NUMBER", value_parser = epoch)]
    pub(crate) epoch: Option<Epoch>,
    #[command(flatten)]
    pub(crate) store: StoreFlags,
}

fn epoch(text: &str) -> Result<Epoch, String> {
    text.parse().ok().and_then(Epoch::new).ok_or("give a number from 1 to 9999".to_owned())
}
