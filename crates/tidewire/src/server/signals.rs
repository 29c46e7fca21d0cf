//! SIGINT and SIGTERM.

use std::fmt;

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A wish that we end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Interrupt,
    Terminate,
}

impl Ending {
    /// 128 + the signal's number, as shells report it.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Ending::Interrupt => 130,
            Ending::Terminate => 143,
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ending::Interrupt => "SIGINT",
            Ending::Terminate => "SIGTERM",
        })
    }
}

/// Both signals. From its making on they no longer end the process by themselves.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(crate) fn listen() -> anyhow::Result<Signals> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        let interrupt = listen(SignalKind::interrupt())?;
        Ok(Signals { interrupt, terminate: listen(SignalKind::terminate())? })
    }

    pub(crate) async fn next(&mut self) -> Ending {
        tokio::select! {
            _ = self.interrupt.recv() => Ending::Interrupt,
            _ = self.terminate.recv() => Ending::Terminate,
        }
    }
}
