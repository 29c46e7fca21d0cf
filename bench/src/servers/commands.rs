//! How each server is found, asked for its version, and started.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::{Addresses, Installed, Kind};

/// The Rust peer refuses to store more; its defaults (100 MiB in all, 10 MiB a stream) would end a
/// run early.
const RUST_PEER_BYTES_MAX: &str = "1000000000000";
/// Tidewire ends an SSE response after a minute, so that its client comes back. An hour is longer
/// than any measurement: a crowd that stays can be counted.
const SSE_MS: &str = "3600000";

/// Whether a server can be measured here.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Presence {
    Version(String),
    Absent(String),
}

pub(crate) fn presence(kind: Kind, installed: &Installed) -> Presence {
    match version(kind, installed) {
        Ok(version) => Presence::Version(version),
        Err(error) => Presence::Absent(format!("{error:#}")),
    }
}

fn version(kind: Kind, installed: &Installed) -> Result<String> {
    match kind {
        Kind::TidewireSqlite => version_of_binary(tidewire(installed)?),
        Kind::TidewirePostgres => {
            database_url(installed.postgres.as_deref())?;
            version_of_binary(tidewire(installed)?)
        }
        Kind::NodePeer => version_of_node_peer(node_peer(installed)?),
        Kind::RustPeerFile | Kind::RustPeerAcid => version_of_binary(rust_peer(installed)?),
        Kind::Nats => version_of_binary(nats(installed)?),
        Kind::BareLoop | Kind::BareServer => version_of_binary(&std::env::current_exe()?),
    }
}

pub(crate) fn ready_path(kind: Kind) -> &'static str {
    match kind {
        // The reference server has no health route; the runner's stream is there once it listens.
        Kind::NodePeer => "/v1/stream/ready",
        Kind::Nats => "/healthz",
        _ => "/readyz",
    }
}

pub(crate) fn command(
    kind: Kind,
    installed: &Installed,
    addresses: Addresses,
    data: &Path,
    url: Option<&str>,
) -> Result<Command> {
    let address = addresses.http;
    match kind {
        Kind::TidewireSqlite | Kind::TidewirePostgres => {
            let mut command = Command::new(tidewire(installed)?);
            command.args(["dev", "--listen", &address.to_string(), "--data"]).arg(data);
            command.env("TIDEWIRE_STREAMS_SSE_MS", SSE_MS);
            if kind == Kind::TidewirePostgres {
                command.args(["--database", database_url(url)?]);
            }
            Ok(command)
        }
        Kind::NodePeer => {
            let mut command = Command::new("node");
            command.arg(node_peer(installed)?.join("server.mjs"));
            command.arg(address.port().to_string()).arg(data);
            Ok(command)
        }
        Kind::RustPeerFile => rust_peer_command(installed, address, data, "file-durable"),
        Kind::RustPeerAcid => rust_peer_command(installed, address, data, "acid"),
        Kind::Nats => nats_command(installed, addresses, data),
        Kind::BareLoop => {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["bare-loop", "--listen", &address.to_string()]);
            Ok(command)
        }
        Kind::BareServer => {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["bare-server", "--listen", &address.to_string(), "--data"]).arg(data);
            Ok(command)
        }
    }
}

fn rust_peer_command(
    installed: &Installed,
    address: std::net::SocketAddr,
    data: &Path,
    mode: &str,
) -> Result<Command> {
    // Absolute, because the command starts elsewhere.
    let mut command = Command::new(rust_peer(installed)?.canonicalize()?);
    command
        // It reads ./config where it is started: here there is none.
        .current_dir(data.parent().context("a data folder has a parent")?)
        .env("DS_SERVER__BIND_ADDRESS", address.to_string())
        .env("DS_STORAGE__MODE", mode)
        .env("DS_STORAGE__DATA_DIR", data)
        .env("DS_LIMITS__MAX_MEMORY_BYTES", RUST_PEER_BYTES_MAX)
        .env("DS_LIMITS__MAX_STREAM_BYTES", RUST_PEER_BYTES_MAX)
        .env("DS_OBSERVABILITY__RUST_LOG", "warn")
        .env("RUST_LOG", "warn");
    Ok(command)
}

fn nats_command(installed: &Installed, addresses: Addresses, data: &Path) -> Result<Command> {
    let Addresses { http, websocket, publish } = addresses;
    // Its own pings come in the same frames as messages and need an answer that the load generator
    // would have to look for in every one.
    let config = format!(
        "listen: \"{publish}\"\nhttp: \"{http}\"\nping_interval: \"1h\"\n\
         websocket {{ listen: \"{websocket}\", no_tls: true, compression: false }}\n"
    );
    let path = data.with_file_name("nats.conf");
    std::fs::write(&path, config).with_context(|| format!("write {}", path.display()))?;
    let mut command = Command::new(nats(installed)?);
    command.arg("--config").arg(path);
    Ok(command)
}

impl Installed {
    /// Gives a database the names that other systems' SQL uses.
    pub(crate) fn migrate_compat(&self, url: &str) -> Result<()> {
        self.run(&["migrate", "--compat", "--database", url])
    }

    /// Makes the schema in a database, without a server.
    pub(crate) fn migrate(&self, url: &str) -> Result<()> {
        self.run(&["migrate", "--database", url])
    }

    fn run(&self, arguments: &[&str]) -> Result<()> {
        let done = Command::new(tidewire(self)?).args(arguments).output()?;
        let said = String::from_utf8_lossy(&done.stderr);
        anyhow::ensure!(done.status.success(), "tidewire {}: {said}", arguments.join(" "));
        Ok(())
    }
}

fn tidewire(installed: &Installed) -> Result<&PathBuf> {
    installed.tidewire.as_ref().context("the tidewire binary is not built")
}

fn rust_peer(installed: &Installed) -> Result<&PathBuf> {
    installed.rust_peer.as_ref().context("durable-streams-server is not installed")
}

fn nats(installed: &Installed) -> Result<&PathBuf> {
    installed.nats_server.as_ref().context("nats-server is not installed")
}

fn node_peer(installed: &Installed) -> Result<&PathBuf> {
    installed.node_peer.as_ref().context("@durable-streams/server is not installed")
}

fn database_url(url: Option<&str>) -> Result<&str> {
    url.context("there is no PostgreSQL")
}

fn version_of_binary(path: &Path) -> Result<String> {
    let output = Command::new(path)
        .arg("--version")
        .output()
        .with_context(|| format!("run {}", path.display()))?;
    if !output.status.success() {
        bail!("{} --version ended with {}", path.display(), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn version_of_node_peer(folder: &Path) -> Result<String> {
    let manifest = folder.join("node_modules/@durable-streams/server/package.json");
    let text = std::fs::read_to_string(&manifest).context("@durable-streams/server")?;
    let manifest: serde_json::Value = serde_json::from_str(&text)?;
    let node = version_of_binary(Path::new("node"))?;
    let version = manifest["version"].as_str().unwrap_or("of unknown version");
    Ok(format!("@durable-streams/server {version} on node {node}"))
}
