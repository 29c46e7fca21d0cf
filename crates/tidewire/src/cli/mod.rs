//! The command line: what can be asked for, and how. Nothing is done here.
//!
//! - `consume`: `tidewire consume`, as it is written
//! - `groups`: `tidewire groups`, as it is written
//! - `keys`: `tidewire keys`, as it is written
//! - `operating`: what operators ask of running servers, as it is written
//! - `queries`: `tidewire queries`, as it is written
//! - `serving`: what concerns a server and its store, as it is written
//! - `streams`: `tidewire publish` and `tidewire tail`, as they are written
//! - `tables`: `tidewire sql`, `watch`, `unwatch` and `capture`, as they are written

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
/// Every change is appended once to an ordered log. Whoever is connected gets it pushed; whoever was
/// away replays it by offset.
#[derive(Debug, Parser)]
#[command(name = "tidewire", version, max_term_width = 100, subcommand_required = true)]
#[command(arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a server for development: open, on this machine only
    Dev(ServerFlags),
    /// Run a server that lets in those who have a key or a token
    ///
    /// TIDEWIRE_ADMIN_KEY is the first key: it may do everything, and makes others with `tidewire
    /// keys`.
    Serve(ServerFlags),
    /// Bring the store's schema up to date, without serving
    ///
    /// `dev` and `serve` do the same when they start. With --compat, SQL that was written for other
    /// systems finds the names there that it uses: see COMPAT.md.
    Migrate(MigrateFlags),
    /// Copy the embedded store to a file, also while a server writes to it
    ///
    /// The copy is the store as it is at one moment: all that was acknowledged before is in it.
    /// PostgreSQL is backed up with its own tools; see BACKUP.md.
    Backup(BackupFlags),
    /// Put a backup in the place of the embedded store, or finish a restored database
    ///
    /// Raises the log's epoch, so that clients with offsets of the lost history are told to start
    /// afresh. With --database there is no file: restore the database first, with pg_restore or the
    /// like.
    Restore(RestoreFlags),
    /// Look at a server and say what is wrong, and what to do about it
    ///
    /// Whether it can be reached, the credential, the clocks, the database and how its changes are captured,
    /// what live queries need, watched tables and row rules. The exit code is 1 if something is bad. Needs the
    /// admin key, or a key that allows admin, in --token or TIDEWIRE_TOKEN.
    Doctor(DoctorFlags),
    /// Print the configuration in force, and where each value comes from
    Config(ConfigFlags),
    /// Append a message to a stream, which is created if there is none
    Publish(PublishFlags),
    /// Print the messages of streams, one a line, as they arrive
    ///
    /// JSON takes one line a message; text and bytes are printed as they were appended. Lost
    /// connections are taken up again where they broke. Ends with Ctrl-C, or when all the streams
    /// are closed.
    Tail(TailFlags),
    /// List the servers that share the database, and how each is doing
    ///
    /// A star marks the one that answered. The others are shown as they last reported, when they
    /// renewed their leases. A node whose lease has run out is not listed.
    Nodes(NodesFlags),
    /// List who is connected: whose connections, from where, since when, and what waits for them
    ///
    /// Every server that shares the database is asked, the others by the URLs that they give. Needs the
    /// admin key, or a key that allows admin, in --token or TIDEWIRE_TOKEN.
    Connections(ConnectionsFlags),
    /// Count the subscriptions to entities, by entity code: of everyone, or of one user
    ///
    /// Needs the admin key, or a key that allows observe, in --token or TIDEWIRE_TOKEN.
    Entities(EntitiesFlags),
    /// Run SQL on a server's database, in one transaction; without any, ask for it line by line
    ///
    /// Needs the admin key, or a key that allows sql, in --token or TIDEWIRE_TOKEN: it is trust with the
    /// database itself. Changes to watched tables are in the log when the answer is there. The exit code
    /// is 1 if the SQL fails.
    Sql(SqlFlags),
    /// List the live queries that are followed, on all servers; or end one
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
    /// Show how changes of rows come into the log, or switch it, losing nothing
    ///
    /// With PostgreSQL, from its write-ahead log (wal), or from triggers by way of a table (outbox).
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
    /// Make, list, revoke and rotate API keys
    ///
    /// Needs the admin key, or a key that allows admin, in --token or TIDEWIRE_TOKEN.
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Say something to all servers of a database: reload, empty caches, end connections
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
    /// What others call it, so that they are told what it is called here.
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
