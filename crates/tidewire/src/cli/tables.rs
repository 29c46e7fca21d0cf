//! The flags of `tidewire sql`, `watch`, `unwatch` and `capture`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::ClientFlags;

/// What to run, and how to print it.
#[derive(Debug, Args)]
pub(crate) struct SqlFlags {
    /// The statements; - reads them from the standard input, which is also the default without a terminal
    pub(crate) sql: Option<String>,
    /// Read the statements from a file instead
    #[arg(short, long, value_name = "FILE", conflicts_with = "sql")]
    pub(crate) file: Option<PathBuf>,
    /// The value of $1, then of $2 and so on, as JSON or else text; for a single statement only
    #[arg(short, long = "param", value_name = "VALUE")]
    pub(crate) params: Vec<String>,
    /// Print a JSON object a row instead of a table
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// Print comma-separated values, with the columns' names first, instead of a table
    #[arg(long)]
    pub(crate) csv: bool,
    /// Print a line for each column, which is the default where rows are wider than the terminal
    #[arg(short = 'x', long, conflicts_with_all = ["json", "csv"])]
    pub(crate) expanded: bool,
    /// Follow the result of one SELECT over watched tables: a terminal shows the whole result again after
    /// each change; any other output gets a line for each inserted, deleted or changed row
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
    /// The columns that identify a row [default: the primary key; without one, the whole row]
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',')]
    pub(crate) key: Option<Vec<String>>,
    /// The entity code under which clients subscribe to its rows, such as project
    #[arg(long, value_name = "CODE")]
    pub(crate) entity: Option<String>,
    /// The column with the tenant of a row
    #[arg(long, value_name = "COLUMN")]
    pub(crate) host_column: Option<String>,
    /// The column with the user of a row
    #[arg(long, value_name = "COLUMN")]
    pub(crate) user_column: Option<String>,
    /// List the watched tables, with the number of changes, and how many wait to enter the log
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
    /// Show how changes reach the log, and what prevents the other source
    Status,
    /// Switch to another source; waits for running transactions, loses no change
    Switch {
        /// wal or outbox
        #[arg(value_parser = ["wal", "outbox"])]
        mode: String,
    },
}
