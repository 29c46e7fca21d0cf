//! A server under test as a child process: started on a free loopback port, killed when dropped.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::load::client::Client;

/// Opening a log of ten million events takes seconds on a slow disk.
const START_WAIT: Duration = Duration::from_secs(60);
const LOG_TAIL_BYTES: usize = 2000;

#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    pub(crate) address: SocketAddr,
}

/// Ports nobody listens on. They are free again when this returns, so another process could take
/// one first; the server would then fail to start, and say so.
pub(crate) fn free_addresses<const COUNT: usize>() -> Result<[SocketAddr; COUNT]> {
    let listen = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let listeners = (0..COUNT).map(listen).collect::<Result<Vec<_>, _>>()?;
    let addresses = listeners.iter().map(TcpListener::local_addr).collect::<Result<Vec<_>, _>>()?;
    addresses.try_into().map_err(|_| anyhow::anyhow!("as many addresses as listeners"))
}

impl Process {
    /// Runs `command` with its output in `folder/server.log` and waits until `ready_path` is
    /// answered with 200.
    pub(crate) fn start(
        command: &mut Command,
        address: SocketAddr,
        ready_path: &str,
        folder: &Path,
    ) -> Result<Self> {
        let log_path = folder.join("server.log");
        let log = File::create(&log_path)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("start {:?}", command.get_program()))?;
        let mut process = Self { child, address };
        process.wait_until_ready(ready_path).with_context(|| {
            let log = std::fs::read_to_string(&log_path).unwrap_or_default();
            format!("the server's log ends with:\n{}", tail(&log))
        })?;
        Ok(process)
    }

    fn wait_until_ready(&mut self, ready_path: &str) -> Result<()> {
        let gives_up = Instant::now() + START_WAIT;
        while Instant::now() < gives_up {
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended at start with {status}");
            }
            let answer =
                Client::connect(self.address).and_then(|mut client| client.get(ready_path));
            if answer.is_ok_and(|answer| answer.status == 200) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!("the server was not ready after {} s", START_WAIT.as_secs())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // What was measured is over and the data is thrown away, so nothing is lost with a kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn tail(log: &str) -> &str {
    let start = log.len().saturating_sub(LOG_TAIL_BYTES);
    let start = (start..log.len()).find(|at| log.is_char_boundary(*at)).unwrap_or(0);
    &log[start..]
}
