//! The servers under test. All but NATS and the bare loop speak the Durable Streams protocol at
//! `/v1/stream/{path}`; each is started afresh for every measurement, on an empty folder or database.
//!
//! - `commands`: how each server is found, asked for its version, and started
//! - `kind`: which servers there are, and what each does with a message
//! - `process`: a server under test as a child process

mod commands;
mod kind;
mod process;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Result;
use tempfile::TempDir;

use crate::load::client::Client;
use crate::postgres::Database;
use process::Process;

pub(crate) use commands::{Presence, presence};
pub(crate) use kind::Kind;

/// Where the servers are, as found by `bench/run`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Installed {
    /// The tidewire binary
    #[arg(long, value_name = "PATH")]
    tidewire: Option<PathBuf>,
    /// One that was built without looking ahead, for --part prefetch
    #[arg(long, value_name = "PATH")]
    without_prefetch: Option<PathBuf>,
    /// URL of a PostgreSQL server in which databases may be created
    #[arg(long, value_name = "URL")]
    pub(crate) postgres: Option<String>,
    /// The folder of the Node peer, with its node_modules
    #[arg(long, value_name = "FOLDER")]
    pub(crate) node_peer: Option<PathBuf>,
    /// The durable-streams-server binary
    #[arg(long, value_name = "PATH")]
    rust_peer: Option<PathBuf>,
    /// The nats-server binary
    #[arg(long, value_name = "PATH")]
    nats_server: Option<PathBuf>,
}

impl Installed {
    /// The same, but with the tidewire that does not prefetch, if there is one.
    pub(crate) fn without_prefetch(&self) -> Option<Installed> {
        let tidewire = Some(self.without_prefetch.clone()?);
        Some(Installed { tidewire, ..self.clone() })
    }
}

/// Where a server is reached: NATS at three ports, all others at one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Addresses {
    pub(crate) http: SocketAddr,
    pub(crate) websocket: SocketAddr,
    pub(crate) publish: SocketAddr,
}

impl Addresses {
    fn free(kind: Kind) -> Result<Self> {
        let [http, websocket, publish] = process::free_addresses()?;
        Ok(match kind {
            Kind::Nats => Self { http, websocket, publish },
            _ => Self { http, websocket: http, publish: http },
        })
    }
}

/// Whose CPU a measurement uses, besides the load generator's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Processes {
    pub(crate) server: Option<u32>,
    /// The first process of the PostgreSQL cluster, if there is one and it runs on this machine.
    pub(crate) postmaster: Option<u32>,
}

/// What a server keeps its data in: removed when dropped.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) database: Option<Database>,
    folder: TempDir,
}

impl Store {
    pub(crate) fn empty(kind: Kind, installed: &Installed) -> Result<Self> {
        let database = match (kind, &installed.postgres) {
            (Kind::TidewirePostgres, Some(url)) => Some(Database::create(url)?),
            _ => None,
        };
        Ok(Self { database, folder: tempfile::tempdir()? })
    }

    pub(crate) fn processes(&self) -> Processes {
        let postmaster = self.database.as_ref().and_then(|database| database.postmaster);
        Processes { server: None, postmaster }
    }

    /// The folder given to the server as its data folder.
    pub(crate) fn data(&self) -> PathBuf {
        data_of(self.folder.path())
    }
}

fn data_of(folder: &Path) -> PathBuf {
    folder.join("data")
}

/// A running server and what it works on.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) kind: Kind,
    // Fields are dropped in this order: the process ends before what it writes to is removed.
    process: Process,
    store: Store,
    addresses: Addresses,
}

impl Server {
    /// Starts `kind` on an empty store.
    pub(crate) fn start(kind: Kind, installed: &Installed) -> Result<Self> {
        Self::start_on(kind, installed, Store::empty(kind, installed)?)
    }

    /// Starts `kind` on a store that an earlier run has left.
    pub(crate) fn start_on(kind: Kind, installed: &Installed, store: Store) -> Result<Self> {
        Self::start_with(kind, installed, store, &[])
    }

    /// The same, with these variables in its environment.
    pub(crate) fn start_with(
        kind: Kind,
        installed: &Installed,
        store: Store,
        variables: &[(&str, &str)],
    ) -> Result<Self> {
        let url = store.database.as_ref().map(|database| database.url.as_str());
        let addresses = Addresses::free(kind)?;
        let mut command = commands::command(kind, installed, addresses, &store.data(), url)?;
        command.envs(variables.iter().copied());
        let ready_path = commands::ready_path(kind);
        let folder = store.folder.path();
        let process = Process::start(&mut command, addresses.http, ready_path, folder)?;
        Ok(Self { kind, process, store, addresses })
    }

    /// Ends the process and hands over what it worked on.
    pub(crate) fn stop(self) -> Store {
        drop(self.process);
        self.store
    }

    pub(crate) fn create_streams(&self, streams: &[String], content_type: &str) -> Result<()> {
        let mut client = Client::connect(self.address())?;
        streams.iter().try_for_each(|stream| client.create_stream(stream, content_type))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.addresses.http
    }

    pub(crate) fn addresses(&self) -> Addresses {
        self.addresses
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(crate) fn database(&self) -> Option<&Database> {
        self.store.database.as_ref()
    }

    pub(crate) fn processes(&self) -> Processes {
        Processes { server: Some(self.pid()), ..self.store.processes() }
    }
}
