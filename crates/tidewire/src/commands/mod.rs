//! The commands that do something and end. Servers are in [`server`](crate::server).
//!
//! - `ask`: asking a person before something is done that cannot be undone
//! - `backup`: `tidewire backup`
//! - `capture`: `tidewire capture`
//! - `config`: `tidewire config`
//! - `connecting`: the first connection of a command that follows something
//! - `connections`: `tidewire connections`
//! - `consume`: `tidewire consume`
//! - `control`: `tidewire control`
//! - `doctor`: `tidewire doctor`
//! - `entities`: `tidewire entities`
//! - `groups`: `tidewire groups`
//! - `hints`: what to do about an error, in the words of the command line
//! - `keys`: `tidewire keys`
//! - `migrate`: `tidewire migrate`
//! - `nodes`: `tidewire nodes`
//! - `publish`: `tidewire publish`
//! - `queries`: `tidewire queries`
//! - `restore`: `tidewire restore`
//! - `sql`: `tidewire sql`
//! - `table`: tables for people
//! - `tail`: `tidewire tail`
//! - `watch`: `tidewire watch` and `tidewire unwatch`

mod ask;
pub(crate) mod backup;
pub(crate) mod capture;
pub(crate) mod config;
mod connecting;
pub(crate) mod connections;
pub(crate) mod consume;
pub(crate) mod control;
pub(crate) mod doctor;
pub(crate) mod entities;
pub(crate) mod groups;
mod hints;
pub(crate) mod keys;
pub(crate) mod migrate;
pub(crate) mod nodes;
pub(crate) mod publish;
pub(crate) mod queries;
pub(crate) mod restore;
pub(crate) mod sql;
mod table;
pub(crate) mod tail;
pub(crate) mod watch;

pub(crate) use hints::hint;

use anyhow::Context as _;
use tidewire_client::Client;

use crate::cli::ClientFlags;

/// Empties a terminal and goes to its top.
const CLEAR: &str = "\x1b[H\x1b[2J\x1b[3J";

/// The server that the flags name.
fn client(flags: &ClientFlags) -> anyhow::Result<Client> {
    let ClientFlags { url, token, ca, port: _ } = flags;
    let token = token.as_deref();
    let Some(ca) = ca else { return Ok(Client::new(url, token)?) };
    let shown = ca.display();
    let pem = std::fs::read(ca).with_context(|| format!("cannot read {shown} (--ca)"))?;
    Client::with_ca(url, token, &pem).with_context(|| format!("cannot use {shown} (--ca)"))
}

/// A time in seconds, for people.
fn seconds(ms: u64) -> String {
    format!("{}.{} s", ms / 1_000, ms % 1_000 / 100)
}

/// JSON on one line. A line break stands only between tokens, where a space means the same.
fn one_line(json: &[u8]) -> Vec<u8> {
    json.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect()
}
