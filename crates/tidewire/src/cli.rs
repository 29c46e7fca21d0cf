//! The command line: what can be asked for, and how. Nothing is done here.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use tidewire_client::ReadFrom;

use crate::config::Given;

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
    /// Run a server that asks every client for the key in TIDEWIRE_ADMIN_KEY
    Serve(ServerFlags),
    /// Bring the store's schema up to date, without serving
    ///
    /// `dev` and `serve` do the same when they start.
    Migrate(StoreFlags),
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

/// Which server to talk to, and as whom.
#[derive(Debug, Args)]
pub(crate) struct ClientFlags {
    /// The server
    #[arg(long, env = "TIDEWIRE_URL", default_value = "http://127.0.0.1:4437")]
    #[arg(hide_env_values = true)]
    pub(crate) url: String,
    /// The key or token to present to it
    #[arg(long, env = "TIDEWIRE_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// A PEM file with the authority that issued an https server's certificate, where the system
    /// does not know it
    #[arg(long, env = "TIDEWIRE_CA", hide_env_values = true, value_name = "FILE")]
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
    #[arg(long = "stream", value_name = "NAME", required = true)]
    pub(crate) streams: Vec<String>,
    /// Where to begin: start, now, or after an offset
    #[arg(long, value_name = "start|now|OFFSET", default_value = "start", value_parser = read_from)]
    pub(crate) from: ReadFrom,
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
    fn the_commands_are_well_formed() {
        Cli::command().debug_assert();
    }
}
