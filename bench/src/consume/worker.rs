//! A worker under measurement: a process of its own, so that its CPU can be told from the database's.
//!
//! It prepares itself, says `ready`, waits for a line, works until nothing is left or its time is over, tells
//! what it has done as a line of JSON, and stays until its input ends. `bench/peers/jobs.mjs` does the same.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::available_parallelism;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::cost::{Cost, Reading};
use crate::cpu;
use crate::quiet::Disturbed;
use crate::servers::Processes;

const READY: &str = "ready";
/// The first lines say what it is; what follows is where.
const COMPLAINT_LINES: usize = 6;

/// What a worker has done.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Done {
    /// Events or jobs that were worked off in `seconds`.
    pub(crate) events: u64,
    pub(crate) seconds: f64,
    /// All that took effect, with what was finished after the time was over; where the worker knows it.
    #[serde(default)]
    pub(crate) finally: Option<u64>,
}

/// What it cost.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) done: Done,
    pub(crate) cost: Cost,
    pub(crate) node_us: Option<f64>,
}

impl Disturbed for Measured {
    fn others_share(&self) -> f64 {
        self.cost.others_share
    }
}

#[derive(Debug)]
pub(crate) struct Worker {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// What it complains of.
    complaints: File,
}

impl Worker {
    /// Starts one and waits until it is ready.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let complaints = tempfile::tempfile()?;
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(complaints.try_clone()?)
            .spawn()
            .with_context(|| format!("start {:?}", command.get_program()))?;
        let input = child.stdin.take().context("the worker has an input")?;
        let output = BufReader::new(child.stdout.take().context("the worker has an output")?);
        let mut worker = Self { child, input, output, complaints };
        let line = worker.line()?;
        ensure!(line == READY, "the worker said {line:?} where it should be ready");
        Ok(worker)
    }

    /// Lets it work, and measures what that costs it, the database, and the node that it speaks to.
    pub(crate) fn work(&mut self, postmaster: Option<u32>, node: Option<u32>) -> Result<Measured> {
        let processes = Processes { server: Some(self.child.id()), postmaster };
        let node_seconds = || node.map_or(Ok(0.0), cpu::seconds);
        let (opened, node_before) = (Reading::take(processes)?, node_seconds()?);
        let began = Instant::now();
        writeln!(self.input, "go")?;
        let line = self.line()?;
        let available = began.elapsed().as_secs_f64() * available_parallelism()?.get() as f64;
        let (closed, node_spent) = (Reading::take(processes)?, node_seconds()? - node_before);
        let done: Done = serde_json::from_str(&line)
            .with_context(|| format!("the worker said {line:?} where it should be done"))?;
        let count = done.finally.unwrap_or(done.events);
        let mut cost = Cost::between(opened, closed, count)?;
        cost.others_share = (cost.others_share - node_spent / available).max(0.0);
        let node_us = node.map(|_| node_spent * 1e6 / count.max(1) as f64);
        Ok(Measured { done, cost, node_us })
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? > 0 {
            return Ok(line.trim_end().to_owned());
        }
        let mut complaints = String::new();
        self.complaints.rewind()?;
        self.complaints.read_to_string(&mut complaints)?;
        let first: Vec<&str> = complaints.lines().take(COMPLAINT_LINES).collect();
        bail!("the worker ended before its time: {}", first.join(" / "))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It has told what it did, or failed: nothing is lost.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// In the worker: says that all is prepared, and waits for the word to begin.
pub(crate) fn wait_for_word() -> Result<()> {
    println!("{READY}");
    std::io::stdout().flush()?;
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}

/// In the worker: tells what was done, and stays until it may go.
pub(crate) fn tell(done: Done) -> Result<()> {
    println!("{}", serde_json::to_string(&done)?);
    std::io::stdout().flush()?;
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}
