//! The command line: what can be asked for, and how. Nothing is done here.

mod queries;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use tidewire_client::ReadFrom;
use tidewire_store::Epoch;
use tidewire_store::postgres::CompatSchemas;

use crate::config::Given;

pub(crate) use queries::{QueriesCommand, QueriesFlags};

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
    /// Make, list, revoke and rotate API keys
    ///
    /// Needs the admin key, or a key that allows admin, in --token or TIDEWIRE_TOKEN.
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Say something to all servers of a database: reload, empty caches, end connections
    Control(ControlFlags),
}

/// What to do with keys.
#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Make a key and print it, once
    Create(CreateKeyFlags),
    /// List the keys that are good, or all with --all
    List(ListKeysFlags),
    /// Revoke keys; who is connected with one is cut off within a second, on every server
    Revoke(RevokeKeyFlags),
    /// Make a key like another, which goes on for a while so that its holders can change over
    Rotate(RotateKeyFlags),
}

/// What a key allows.
#[derive(Debug, Args)]
pub(crate) struct CreateKeyFlags {
    /// What people call it
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
    /// Columns of a table that it may see, if not all
    #[arg(long, value_name = "TABLE=COLUMN+…", value_parser = pair)]
    pub(crate) columns: Vec<(String, String)>,
    /// Rows of a table that it may see, if not all, as a condition
    #[arg(long, value_name = "TABLE=CONDITION", value_parser = pair)]
    pub(crate) rows: Vec<(String, String)>,
    /// What it can do: read, append, delete, sql, observe, admin [default: read]
    #[arg(long, value_name = "ABILITY,…", value_delimiter = ',')]
    pub(crate) can: Vec<String>,
    /// The tenant it belongs to, whose streams alone it reaches
    #[arg(long)]
    pub(crate) host: Option<String>,
    /// When it stops by itself: 90s, 15m, 12h, 30d
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) expires: Option<Duration>,
    /// All of the above as one JSON object instead, such as {"tables":["*"]}
    #[arg(long, value_name = "JSON", conflicts_with_all = ["tables", "streams", "append_only_to",
        "columns", "rows", "can", "host"])]
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
    /// How long the old key goes on: 0s, 15m, 12h, 30d [default: 24h]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) overlap: Option<Duration>,
    /// When the new key stops by itself
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) expires: Option<Duration>,
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
    /// Look up every key again
    EmptyCaches,
    /// End what a user is connected with
    EndUser {
        /// The sub of their tokens
        user: String,
        /// Their tenant; any tenant's user of this name if it is left out
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

/// What to bring up to date.
#[derive(Debug, Args)]
pub(crate) struct MigrateFlags {
    /// Also make, or bring up to date, the names that other systems' SQL uses, as views and functions
    ///
    /// rxdb_subscription, logging and the functions on them; outbox, outbox_message_t, api_keys,
    /// log_counter and consumer_offsets. In PostgreSQL only. Nothing is done if one of the names is
    /// taken by something else.
    #[arg(long)]
    pub(crate) compat: bool,
    /// The schema for the names of subscriptions to entities; made if it is missing
    #[arg(long, value_name = "SCHEMA", default_value = "app", requires = "compat")]
    pub(crate) compat_schema: String,
    /// The schema for the other names; made if it is missing
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
    /// The file to write, which must not be there yet
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) store: StoreFlags,
}

/// What to restore.
#[derive(Debug, Args)]
pub(crate) struct RestoreFlags {
    /// A file that `tidewire backup` has written; not with --database
    pub(crate) file: Option<PathBuf>,
    /// Put aside the store that is there, instead of refusing
    #[arg(long)]
    pub(crate) replace: bool,
    /// The log's new epoch, above all it has had [default: the next]
    ///
    /// For a backup that is restored again, when what it became the first time was used.
    #[arg(long, value_name = "NUMBER", value_parser = epoch)]
    pub(crate) epoch: Option<Epoch>,
    #[command(flatten)]
    pub(crate) store: StoreFlags,
}

/// How to serve.
#[derive(Debug, Args)]
pub(crate) struct ServerFlags {
    /// Where to listen [default: 127.0.0.1:4437]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    #[command(flatten)]
    store: StoreFlags,
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
}

