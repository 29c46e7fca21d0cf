//! Runs `tidewire` in an empty folder, without the variables of whoever runs the tests.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// An empty folder to run in.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a folder"))
    }

    /// With this `tidewire.toml` in it.
    pub(crate) fn with_config(text: &str) -> Folder {
        let folder = Folder::new();
        std::fs::write(folder.path().join("tidewire.toml"), text).expect("a file");
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The command, to be run here.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidewire"));
        command.args(arguments).current_dir(self.path()).env_remove("COLUMNS");
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TIDEWIRE_") {
                command.env_remove(name);
            }
        }
        command
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        self.run_with(arguments, &[])
    }

    /// Runs it to its end, with these variables.
    pub(crate) fn run_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Ended {
        let mut command = self.command(arguments);
        let output = command.envs(variables.iter().copied()).output().expect("the binary runs");
        Ended {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// A process that has ended, and all it said.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    /// What it printed; it must have gone well.
    #[track_caller]
    pub(crate) fn printed(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.out
    }

    /// What it complained about; it must have failed, and printed nothing else.
    #[track_caller]
    pub(crate) fn complained(self) -> String {
        assert_eq!(self.code, Some(1), "{self:?}");
        assert_eq!(self.out, "");
        self.err
    }
}
