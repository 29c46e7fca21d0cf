//! PostgreSQL databases that live for one measurement, and plain sessions on them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

use crate::cpu;

/// How often to ask whether something has come to be, and for how long.
const LOOK: Duration = Duration::from_millis(20);
const TOO_LATE: Duration = Duration::from_secs(180);

/// One connection, driven only while it is asked something: while it sits idle it costs nothing.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) runtime: Runtime,
    pub(crate) client: Client,
}

impl Session {
    pub(crate) fn connect(url: &str) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (client, connection) = runtime
            .block_on(tokio_postgres::connect(url, NoTls))
            .context("connect to PostgreSQL")?;
        runtime.spawn(connection);
        Ok(Self { runtime, client })
    }

    /// Runs statements that return nothing of interest.
    pub(crate) fn run(&self, sql: &str) -> Result<()> {
        let done = self.runtime.block_on(self.client.batch_execute(sql));
        done.with_context(|| format!("PostgreSQL: {sql}"))
    }

    /// The single text that `sql` selects.
    pub(crate) fn text(&self, sql: &str) -> Result<String> {
        let row = self.runtime.block_on(self.client.query_one(sql, &[]));
        Ok(row.with_context(|| format!("PostgreSQL: {sql}"))?.get(0))
    }

    /// Waits until the answer to a question is `true`.
    pub(crate) fn wait_until(&self, question: &str, otherwise: &str) -> Result<()> {
        let began = Instant::now();
        while self.text(question)? != "true" {
            ensure!(began.elapsed() <= TOO_LATE, "{otherwise}");
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Waits until everything is in the log that was committed before this; there must be a node. What was
    /// done before a measurement is not that one's to pay.
    pub(crate) fn catch_up(&self) -> Result<()> {
        let mark = self.text("SELECT tidewire.mark()::text")?;
        let there = format!(
            "SELECT (count(*) > 0)::text FROM tidewire.log WHERE control = 'mark' AND txid = {mark}"
        );
        self.wait_until(&there, "what was committed does not come into the log")
    }
}

/// A database made for one measurement, dropped with it.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) url: String,
    /// The cluster's first process, when it runs on this machine: its children are the cluster's
    /// CPU.
    pub(crate) postmaster: Option<u32>,
    name: String,
    admin: Session,
}

impl Database {
    pub(crate) fn create(admin_url: &str) -> Result<Self> {
        let admin = Session::connect(admin_url)?;
        let name = format!("tidewire_bench_{}_{}", std::process::id(), next_number());
        admin.run(&format!("CREATE DATABASE {name}"))?;
        // Work left over from the database before must not run into this measurement.
        admin.run("CHECKPOINT")?;
        let backend = admin.text("SELECT pg_backend_pid()::text")?.parse()?;
        let postmaster = is_postgres(backend).then(|| cpu::parent(backend)).transpose()?;
        Ok(Self { url: with_database(admin_url, &name), postmaster, name, admin })
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // A database that stays behind spoils nothing but disk space, and its name says where it
        // came from.
        let _ = self.admin.run(&format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}

fn next_number() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A backend's number means something here only if the cluster runs on this machine.
fn is_postgres(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm"))
        .is_ok_and(|command| command.starts_with("postgres"))
}

/// `url` with another database name.
fn with_database(url: &str, name: &str) -> String {
    let (start, parameters) = match url.split_once('?') {
        Some((start, parameters)) => (start, format!("?{parameters}")),
        None => (url, String::new()),
    };
    let host = start.find("://").map_or(0, |scheme| scheme + 3);
    let end = start[host..].find('/').map_or(start.len(), |slash| host + slash);
    format!("{}/{name}{parameters}", &start[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_of_a_url_is_replaced_and_the_rest_kept() {
        let replaced = |url| with_database(url, "x");
        assert_eq!(
            replaced("postgres://u:p@h:5432/a?sslmode=disable"),
            "postgres://u:p@h:5432/x?sslmode=disable"
        );
        assert_eq!(replaced("postgres://h"), "postgres://h/x");
    }
}
