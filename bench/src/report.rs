//! One run of a benchmark: who took part, what was measured, and the JSON file it ends in.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::machine::Machine;
use crate::servers::{Installed, Kind, Presence, presence};

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    benchmark: &'static str,
    /// `smoke`, `standard` or `full`: a smoke run proves that everything runs, and nothing about
    /// speed.
    scale: &'static str,
    started_at: String,
    revision: Option<String>,
    machine: Machine,
    servers: Vec<Participant>,
    /// What could not be measured on a server that is there, and why.
    absent: Vec<String>,
    sections: Map<String, Value>,
    /// What went wrong with Tidewire: must be empty.
    failures: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Participant {
    kind: Kind,
    #[serde(flatten)]
    presence: Presence,
    durability: &'static str,
}

impl Report {
    /// Looks at the machine and the servers, and prints what will run against what.
    pub(crate) fn open(
        benchmark: &'static str,
        scale: &'static str,
        revision: Option<String>,
        installed: &Installed,
        kinds: &[Kind],
    ) -> Result<Self> {
        let machine = Machine::look(installed.postgres.as_deref())?;
        let participant = |&kind: &Kind| Participant {
            kind,
            presence: presence(kind, installed),
            durability: kind.durability(),
        };
        let servers: Vec<Participant> = kinds.iter().map(participant).collect();
        println!("\n=== {benchmark} ({scale}) ===\n");
        machine.print();
        for server in &servers {
            match &server.presence {
                Presence::Version(version) => println!("{:<18}  {version}", server.kind.name()),
                Presence::Absent(reason) => {
                    println!("{:<18}  ABSENT: {reason}", server.kind.name())
                }
            }
            println!("{:<18}  {}", "", server.durability);
        }
        let started_at = jiff::Timestamp::now().to_string();
        Ok(Self {
            benchmark,
            scale,
            started_at,
            revision,
            machine,
            servers,
            absent: Vec::new(),
            sections: Map::new(),
            failures: Vec::new(),
        })
    }

    /// The servers that can be measured.
    pub(crate) fn present(&self) -> Vec<Kind> {
        let is_present = |server: &&Participant| matches!(server.presence, Presence::Version(_));
        self.servers.iter().filter(is_present).map(|server| server.kind).collect()
    }

    pub(crate) fn section(&mut self, name: &str, measured: &impl Serialize) -> Result<()> {
        self.sections.insert(name.to_owned(), serde_json::to_value(measured)?);
        Ok(())
    }

    pub(crate) fn note_failure(&mut self, failure: String) {
        self.failures.push(failure);
    }

    pub(crate) fn note_absence(&mut self, absence: String) {
        println!("{absence}");
        self.absent.push(absence);
    }

    /// Says again who was missing, and writes `folder/{benchmark}.json`.
    pub(crate) fn close(&self, folder: &Path) -> Result<()> {
        for server in &self.servers {
            if let Presence::Absent(reason) = &server.presence {
                println!("\nnot measured: {} ({reason})", server.kind.name());
            }
        }
        for absence in &self.absent {
            println!("\nnot measured: {absence}");
        }
        let path = folder.join(format!("{}.json", self.benchmark));
        fs::create_dir_all(folder)?;
        fs::write(&path, serde_json::to_string_pretty(self)? + "\n")
            .with_context(|| format!("write {}", path.display()))?;
        println!("\nwritten: {}", path.display());
        if !self.failures.is_empty() {
            bail!("{} measurements failed:\n{}", self.failures.len(), self.failures.join("\n"));
        }
        Ok(())
    }
}
