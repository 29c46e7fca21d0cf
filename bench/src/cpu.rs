//! CPU time of processes, from `/proc`: what an event costs the server, its database, and the load
//! generator.

use std::fs;

use anyhow::{Context, Result};

/// `/proc/PID/stat` counts in `USER_HZ`, which is 100 in every Linux ABI Rust's standard library
/// runs on.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Debug)]
struct Stat {
    parent: u32,
    seconds: f64,
}

/// CPU seconds of a process and of its children that have ended.
pub(crate) fn seconds(pid: u32) -> Result<f64> {
    Ok(stat(pid)?.seconds)
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
            total += stat.seconds;
        }
    }
    Ok(total)
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
    let ticks = number(11)? + number(12)? + number(13)? + number(14)?;
    Some(Stat {
        parent: number(1)?,
        seconds: f64::from(ticks) / TICKS_PER_SECOND,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_name_with_spaces_and_parentheses_shifts_nothing() {
        let text = "42 (a (b) c) S 7 1 1 0 -1 4194304 100 0 0 0 150 50 30 20 20 0 1";
        let stat = parse(text).expect("parses");
        assert_eq!(stat.parent, 7);
        assert!((stat.seconds - 2.5).abs() < 1e-9);
    }
}
