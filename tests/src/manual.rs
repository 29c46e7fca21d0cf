//! The commands of BACKUP.md, run as a reader of it would.

use std::path::Path;
use std::process::Command;

use crate::cluster::programs;
use crate::launch::binary;
use crate::process::{Ended, Process};

const MANUAL: &str = include_str!("../../BACKUP.md");

/// Runs the block of commands that is marked so, in a folder, with these variables.
pub async fn run(mark: &str, folder: &Path, variables: &[(&str, &str)]) -> Ended {
    let fence = format!("```sh {mark}\n");
    let block = MANUAL.split(&fence).nth(1).unwrap_or_else(|| panic!("no block {mark:?}"));
    let commands = block.split("\n```").next().unwrap_or_default();
    let binary = binary();
    let ours = binary.parent().expect("a folder with the binary");
    let system = std::env::var_os("PATH").unwrap_or_default();
    let paths = [programs(), ours.to_owned()].into_iter().chain(std::env::split_paths(&system));
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", commands]).current_dir(folder);
    shell.env("PATH", std::env::join_paths(paths).expect("a path"));
    // The variables of whoever runs the tests would be settings.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TIDEWIRE_") {
            shell.env_remove(name);
        }
    }
    shell.envs(variables.iter().copied());
    Process::spawn(shell).ended().await
}

/// Runs a block that must succeed.
pub async fn follow(mark: &str, folder: &Path, variables: &[(&str, &str)]) -> Ended {
    let ended = run(mark, folder, variables).await;
    assert_eq!(ended.code, Some(0), "{mark}: {}", ended.said);
    ended
}
