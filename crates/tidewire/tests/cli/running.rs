//! Processes that a test starts and controls: servers, and clients that keep running.

use std::io::{BufRead, BufReader, Read as _};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

use crate::run::Folder;

/// A process that is killed when the test is over, however it ends.
pub(crate) struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
    err: BufReader<ChildStderr>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Running {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary runs");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        let err = BufReader::new(child.stderr.take().expect("a pipe"));
        Running { child, out, err }
    }

    /// The next line of its output that holds `what`.
    #[track_caller]
    pub(crate) fn line_with(&mut self, what: &str) -> String {
        let found = line_with(&mut self.out, what);
        found.unwrap_or_else(|| panic!("it ended without saying {what:?}: {}", self.errors()))
    }

    /// The next line of its standard error that holds `what`.
    #[track_caller]
    pub(crate) fn error_with(&mut self, what: &str) -> String {
        let found = line_with(&mut self.err, what);
        found.unwrap_or_else(|| panic!("it ended without saying {what:?}"))
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &id]).status().expect("kill runs");
        assert!(sent.success());
    }

    /// Its exit code, and what it said on its standard error.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().expect("it ends");
        (status.code(), self.errors())
    }

    fn errors(&mut self) -> String {
        let _ = self.child.kill();
        let mut text = String::new();
        self.err.read_to_string(&mut text).expect("text");
        text
    }
}

fn line_with(output: &mut impl BufRead, what: &str) -> Option<String> {
    loop {
        let mut line = String::new();
        if output.read_line(&mut line).expect("text") == 0 {
            return None;
        }
        if line.contains(what) {
            return Some(line);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A development server on a free port, and its URL as its banner says it.
pub(crate) fn dev(folder: &Folder) -> (Running, String) {
    listening(folder.command(&["dev", "--listen", "127.0.0.1:0"]))
}

pub(crate) fn listening(command: Command) -> (Running, String) {
    let mut server = Running::start(command);
    let line = server.line_with("console");
    let url = line.trim().trim_start_matches("console").trim();
    let url = url.trim_end_matches('/').to_owned();
    (server, url)
}
