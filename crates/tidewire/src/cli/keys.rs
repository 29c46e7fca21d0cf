//! The flags of `tidewire keys`.

use std::time::Duration;

use clap::{Args, Subcommand};

use tidewire_options::duration;

use super::ClientFlags;

/// What to do with keys.
#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Create a key and print it, once
    Create(Box<CreateKeyFlags>),
    /// List the valid keys; with --all also revoked and expired ones
    List(ListKeysFlags),
    /// Revoke keys; their connections end within a second, on every server
    Revoke(RevokeKeyFlags),
    /// Replace a key by an equal one; the old key stays valid for a while, so that clients can switch
    Rotate(RotateKeyFlags),
}

/// What a key allows.
#[derive(Debug, Args)]
pub(crate) struct CreateKeyFlags {
    /// The positional argument.
    #[arg(hide = true, value_name = "NAME", value_parser = not_a_name)]
    unnamed: Option<String>,
    /// A name for people
    #[arg(long)]
    pub(crate) name: String,
    /// Tables it may read; * is all
    #[arg(long, value_name = "TABLE,…", value_delimiter = ',')]
    pub(crate) tables: Vec<String>,
    /// Streams it may use; * is any text within a segment, ** any text, a lone * everything
    #[arg(long, value_name = "PATTERN,…", value_delimiter = ',')]
    pub(crate) streams: Vec<String>,
    /// Where it may append, if not to all its streams
    #[arg(long, value_name = "PATTERN,…", value_delimiter = ',')]
    pub(crate) append_only_to: Vec<String>,
    /// The columns of a table that it may see, if not all
    #[arg(long, value_name = "TABLE=COLUMN+…", value_parser = pair)]
    pub(crate) columns: Vec<(String, String)>,
    /// The rows of a table that it may see, if not all, as a condition
    #[arg(long, value_name = "TABLE=CONDITION", value_parser = pair)]
    pub(crate) rows: Vec<(String, String)>,
    /// Consumer groups it may work for, if it can consume; * is any text
    #[arg(long, value_name = "PATTERN,…", value_delimiter = ',')]
    pub(crate) groups: Vec<String>,
    /// What the key allows: read, append, delete, sql, consume, observe, admin [default: read]
    #[arg(long, value_name = "ABILITY,…", value_delimiter = ',')]
    pub(crate) can: Vec<String>,
    /// The tenant it belongs to; it reaches that tenant's streams only
    #[arg(long)]
    pub(crate) host: Option<String>,
    /// When the key expires: 90s, 15m, 12h, 30d
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) expires: Option<Duration>,
    /// All of the above as one JSON object instead, such as {"tables":["*"]}
    #[arg(long, value_name = "JSON", conflicts_with_all = ["tables", "streams", "append_only_to",
        "columns", "rows", "groups", "can", "host"])]
    pub(crate) scopes: Option<String>,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// Which keys to list.
#[derive(Debug, Args)]
pub(crate) struct ListKeysFlags {
    /// Also those that are revoked or expired
    #[arg(long)]
    pub(crate) all: bool,
    /// Print a JSON object a line instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// Which keys to revoke.
#[derive(Debug, Args)]
pub(crate) struct RevokeKeyFlags {
    /// Their numbers, as `keys list` shows them
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<i64>,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// Which key to rotate.
#[derive(Debug, Args)]
pub(crate) struct RotateKeyFlags {
    /// Its number, as `keys list` shows it
    pub(crate) id: i64,
    /// How long the old key stays valid: 0s, 15m, 12h, 30d [default: 24h]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) overlap: Option<Duration>,
    /// When the new key expires
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) expires: Option<Duration>,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

fn not_a_name(name: &str) -> Result<String, String> {
    Err(format!("say that it is the name: --name {name}"))
}

/// A name and what it stands for.
fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err("give a table, =, and what goes with it".to_owned()),
    }
}
