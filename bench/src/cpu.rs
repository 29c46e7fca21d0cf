//! CPU time and memory of processes, from `/proc`: what an event costs the server, its database, and
//! the load generator, and what a connection keeps.

use std::fs;

use anyhow::{Context, Result};

/// `/proc/PID/stat` counts in `USER_HZ`, which is 100 in every Linux ABI Rust's standard library
/// runs on.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Debug)]
struct Stat {
    parent: u32,
    spent: Spent,
}

/// CPU seconds, by whose instructions they went to.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spent {
    /// The program's own.
    pub(crate) user: f64,
    /// The kernel's on the program's behalf: of a server, mostly what it sends.
    pub(crate) system: f64,
}

impl Spent {
    pub(crate) fn total(self) -> f64 {
        self.user + self.system
    }
}

/// What a process and its children that have ended have spent.
pub(crate) fn spent(pid: u32) -> Result<Spent> {
    Ok(stat(pid)?.spent)
}

/// CPU seconds of a process and of its children that have ended.
pub(crate) fn seconds(pid: u32) -> Result<f64> {
    Ok(spent(pid)?.total())
}

/// Resident memory of a process.
pub(crate) fn resident_kib(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
    number.with_context(|| format!("{path} has no VmRSS"))
}

/// CPU seconds of the load generator itself.
pub(crate) fn own_seconds() -> Result<f64> {
    seconds(std::process::id())
}

/// CPU seconds of a process and all its children, running or ended: a PostgreSQL cluster by its
/// postmaster.
pub(crate) fn seconds_with_children(pid: u32) -> Result<f64> {
    let mut total = seconds(pid)?;
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(child) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A process that ends while we look has been counted with its parent, or will be.
        if let Ok(stat) = stat(child)
            && stat.parent == pid
        {
            total += stat.spent.total();
        }
    }
    Ok(total)
}

/// CPU seconds the whole machine has spent on anything, time stolen by its host included.
pub(crate) fn machine_seconds() -> Result<f64> {
    let text = fs::read_to_string("/proc/stat")?;
    busy_seconds(&text).context("/proc/stat has an unknown form")
}

/// Fields of the first line: user, nice, system, idle, iowait, irq, softirq, steal.
fn busy_seconds(text: &str) -> Option<f64> {
    let fields = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let ticks: Vec<f64> = fields.take(8).map(|field| field.parse().ok()).collect::<Option<_>>()?;
    let idle = ticks.get(3)? + ticks.get(4)?;
    Some((ticks.iter().sum::<f64>() - idle) / TICKS_PER_SECOND)
}

/// The parent of a process.
pub(crate) fn parent(pid: u32) -> Result<u32> {
    Ok(stat(pid)?.parent)
}

fn stat(pid: u32) -> Result<Stat> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    parse(&text).with_context(|| format!("{path} has an unknown form"))
}

/// The command name in parentheses may itself hold spaces and parentheses, so fields count from the
/// last one.
fn parse(text: &str) -> Option<Stat> {
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
    let number = |index: usize| fields.get(index)?.parse::<u32>().ok();
    let seconds = |own: usize, of_children: usize| {
        Some(f64::from(number(own)? + number(of_children)?) / TICKS_PER_SECOND)
    };
    let spent = Spent { user: seconds(11, 13)?, system: seconds(12, 14)? };
    Some(Stat { parent: number(1)?, spent })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_name_with_spaces_and_parentheses_shifts_nothing() {
        let text = "42 (a (b) c) S 7 1 1 0 -1 4194304 100 0 0 0 150 50 30 20 20 0 1";
        let stat = parse(text).expect("parses");
        assert_eq!(stat.parent, 7);
        assert!((stat.spent.user - 1.8).abs() < 1e-9);
        assert!((stat.spent.system - 0.7).abs() < 1e-9);
    }

    #[test]
    fn idle_and_waiting_time_is_not_busy() {
        let busy = busy_seconds("cpu  100 0 50 9000 800 0 25 25 0 0\ncpu0 1 1 1\n");
        assert_eq!(busy, Some(2.0));
    }
}
