//! A PostgreSQL cluster of a story's own, to be stopped and started under the server's feet.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::port::free_port;
use crate::postgres::Sql;
use crate::process::{Process, succeed};
use crate::wait::eventually;

/// How PostgreSQL is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// Transactions are rolled back, connections ended, everything written out.
    Fast,
    /// A crash: the next start recovers from the WAL.
    Immediate,
}

/// A running cluster. Gone when dropped, with its data.
#[derive(Debug)]
pub struct Cluster {
    /// Dropped before the folder that it works in.
    server: Option<Process>,
    programs: PathBuf,
    folder: PathBuf,
    port: u16,
    /// Beside those that every cluster has.
    settings: Vec<String>,
    _parent: TempDir,
}

impl Cluster {
    /// Makes a cluster and starts it.
    pub async fn start() -> Cluster {
        Cluster::start_with(&[]).await
    }

    /// The same, with settings such as `wal_level=logical`.
    pub async fn start_with(settings: &[&str]) -> Cluster {
        let mut cluster = Cluster::place(settings).await;
        let initdb = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C.UTF-8"];
        succeed(cluster.command("initdb").arg("--no-sync").args(initdb)).await;
        cluster.resume().await;
        cluster
    }

    /// A standby of this cluster, which follows it under a name. It takes connections once it does.
    pub async fn standby(&self, name: &str) -> Cluster {
        let settings: Vec<&str> = self.settings.iter().map(String::as_str).collect();
        let mut standby = Cluster::place(&settings).await;
        let data = standby.folder.join("data");
        let source =
            format!("postgres://postgres@127.0.0.1:{}/postgres?application_name={name}", self.port);
        let copy =
            ["--checkpoint=fast", "--no-sync", "--write-recovery-conf", "--wal-method=stream"];
        let mut command = standby.command("pg_basebackup");
        succeed(command.args(copy).arg("--pgdata").arg(data).arg("--dbname").arg(source)).await;
        standby.resume().await;
        standby
    }

    /// A folder and a port for a cluster.
    async fn place(settings: &[&str]) -> Cluster {
        let parent = tempfile::tempdir().expect("a temporary folder");
        // PostgreSQL refuses to run as root, so its user must be able to pass through.
        let passable = std::fs::Permissions::from_mode(0o711);
        std::fs::set_permissions(parent.path(), passable).expect("chmod");
        let folder = parent.path().join("postgres");
        std::fs::create_dir(&folder).expect("mkdir");
        if is_root() {
            succeed(Command::new("chown").arg("postgres:").arg(&folder)).await;
        }
        Cluster {
            server: None,
            programs: programs(),
            folder,
            port: free_port(),
            settings: settings.iter().map(ToString::to_string).collect(),
            _parent: parent,
        }
    }

    /// The database that every cluster has.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// The same of whichever of two clusters takes writes.
    pub fn url_with(&self, other: &Cluster) -> String {
        let (port, other) = (self.port, other.port);
        format!("postgres://postgres@127.0.0.1:{port},127.0.0.1:{other}/postgres")
    }

    /// Makes a standby the one that takes writes, with what it has.
    pub async fn promote(&self) {
        succeed(self.command("pg_ctl").args(["promote", "--wait", "--silent"])).await;
    }

    /// `pg_ctl restart`, but for one thing: the new server is a child of this test, as the old one
    /// was, and ends with it.
    pub async fn restart(&mut self, shutdown: Shutdown) {
        self.stop(shutdown).await;
        self.resume().await;
    }

    /// Stops the server and waits until it is gone.
    pub async fn stop(&mut self, shutdown: Shutdown) {
        let mode = match shutdown {
            Shutdown::Fast => "--mode=fast",
            Shutdown::Immediate => "--mode=immediate",
        };
        let stop = ["stop", "--wait", "--silent", mode];
        succeed(self.command("pg_ctl").args(stop)).await;
    }

    /// Starts the server and waits until it takes connections.
    pub async fn resume(&mut self) {
        let mut command = self.command("postgres");
        command.args(["-p", &self.port.to_string()]);
        // fsync stays on: the stories are about what survives.
        for setting in
            ["listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=100"]
        {
            command.args(["-c", setting]);
        }
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        self.server = Some(Process::spawn(command));
        let url = self.url();
        eventually("PostgreSQL takes connections", async || {
            if let Some(status) = self.server.as_mut().and_then(Process::status) {
                panic!("PostgreSQL ended before it was ready ({status})");
            }
            Sql::connect(&url).await.ok()
        })
        .await;
    }

    /// A program of PostgreSQL, for this cluster's data, as a user that may run it.
    fn command(&self, program: &str) -> Command {
        let path = self.programs.join(program);
        let mut command = if is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=postgres", "--regid=postgres", "--init-groups", "--"]);
            command.arg(path);
            command
        } else {
            Command::new(path)
        };
        command.current_dir(&self.folder);
        command.env("PGDATA", self.folder.join("data"));
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Killing the first process alone would leave shared memory behind.
        let mut command = self.command("pg_ctl");
        let _ = command.args(["stop", "--silent", "--mode=immediate"]).output();
    }
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|this| this.uid() == 0)
}

/// The folder of initdb, postgres and pg_ctl: what `./test` found, else the newest version's, which
/// Debian keeps off the PATH.
pub(crate) fn programs() -> PathBuf {
    if let Some(folder) = std::env::var_os("TIDEWIRE_TEST_PG_BIN") {
        return folder.into();
    }
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest =
        versions.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).max().expect(
            "PostgreSQL is not installed: run ./test as root once, or apt-get install postgresql",
        );
    Path::new("/usr/lib/postgresql").join(newest.to_string()).join("bin")
}
