//! Waiting for others to finish: on a shared machine a measurement beside somebody's build is
//! worth nothing.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::cpu;

/// Below this share of all cores in use, the machine is as good as idle.
const BUSY_SHARE_MAX: f64 = 0.1;
const LOOK: Duration = Duration::from_millis(500);

/// Returns when the machine has been idle for a moment, or after `patience`: the measurement that
/// follows says in its own numbers how much others used.
pub(crate) fn wait(patience: Duration) -> Result<()> {
    let cores = thread::available_parallelism()?.get() as f64;
    let gives_up = Instant::now() + patience;
    while Instant::now() < gives_up {
        let before = cpu::machine_seconds()?;
        thread::sleep(LOOK);
        let busy = cpu::machine_seconds()? - before;
        if busy / (LOOK.as_secs_f64() * cores) < BUSY_SHARE_MAX {
            break;
        }
    }
    Ok(())
}
