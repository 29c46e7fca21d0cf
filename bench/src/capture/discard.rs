//! Whoever reads a slot and throws away what it gets: the least that reading the write-ahead log costs
//! writers on the same machine. PostgreSQL's own `pg_recvlogical` does it.

use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use crate::postgres::Session;

/// The program, where PostgreSQL's own are in the path.
const PROGRAM: &str = "pg_recvlogical";
const PUBLICATION: &str = "thrown_away";

/// The table's changes, published as Tidewire has them published.
pub(crate) const SCHEMA: &str = "
    ALTER TABLE orders REPLICA IDENTITY FULL;
    CREATE PUBLICATION thrown_away FOR TABLE orders";

/// Makes the slot, which has the database's name.
pub(crate) fn make_slot(session: &Session) -> Result<()> {
    // By itself: not in a transaction that has written something.
    session.run("SELECT pg_create_logical_replication_slot(current_database(), 'pgoutput')")
}

pub(crate) fn is_installed() -> bool {
    let version = Command::new(PROGRAM).arg("--version").stdout(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// A reader at work. It ends when dropped.
#[derive(Debug)]
pub(crate) struct Reader(Child);

impl Reader {
    pub(crate) fn start(url: &str) -> Result<Self> {
        let slot = Session::connect(url)?.text("SELECT current_database()::text")?;
        let mut command = Command::new(PROGRAM);
        command.args(["--start", "--no-loop", "--status-interval=1", "--fsync-interval=1"]);
        command.args(["--dbname", url, "--slot", &slot, "--file=/dev/null"]);
        command.arg("--option=proto_version=1");
        command.arg(format!("--option=publication_names={PUBLICATION}"));
        let child = command.spawn().with_context(|| format!("start {PROGRAM}"))?;
        Ok(Self(child))
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }
}

/// Waits until everything is read that was committed before this.
pub(crate) fn catch_up(session: &Session) -> Result<()> {
    let written = session.text("SELECT pg_current_wal_lsn()::text")?;
    let read = format!(
        "SELECT (confirmed_flush_lsn >= '{written}')::text FROM pg_replication_slots
         WHERE slot_name = current_database()"
    );
    session.wait_until(&read, "what was committed is not read")
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
