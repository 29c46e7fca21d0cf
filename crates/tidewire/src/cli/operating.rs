//! The flags of the commands for operators: `doctor`, `nodes`, `connections`, `entities`, `control`.

use clap::{Args, Subcommand};

use super::ClientFlags;

/// Which server to look at.
#[derive(Debug, Args)]
pub(crate) struct DoctorFlags {
    /// Print a JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// What to list.
#[derive(Debug, Args)]
pub(crate) struct NodesFlags {
    /// Print a JSON object a line instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// Whose connections to list.
#[derive(Debug, Args)]
pub(crate) struct ConnectionsFlags {
    /// Only those of this end user
    #[arg(long)]
    pub(crate) user: Option<String>,
    /// Only those of the API key of this number
    #[arg(long)]
    pub(crate) key: Option<i64>,
    /// Only the connection of this name
    #[arg(long)]
    pub(crate) connection: Option<String>,
    /// How many of each server at most
    #[arg(long, default_value_t = 100)]
    pub(crate) limit: u32,
    /// Print a JSON object a line instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// Whose to count.
#[derive(Debug, Args)]
pub(crate) struct EntitiesFlags {
    /// Count those of one user only, by the sub of their tokens
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// Print a JSON object a line instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// What to say to all servers.
#[derive(Debug, Args)]
pub(crate) struct ControlFlags {
    #[command(subcommand)]
    pub(crate) command: ControlCommand,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ControlCommand {
    /// Read the configuration again: allowed_origins and [rates]
    Reload,
    /// Forget cached keys, so that every key is looked up again
    EmptyCaches,
    /// End a user's connections
    EndUser {
        /// The sub of their tokens
        user: String,
        /// Their tenant; without it, the users of this name of every tenant
        #[arg(long)]
        host: Option<String>,
    },
    /// End a connection
    EndConnection {
        /// Its connection_id
        connection_id: String,
    },
    /// End a subscription
    EndSubscription {
        /// Its live_id
        live_id: String,
    },
}
