//! What a worker of this program is told to do: the hidden command `consume-one` and its argument.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{bare, http, queue, tidewire};

/// What is done with an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Effect {
    /// Nothing.
    Empty,
    /// A row for each event. Who gets several events of a key at once writes them with one statement.
    Insert,
}

impl Effect {
    pub(crate) const ALL: [Self; 2] = [Self::Empty, Self::Insert];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Insert => "insert",
        }
    }
}

/// Who works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum By {
    /// `tidewire_consumer::Consumer` on PostgreSQL, one process, with batches of so many events.
    Library { partitions: u32, batch: usize },
    /// The same on SQLite, where it has the store for itself.
    Sqlite { partitions: u32 },
    /// So many workers that claim and acknowledge over HTTP, for as many partitions.
    Http { workers: u32 },
    /// One connection that reads the log and advances an offset.
    Bare,
    /// Sessions that take so many jobs at once by `FOR UPDATE SKIP LOCKED`.
    Queue { sessions: usize, take: usize },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) by: By,
    pub(crate) effect: Effect,
    /// The database's URL; over HTTP, the node's; of SQLite, the folder of its data.
    pub(crate) place: String,
    /// The group's name: a new one begins at the log's beginning.
    pub(crate) group: String,
    /// How many there are to work off.
    pub(crate) events: u64,
    /// How long to work at most.
    pub(crate) seconds: f64,
}

impl Order {
    /// The command that has it done in a process of its own.
    pub(crate) fn command(&self) -> Result<Command> {
        let mut command = Command::new(std::env::current_exe().context("find this program")?);
        command.args(["consume-one", "--combination", &serde_json::to_string(self)?]);
        Ok(command)
    }

    /// When the time is over that begins now.
    pub(crate) fn closes(&self) -> Instant {
        Instant::now() + Duration::from_secs_f64(self.seconds)
    }
}

/// In the worker: does what the order says.
pub(crate) fn run(order: &str) -> Result<()> {
    let order: Order = serde_json::from_str(order).context("read the order")?;
    match order.by {
        By::Library { partitions, batch } => tidewire::on_postgres(&order, partitions, batch),
        By::Sqlite { partitions } => tidewire::on_sqlite(&order, partitions),
        By::Http { workers } => http::work(&order, workers),
        By::Bare => bare::work(&order),
        By::Queue { sessions, take } => queue::work(&order, sessions, take),
    }
}
