//! The command line: all commands and flags. Nothing is executed here.
//!
//! - `consume`: the flags of `tidewire consume`
//! - `groups`: the flags of `tidewire groups`
//! - `keys`: the flags of `tidewire keys`
//! - `operating`: the flags of the commands for operators
//! - `queries`: the flags of `tidewire queries`
//! - `serving`: the flags of a server and its store
//! - `streams`: the flags of `tidewire publish` and `tidewire tail`
//! - `tables`: the flags of `tidewire sql`, `watch`, `unwatch` and `capture`

mod consume;
mod groups;
mod keys;
mod operating;
mod queries;
mod serving;
mod streams;
mod tables;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub(crate) use consume::ConsumeFlags;
pub(crate) use groups::{
    ChangeGroupFlags, CreateGroupFlags, DeadCommand, DescribeGroupFlags, DropLettersFlags,
    GroupsCommand, LagFlags, ListGroupsFlags, ListLettersFlags, RedriveFlags, RemoveGroupFlags,
    ResetGroupFlags, ResumeGroupFlags, WhichLetters,
};
pub(crate) use keys::{CreateKeyFlags, KeysCommand, ListKeysFlags, RevokeKeyFlags, RotateKeyFlags};
pub(crate) use operating::{
    ConnectionsFlags, ControlCommand, ControlFlags, DoctorFlags, EntitiesFlags, NodesFlags,
};
pub(crate) use queries::{QueriesCommand, QueriesFlags};
pub(crate) use serving::{BackupFlags, ConfigFlags, MigrateFlags, RestoreFlags, ServerFlags};
pub(crate) use streams::{PublishFlags, TailFlags};
pub(crate) use tables::{CaptureCommand, CaptureFlags, SqlFlags, UnwatchFlags, WatchFlags};

