//! SIGINT and SIGTERM stop a server; SIGHUP makes it read its configuration again.

use std::fmt;

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A signal to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopSignal {
    Interrupt,
    Terminate,
}

impl StopSignal {
    /// 128 + the signal's number, as shells report it.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            StopSignal::Interrupt => 130,
            StopSignal::Terminate => 143,
        }
    }
}

impl fmt::Display for StopSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StopSignal::Interrupt => "SIGINT",
            StopSignal::Terminate => "SIGTERM",
        })
    }
}

/// The signals. From its making on they no longer end the process by themselves.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    pub(crate) fn listen() -> anyhow::Result<Signals> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        let interrupt = listen(SignalKind::interrupt())?;
        let terminate = listen(SignalKind::terminate())?;
        Ok(Signals { interrupt, terminate, hang_up: listen(SignalKind::hangup())? })
    }

    /// The next signal to stop. Until then, every SIGHUP is a request to reload.
    pub(crate) async fn next(&mut self, reload: impl Fn()) -> StopSignal {
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => return StopSignal::Interrupt,
                _ = self.terminate.recv() => return StopSignal::Terminate,
                _ = self.hang_up.recv() => reload(),
            }
        }
    }
}