/// What to append.
#[derive(Debug, Args)]
pub(crate) struct PublishFlags {
    /// The stream, such as doc/123
    pub(crate) stream: String,
    /// The message; - or nothing reads it from the standard input
    #[arg(default_value = "-", hide_default_value = true)]
    pub(crate) data: String,
    /// The data is JSON; the same as --content-type application/json
    #[arg(long, conflicts_with = "content_type")]
    pub(crate) json: bool,
    /// The data's type [default: the stream's; for a new stream application/json if the data is an
    /// object or an array, else text/plain]
    #[arg(long, value_name = "TYPE")]
    pub(crate) content_type: Option<String>,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// What to follow.
#[derive(Debug, Args)]
pub(crate) struct TailFlags {
    /// The stream, such as doc/123; of several, each line begins with the stream's name and a tab
    #[arg(long = "stream", value_name = "NAME", required_unless_present = "tables")]
    pub(crate) streams: Vec<String>,
    /// A watched table, such as orders: prints each change of a row as it is committed
    #[arg(long = "table", value_name = "NAME")]
    pub(crate) tables: Vec<String>,
    /// Of tables' rows, those that satisfy a condition: "status = 'open' AND total > 100"
    #[arg(long = "where", value_name = "CONDITION", requires = "tables")]
    pub(crate) filter: Option<String>,
    /// Where to begin: start, now, or after an offset
    #[arg(long, value_name = "start|now|OFFSET", default_value = "start", value_parser = read_from)]
    pub(crate) from: ReadFrom,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// What to run, and how to print it.
#[derive(Debug, Args)]
pub(crate) struct SqlFlags {
    /// The statements; - reads them from the standard input, as nothing does if that is no terminal
    pub(crate) sql: Option<String>,
    /// Read the statements from a file instead
    #[arg(short, long, value_name = "FILE", conflicts_with = "sql")]
    pub(crate) file: Option<PathBuf>,
    /// What stands for $1 (?1 in SQLite), then $2 and so on: JSON, or else text; of a single statement
    #[arg(short, long = "param", value_name = "VALUE")]
    pub(crate) params: Vec<String>,
    /// Print a JSON object a row instead of a table
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// Print comma-separated values, with the columns' names first, instead of a table
    #[arg(long)]
    pub(crate) csv: bool,
    /// Print a line for each column, as is done where rows are wider than the terminal
    #[arg(short = 'x', long, conflicts_with_all = ["json", "csv"])]
    pub(crate) expanded: bool,
    /// Follow the result of one SELECT over watched tables: it is drawn again when it is another, or,
    /// where the output is no terminal, each row is printed that came, went or changed
    #[arg(long, conflicts_with = "csv")]
    pub(crate) live: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// Which table to watch, and how.
#[derive(Debug, Args)]
pub(crate) struct WatchFlags {
    /// The table, as one writes it in SQL: orders, sales.orders, '"Odd Name"'
    #[arg(required_unless_present = "list")]
    pub(crate) table: Option<String>,
    /// The columns that tell a row from others [default: the primary key; without one, the whole row]
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',')]
    pub(crate) key: Option<Vec<String>>,
    /// What its rows are to those who subscribe to entities, such as project
    #[arg(long, value_name = "CODE")]
    pub(crate) entity: Option<String>,
    /// The column that says whose tenant's a row is
    #[arg(long, value_name = "COLUMN")]
    pub(crate) host_column: Option<String>,
    /// The column that says which user's a row is
    #[arg(long, value_name = "COLUMN")]
    pub(crate) user_column: Option<String>,
    /// List the watched tables, with how many changes came, and what waits for its place in the log
    #[arg(long, conflicts_with_all = ["table", "key", "entity", "host_column", "user_column"])]
    pub(crate) list: bool,
    /// Print a JSON object a table instead of text
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// Which tables not to watch any more.
#[derive(Debug, Args)]
pub(crate) struct UnwatchFlags {
    /// The tables, as one writes them in SQL
    #[arg(required = true, value_name = "TABLE")]
    pub(crate) tables: Vec<String>,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// What to do about the source of changes.
#[derive(Debug, Args)]
pub(crate) struct CaptureFlags {
    #[command(subcommand)]
    pub(crate) command: Option<CaptureCommand>,
    /// Print a JSON object instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CaptureCommand {
    /// Show how changes come into the log, and what stands in the way of the other way
    Status,
    /// Take changes from another source from now on; waits for transactions under way, loses nothing
    Switch {
        /// wal or outbox
        #[arg(value_parser = ["wal", "outbox"])]
        mode: String,
    },
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
    /// So many of each server at most
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
    /// Count those of one user only, by the name that their token has
    #[arg(long, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// Print a JSON object a line instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

impl StoreFlags {
    /// As settings for the configuration.
    pub(crate) fn given(self) -> Given {
        let data = self.data.map(|data| ("--data", "data", data));
        let database = self.database.map(|database| ("--database", "database", database));
        Given { file: self.config, flags: data.into_iter().chain(database).collect() }
    }
}

impl ServerFlags {
    /// As settings for the configuration.
    pub(crate) fn given(self) -> Given {
        let mut given = self.store.given();
        given.flags.extend(self.listen.map(|listen| ("--listen", "listen", listen)));
        given
    }
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

/// A number and a unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds = match &text[digits.len()..] {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err("give a number and s, m, h or d, such as 30d".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| "give a whole number, such as 30d".to_owned())?;
    let seconds = number.checked_mul(seconds).ok_or("that is too long")?;
    Ok(Duration::from_secs(seconds))
}

fn epoch(text: &str) -> Result<Epoch, String> {
    text.parse().ok().and_then(Epoch::new).ok_or("give a number from 1 to 9999".to_owned())
}

fn read_from(text: &str) -> Result<ReadFrom, String> {
    match text {
        "start" | "-1" => Ok(ReadFrom::Start),
        "now" => Ok(ReadFrom::Now),
        "" => Err("give start, now, or an offset".to_owned()),
        offset => Ok(ReadFrom::Offset(offset.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("30d"), Ok(Duration::from_secs(30 * 86_400)));
        for bad in ["", "30", "d", "30w", "-1s", "1.5h", "99999999999999999d"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_commands_are_well_formed() {
        Cli::command().debug_assert();
    }
}
