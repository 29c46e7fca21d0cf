//! Queues of jobs from npm, as they come and with what they have for working in batches.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::order::Effect;
use crate::servers::Installed;

/// A way to run one of them; `bench/peers/jobs.mjs` has the settings by the variant's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) package: &'static str,
    variant: &'static str,
    pub(crate) name: &'static str,
    /// Jobs that it takes at once.
    pub(crate) batch: usize,
}

impl Peer {
    const fn new(
        package: &'static str,
        variant: &'static str,
        name: &'static str,
        batch: usize,
    ) -> Self {
        Self { package, variant, name, batch }
    }

    pub(crate) const ALL: [Self; 7] = [
        Self::new("graphile-worker", "graphile-1", "graphile-worker", 1),
        Self::new("graphile-worker", "graphile-8", "graphile-worker, 8 at once", 1),
        Self::new("graphile-worker", "graphile-batched", "graphile-worker, local queue", 500),
        Self::new("pg-boss", "boss-work", "pg-boss work()", 1),
        Self::new("pg-boss", "boss-work-batched", "pg-boss work(), 100 each 0.5 s", 100),
        Self::new("pg-boss", "boss-fetch-1", "pg-boss fetch() 1, 8 loops", 1),
        Self::new("pg-boss", "boss-fetch-100", "pg-boss fetch() 100, 8 loops", 100),
    ];

    /// Its version, if it is installed.
    pub(crate) fn version(self, installed: &Installed) -> Result<String> {
        let manifest =
            folder(installed)?.join("node_modules").join(self.package).join("package.json");
        let text = std::fs::read_to_string(&manifest)
            .with_context(|| format!("{} is not installed", self.package))?;
        let manifest: Value = serde_json::from_str(&text)?;
        Ok(manifest["version"].as_str().unwrap_or("of unknown version").to_owned())
    }

    /// The process that fills its queue with so many jobs and drains it.
    pub(crate) fn command(
        self,
        installed: &Installed,
        effect: Effect,
        url: &str,
        jobs: u64,
        seconds: f64,
    ) -> Result<Command> {
        let mut command = Command::new("node");
        command.arg(folder(installed)?.join("jobs.mjs"));
        command.args([self.variant, effect.name(), url, &jobs.to_string(), &seconds.to_string()]);
        Ok(command)
    }
}

fn folder(installed: &Installed) -> Result<&PathBuf> {
    installed.node_peer.as_ref().context("bench/peers/install has not been run")
}
