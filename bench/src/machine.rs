//! What the numbers were measured on: without it they mean nothing.

use std::fs::{self, File};
use std::io::Write;
use std::time::Instant;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::latency::Latencies;
use crate::postgres::Session;

/// Enough syncs for a steady median, few enough to take well under a second on a slow disk.
const SYNC_ROUNDS: usize = 50;

#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    cores: usize,
    cpu: String,
    kernel: String,
    /// Of the folder the stores are in.
    filesystem: String,
    /// Median time to append 4 KiB to a file there and `fdatasync` it: the price of durability
    /// here.
    fdatasync_ms: f64,
    sqlite: String,
    /// Version and durability settings; `None` without a PostgreSQL.
    postgres: Option<String>,
}

impl Machine {
    pub(crate) fn look(postgres_url: Option<&str>) -> Result<Self> {
        Ok(Self {
            cores: std::thread::available_parallelism()?.get(),
            cpu: cpu_model()?,
            kernel: read_trimmed("/proc/sys/kernel/osrelease")?,
            filesystem: filesystem()?,
            fdatasync_ms: fdatasync_ms()?,
            sqlite: rusqlite::version().to_owned(),
            postgres: postgres_url.map(postgres).transpose()?,
        })
    }

    pub(crate) fn print(&self) {
        println!("machine     {} cores, {}, Linux {}", self.cores, self.cpu, self.kernel);
        println!(
            "disk        {}, append 4 KiB + fdatasync: {:.2} ms (median)",
            self.filesystem, self.fdatasync_ms
        );
        println!("SQLite      {}", self.sqlite);
        println!("PostgreSQL  {}", self.postgres.as_deref().unwrap_or("absent"));
        if self.filesystem == "tmpfs" {
            println!(
                "warning     the stores are in memory: syncing costs nothing here, set TMPDIR"
            );
        }
    }
}

fn read_trimmed(path: &str) -> Result<String> {
    Ok(fs::read_to_string(path).with_context(|| path.to_owned())?.trim().to_owned())
}

fn cpu_model() -> Result<String> {
    let text = fs::read_to_string("/proc/cpuinfo")?;
    let model = text.lines().find(|line| line.starts_with("model name"));
    let name = model.and_then(|line| line.split_once(": ")).map(|(_, name)| name.trim());
    Ok(name.unwrap_or("unknown CPU").to_owned())
}

/// The type of the mount that holds the temporary folder: the longest mount point that is a prefix
/// of it.
fn filesystem() -> Result<String> {
    let folder = std::env::temp_dir().canonicalize()?;
    let mounts = fs::read_to_string("/proc/mounts")?;
    let mount_of = |line: &str| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?.to_owned(), fields.next()?.to_owned()))
    };
    let holding =
        mounts.lines().filter_map(mount_of).filter(|(point, _)| folder.starts_with(point));
    let longest = holding.max_by_key(|(point, _)| point.len());
    Ok(longest.map_or_else(|| "unknown file system".to_owned(), |(_, kind)| kind))
}

fn fdatasync_ms() -> Result<f64> {
    let folder = tempfile::tempdir()?;
    let mut file = File::create(folder.path().join("sync"))?;
    let mut latencies = Latencies::default();
    for _ in 0..SYNC_ROUNDS {
        let start = Instant::now();
        file.write_all(&[0; 4096])?;
        file.sync_data()?;
        latencies.record(start.elapsed());
    }
    Ok(latencies.percentiles().p50_ms)
}

fn postgres(url: &str) -> Result<String> {
    Session::connect(url)?.text(
        "SELECT format('%s, synchronous_commit=%s, fsync=%s, shared_buffers=%s, max_wal_size=%s', \
         current_setting('server_version'), current_setting('synchronous_commit'), \
         current_setting('fsync'), current_setting('shared_buffers'), \
         current_setting('max_wal_size'))",
    )
}
