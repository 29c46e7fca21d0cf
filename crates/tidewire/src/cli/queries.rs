//! The flags of `tidewire queries`.

use clap::{Args, Subcommand};

use super::ClientFlags;

/// Whose live queries to list, or which to end.
#[derive(Debug, Args)]
pub(crate) struct QueriesFlags {
    #[command(subcommand)]
    pub(crate) command: Option<QueriesCommand>,
    /// Only those of this end user
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// Print a JSON object a line instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// What to do about live queries, if not to list them.
#[derive(Debug, Subcommand)]
pub(crate) enum QueriesCommand {
    /// End a live query on any server; its client gets a message
    Kill {
        /// The connection's id, a hyphen, and the client's name for the query, as the list shows it
        #[arg(value_name = "LIVE_ID")]
        live_id: String,
    },
}
