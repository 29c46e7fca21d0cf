//! What an event or a delivery costs in CPU, and how much of the machine others used meanwhile.

use std::time::Instant;

use anyhow::Result;
use serde::Serialize;

use crate::cpu::{self, Spent};
use crate::servers::Processes;
use crate::table::{decimals, optional};

/// CPU seconds so far, read when a measurement opens and when it closes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    at: Instant,
    server: Spent,
    /// All processes of the PostgreSQL cluster the server works on.
    database: Option<f64>,
    load_generator: f64,
    machine: f64,
}

impl Reading {
    pub(crate) fn take(processes: Processes) -> Result<Self> {
        Ok(Self {
            at: Instant::now(),
            server: processes.server.map_or(Ok(Spent::default()), cpu::spent)?,
            database: processes.postmaster.map(cpu::seconds_with_children).transpose()?,
            load_generator: cpu::own_seconds()?,
            machine: cpu::machine_seconds()?,
        })
    }
}

/// Microseconds of CPU per event or delivery.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Cost {
    pub(crate) server_us: f64,
    /// The part of `server_us` that is not the kernel's.
    pub(crate) server_user_us: f64,
    pub(crate) database_us: Option<f64>,
    pub(crate) load_generator_us: f64,
    /// The share of all cores that went to neither of these: the kernel's own threads (a few per
    /// cent), or somebody else's work, which then has spoilt the measurement.
    pub(crate) others_share: f64,
}

impl Cost {
    /// The headings of [`Cost::columns`].
    pub(crate) const HEADINGS: [&'static str; 4] =
        ["server us", "database us", "load gen us", "other CPU"];

    pub(crate) fn between(opened: Reading, closed: Reading, count: u64) -> Result<Self> {
        let cores = std::thread::available_parallelism()?.get() as f64;
        let available = (closed.at - opened.at).as_secs_f64() * cores;
        let server = closed.server.total() - opened.server.total();
        let server_user = closed.server.user - opened.server.user;
        let database = opened.database.zip(closed.database).map(|(open, close)| close - open);
        let load_generator = closed.load_generator - opened.load_generator;
        let known = server + database.unwrap_or_default() + load_generator;
        let other = closed.machine - opened.machine - known;
        let us_each = |seconds: f64| seconds * 1e6 / count.max(1) as f64;
        Ok(Self {
            server_us: us_each(server),
            server_user_us: us_each(server_user),
            database_us: database.map(us_each),
            load_generator_us: us_each(load_generator),
            others_share: (other / available).max(0.0),
        })
    }

    /// Of the server and its database.
    pub(crate) fn total_us(&self) -> f64 {
        self.server_us + self.database_us.unwrap_or_default()
    }

    pub(crate) fn columns(&self, places: usize) -> [String; 4] {
        [
            decimals(self.server_us, places),
            optional(self.database_us, places),
            decimals(self.load_generator_us, places),
            format!("{:.0} %", self.others_share * 100.0),
        ]
    }
}
