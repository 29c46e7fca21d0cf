//! The flags of `tidewire groups`.

use clap::{ArgGroup, Args, Subcommand};

use super::ClientFlags;

/// What to do with consumer groups.
#[derive(Debug, Subcommand)]
pub(crate) enum GroupsCommand {
    /// List the groups, with how far behind they are
    List(ListGroupsFlags),
    /// Show a group: what it reads, where its partitions stand, and who works on them
    Describe(DescribeGroupFlags),
    /// Show how far each partition is behind, in events and in time
    Lag(LagFlags),
    /// Create a group; repeating the command changes nothing
    Create(CreateGroupFlags),
    /// Change what a group reads, how it treats failures, or its number of partitions
    ///
    /// A different number takes effect once all partitions have reached the same position in the log, so
    /// that events keep their order.
    Change(ChangeGroupFlags),
    /// Move a group to another position in the log; leases that are out become invalid
    Reset(ResetGroupFlags),
    /// Resume a group that is paused, stopped by an error, or behind the retention limit
    Resume(ResumeGroupFlags),
    /// Delete a group, its progress and its dead letters
    Delete(RemoveGroupFlags),
    /// List, redrive or drop dead letters: events that could not be handled
    #[command(subcommand)]
    Dead(DeadCommand),
}

/// What to do with events that were set aside.
#[derive(Debug, Subcommand)]
pub(crate) enum DeadCommand {
    /// List them, with the error of each
    List(ListLettersFlags),
    /// Handle them again, in order, before later events of the same host and user
    Redrive(RedriveFlags),
    /// Drop them for good; the events that wait behind them go on
    Drop(DropLettersFlags),
}

/// What to list.
#[derive(Debug, Args)]
pub(crate) struct ListGroupsFlags {
    /// Print a JSON object a line instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// Which group to show.
#[derive(Debug, Args)]
pub(crate) struct DescribeGroupFlags {
    /// Its name
    pub(crate) group: String,
    /// Print one JSON object instead
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// Whose lag to show.
#[derive(Debug, Args)]
pub(crate) struct LagFlags {
    /// Its name
    pub(crate) group: String,
    /// Show it again every second, until Ctrl-C
    #[arg(long)]
    pub(crate) follow: bool,
    /// Print a JSON object a partition instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// The settings of a new group.
#[derive(Debug, Args)]
pub(crate) struct CreateGroupFlags {
    /// Its name
    pub(crate) group: String,
    /// The number of partitions; events are assigned by host [default: 8]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) partitions: Option<u32>,
    /// Watched tables that it reads [default: everything, if no streams are named either]
    #[arg(long, value_name = "TABLE,…", value_delimiter = ',')]
    pub(crate) tables: Vec<String>,
    /// Streams that it reads; * is one segment, ** any number of them, all else literal
    #[arg(long, value_name = "PATTERN,…", value_delimiter = ',')]
    pub(crate) streams: Vec<String>,
    /// Where it begins: beginning, now, after an offset, or at a time such as 2026-01-31T08:00:00Z
    /// [default: beginning]
    #[arg(long, value_name = "beginning|now|OFFSET|TIME")]
    pub(crate) start: Option<String>,
    /// How often events are tried before they are set aside [default: 5]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) max_attempts: Option<u32>,
    /// What happens to later events of the same host and user: they wait, or go on [default: park]
    #[arg(long, value_parser = ["park", "skip"])]
    pub(crate) on_dead: Option<String>,
    /// Print it as a JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// The settings of a group that change.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true).multiple(true)
    .args(["partitions", "tables", "streams", "everything", "max_attempts", "on_dead", "pause"]))]
pub(crate) struct ChangeGroupFlags {
    /// Its name
    pub(crate) group: String,
    /// The number of partitions
    #[arg(long, value_name = "NUMBER")]
    pub(crate) partitions: Option<u32>,
    /// Watched tables that it reads from here on; with --streams, all that it reads
    #[arg(long, value_name = "TABLE,…", value_delimiter = ',')]
    pub(crate) tables: Vec<String>,
    /// Streams that it reads from here on; with --tables, all that it reads
    #[arg(long, value_name = "PATTERN,…", value_delimiter = ',')]
    pub(crate) streams: Vec<String>,
    /// It reads everything from here on
    #[arg(long, conflicts_with_all = ["tables", "streams"])]
    pub(crate) everything: bool,
    /// How often events are tried before they are set aside
    #[arg(long, value_name = "NUMBER")]
    pub(crate) max_attempts: Option<u32>,
    /// What happens to later events of the same host and user: they wait, or go on
    #[arg(long, value_parser = ["park", "skip"])]
    pub(crate) on_dead: Option<String>,
    /// Pause the group until `groups resume`
    #[arg(long)]
    pub(crate) pause: bool,
    /// Print it as a JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// Where a group continues.
#[derive(Debug, Args)]
pub(crate) struct ResetGroupFlags {
    /// Its name
    pub(crate) group: String,
    /// beginning, now, after an offset, or at a time such as 2026-01-31T08:00:00Z
    #[arg(long, value_name = "beginning|now|OFFSET|TIME")]
    pub(crate) to: String,
    /// Only this partition
    #[arg(long, value_name = "NUMBER")]
    pub(crate) partition: Option<u32>,
    /// Also forget the events that were set aside
    #[arg(long)]
    pub(crate) drop_letters: bool,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// Which group to resume.
#[derive(Debug, Args)]
pub(crate) struct ResumeGroupFlags {
    /// Its name
    pub(crate) group: String,
    /// Also if retention has deleted events that the group had not read
    #[arg(long)]
    pub(crate) accept_loss: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// Which group to delete.
#[derive(Debug, Args)]
pub(crate) struct RemoveGroupFlags {
    /// Its name
    pub(crate) group: String,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// Which letters to list.
#[derive(Debug, Args)]
pub(crate) struct ListLettersFlags {
    /// The group
    pub(crate) group: String,
    /// Only events that could not be handled (dead), or only those that wait behind them (parked)
    #[arg(long, value_parser = ["dead", "parked"])]
    pub(crate) state: Option<String>,
    /// Only those behind this offset
    #[arg(long, value_name = "OFFSET")]
    pub(crate) after: Option<String>,
    /// How many at most
    #[arg(long, default_value_t = 100)]
    pub(crate) limit: u32,
    /// Print a JSON object a line, with all of each event, instead of a table
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// Which letters.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").required(true).multiple(true)
    .args(["all", "host", "user", "offset"]))]
pub(crate) struct WhichLetters {
    /// All of them
    #[arg(long, conflicts_with_all = ["host", "user", "offset"])]
    pub(crate) all: bool,
    /// Those of this host and the --user; leave it out if events have no host
    #[arg(long, requires = "user", conflicts_with = "offset")]
    pub(crate) host: Option<String>,
    /// Those of this user, of the --host; '' for events without a user
    #[arg(long, conflicts_with = "offset")]
    pub(crate) user: Option<String>,
    /// The one of the event with this offset; redrive takes all of the event's host and user
    #[arg(long)]
    pub(crate) offset: Option<String>,
}

/// Which letters to work off.
#[derive(Debug, Args)]
pub(crate) struct RedriveFlags {
    /// The group
    pub(crate) group: String,
    #[command(flatten)]
    pub(crate) which: WhichLetters,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// Which letters to give up.
#[derive(Debug, Args)]
pub(crate) struct DropLettersFlags {
    /// The group
    pub(crate) group: String,
    #[command(flatten)]
    pub(crate) which: WhichLetters,
    /// Also those that wait behind them
    #[arg(long)]
    pub(crate) with_parked: bool,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}
