//! How much memory the process uses, and how much it may.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use tokio_util::sync::CancellationToken;

use crate::problem::Problem;

/// How often to look.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Memory against its budget.
#[derive(Debug)]
pub struct Memory {
    budget_bytes: u64,
    resident_bytes: AtomicU64,
    warned: AtomicBool,
}

impl Memory {
    pub(crate) fn new(budget_bytes: usize) -> Memory {
        Memory {
            budget_bytes: budget_bytes as u64,
            resident_bytes: AtomicU64::new(resident_bytes().unwrap_or(0)),
            warned: AtomicBool::new(false),
        }
    }

    pub fn resident_bytes(&self) -> u64 {
        self.resident_bytes.load(Ordering::Relaxed)
    }

    pub fn budget_bytes(&self) -> u64 {
        self.budget_bytes
    }

    /// Whether there is no room for more.
    pub(crate) fn is_over(&self) -> bool {
        self.resident_bytes() > self.budget_bytes
    }

    /// Refuses what takes more of it, where there is no room.
    pub fn make_room(&self) -> Result<(), Problem> {
        if !self.is_over() {
            return Ok(());
        }
        Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "over_memory_budget",
            "the server uses as much memory as it may (live.memory_bytes_max)",
            "come back later, or go to another node",
        )
        .retry_after_s(5))
    }

    /// Looks now and then, until the node stops.
    pub async fn keep(&self, stop: CancellationToken) {
        let mut round = tokio::time::interval(LOOK_EVERY);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = round.tick() => self.look(),
            }
        }
    }

    fn look(&self) {
        let Some(resident) = resident_bytes() else { return };
        self.resident_bytes.store(resident, Ordering::Relaxed);
        // Warned of once when it gets there, and again only after it was well below.
        if resident > self.budget_bytes / 10 * 8 {
            if !self.warned.swap(true, Ordering::Relaxed) {
                let budget = self.budget_bytes;
                tracing::warn!(resident, budget, "over 80 % of the memory budget is used");
            }
        } else if resident < self.budget_bytes / 10 * 7 {
            self.warned.store(false, Ordering::Relaxed);
        }
    }
}

/// The process's resident memory, where the system tells.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}