/// Realtime data on top of the database you already have.
///
/// Every change is appended once to an ordered log. Connected clients receive it at once; clients that
/// were away replay it from their offset.
#[derive(Debug, Parser)]
#[command(name = "tidewire", version, max_term_width = 100, subcommand_required = true)]
#[command(arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a server for development: without keys, on this machine only
    Dev(ServerFlags),
    /// Run a server that requires a key or a token
    ///
    /// TIDEWIRE_ADMIN_KEY is the first key: it allows everything, and creates others with `tidewire
    /// keys`.
    Serve(ServerFlags),
    /// Bring the store's schema up to date, without serving
    ///
    /// `dev` and `serve` do the same when they start. With --compat, it also creates the names that SQL
    /// written for other systems uses: see COMPAT.md.
    Migrate(MigrateFlags),
    /// Copy the embedded store to a file, also while a server writes to it
    ///
    /// The copy shows the store at one moment, with everything acknowledged before.
    /// PostgreSQL is backed up with its own tools; see BACKUP.md.
    Backup(BackupFlags),
    /// Restore a backup of the embedded store, or finish a restored PostgreSQL database
    ///
    /// Raises the log's epoch, so that clients with offsets of the lost history start again from the
    /// beginning. With --database there is no file: restore the database first, for example with
    /// pg_restore.
    Restore(RestoreFlags),
    /// Check a server, and print each problem with what to do about it
    ///
    /// Whether it can be reached, the credential, the clocks, the database and how its changes are captured,
    /// what live queries need, watched tables and row rules. The exit code is 1 if something is bad. Needs the
    /// admin key, or a key that allows admin, in --token or TIDEWIRE_TOKEN.
    Doctor(DoctorFlags),
    /// Print the configuration in force, and where each value comes from
    Config(ConfigFlags),
    /// Append a message to a stream; the stream is created if it does not exist
    Publish(PublishFlags),
    /// Print the messages of streams, one a line, as they arrive
    ///
    /// JSON takes one line a message; text and bytes are printed as they were appended. After a lost
    /// connection it reconnects and continues without gaps. Ends with Ctrl-C, or when all the streams
    /// are closed.
    Tail(TailFlags),
    /// List the servers that share the database, and how each is doing
    ///
    /// A star marks the server that answered. The others are shown as of their last lease renewal. A
    /// server whose lease has expired is not listed.
    Nodes(NodesFlags),
    /// List the connections: whose, from where, since when, and what waits to be sent
    ///
    /// Asks every server that shares the database, the others at their public URLs. Needs the
    /// admin key, or a key that allows admin, in --token or TIDEWIRE_TOKEN.
    Connections(ConnectionsFlags),
    /// Count the subscriptions to entities, by entity code: of everyone, or of one user
    ///
    /// Needs the admin key, or a key that allows observe, in --token or TIDEWIRE_TOKEN.
    Entities(EntitiesFlags),
    /// Run SQL on a server's database, in one transaction; without SQL, read it line by line
    ///
    /// Needs the admin key, or a key that allows sql, in --token or TIDEWIRE_TOKEN: it gives access to the
    /// whole database. Changes to watched tables are in the log when the answer arrives. The exit code
    /// is 1 if the SQL fails.
    Sql(SqlFlags),
    /// List the live queries of all servers, or end one
    ///
    /// Needs the admin key, or a key that allows sql, in --token or TIDEWIRE_TOKEN. To end another user's
    /// takes admin.
    Queries(QueriesFlags),
    /// Watch a table: its changes become the stream table/NAME. Or list the watched tables
    ///
    /// `tidewire tail --table orders` then prints each change of a row as it is committed. To
    /// watch a table again changes how it is watched. Needs the admin key, or a key that allows admin.
    Watch(WatchFlags),
    /// Stop watching a table, and end its stream
    Unwatch(UnwatchFlags),
    /// Show how row changes reach the log, or switch the source without losing changes
    ///
    /// With PostgreSQL, the source is its write-ahead log (wal), or triggers that write a table (outbox).
    Capture(CaptureFlags),
    /// Manage consumer groups: workers that share the log, each event for one of them
    ///
    /// Needs the admin key, or a key that allows admin, in --token or TIDEWIRE_TOKEN; observe is enough
    /// for list, describe and lag, and consume for dead list.
    #[command(subcommand)]
    Groups(GroupsCommand),
    /// Work as a member of a consumer group: run a command for each batch, or post it to a URL
    ///
    /// An event is handled at least once, and in order for each host and user: a batch that was not
    /// finished in time is given out again. Ends with SIGTERM or Ctrl-C, after the batch in hand; a second
    /// one ends it at once. Needs a key that allows consume, in --token or TIDEWIRE_TOKEN.
    Consume(ConsumeFlags),
    /// Create, list, revoke and rotate API keys
    ///
    /// Needs the admin key, or a key that allows admin, in --token or TIDEWIRE_TOKEN.
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Control all servers of a database: reload, empty caches, end connections
    Control(ControlFlags),
}

/// Which server to talk to, and as whom. Global, so that they can stand after a command's own
/// commands as well as before.
#[derive(Debug, Args)]
pub(crate) struct ClientFlags {
    /// The server
    #[arg(long, env = "TIDEWIRE_URL", default_value = "http://127.0.0.1:4437")]
    #[arg(hide_env_values = true, global = true)]
    pub(crate) url: String,
    /// The key or token to present to it
    #[arg(long, env = "TIDEWIRE_TOKEN", hide_env_values = true, global = true)]
    pub(crate) token: Option<String>,
    /// A PEM file with the authority that issued an https server's certificate, where the system
    /// does not know it
    #[arg(long, env = "TIDEWIRE_CA", hide_env_values = true, global = true, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// The names other tools use, so that an error can name ours.
    #[arg(long, hide = true, global = true, value_parser = not_port)]
    pub(crate) port: Option<String>,
}

fn not_port(port: &str) -> Result<String, String> {
    let port = port.trim_start_matches(':');
    Err(format!("the port is part of the server's address: --url http://127.0.0.1:{port}"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_commands_are_well_formed() {
        Cli::command().debug_assert();
    }
}
