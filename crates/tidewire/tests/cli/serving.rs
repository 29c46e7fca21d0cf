//! A server's life, and the commands that talk to it.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::run::{Ended, Folder};

/// A process that is killed when the test is over, however it ends.
struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Running {
    fn start(mut command: Command) -> Running {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary runs");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        Running { child, out }
    }

    /// Reads lines until one holds `what`, and gives that one back.
    fn line_with(&mut self, what: &str) -> String {
        loop {
            let mut line = String::new();
            let read = self.out.read_line(&mut line).expect("output");
            assert!(
                read > 0,
                "it ended without saying {what:?}: {}",
                self.errors()
            );
            if line.contains(what) {
                return line;
            }
        }
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill")
            .args([name, &id])
            .status()
            .expect("kill runs");
        assert!(sent.success());
    }

    /// Its exit code, and what it said on its standard error.
    fn end(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().expect("it ends");
        (status.code(), self.errors())
    }

    fn errors(&mut self) -> String {
        let mut text = String::new();
        let _ = self.child.kill();
        if let Some(mut err) = self.child.stderr.take() {
            err.read_to_string(&mut text).expect("text");
        }
        text
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A development server on a free port, and its URL as its banner says it.
fn dev(folder: &Folder) -> (Running, String) {
    let mut server = Running::start(folder.command(&["dev", "--listen", "127.0.0.1:0"]));
    let line = server.line_with("console");
    let url = line
        .trim()
        .trim_start_matches("console")
        .trim()
        .trim_end_matches('/')
        .to_owned();
    (server, url)
}

#[test]
fn signals_end_a_server_with_success() {
    for signal in ["-TERM", "-INT"] {
        let folder = Folder::new();
        let (server, _) = dev(&folder);
        server.signal(signal);
        let (code, said) = server.end();
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("stopped"), "{said}");
    }
}

#[test]
fn what_is_published_is_tailed_and_survives_a_restart() {
    let folder = Folder::new();
    let (server, url) = dev(&folder);
    let publish = |url: &str, data: &str| {
        folder
            .run(&["publish", "chat/1", data, "--url", url])
            .printed()
            .trim()
            .to_owned()
    };
    let first = publish(&url, r#"{"n": 1}"#);
    let mut tail = Running::start(folder.command(&["tail", "--stream", "chat/1", "--url", &url]));
    assert_eq!(tail.line_with("1"), "{\"n\": 1}\n");
    publish(&url, r#"[{"n": 2}, {"n": 3}]"#);
    assert_eq!(tail.line_with("2"), "{\"n\": 2}\n");
    assert_eq!(tail.line_with("3"), "{\"n\": 3}\n");
    tail.signal("-INT");
    assert_eq!(tail.end().0, Some(0));
    server.signal("-TERM");
    assert_eq!(server.end().0, Some(0));

    let (_server, url) = dev(&folder);
    let arguments = [
        "tail", "--stream", "chat/1", "--from", &first, "--url", &url,
    ];
    let mut tail = Running::start(folder.command(&arguments));
    assert_eq!(tail.line_with("n"), "{\"n\": 2}\n");
}

#[test]
fn a_second_server_on_the_folder_is_refused() {
    let folder = Folder::new();
    let (_server, _) = dev(&folder);
    let complaint = folder.run(&["dev", "--listen", "127.0.0.1:0"]).complained();
    assert!(
        complaint.contains("in use by another tidewire"),
        "{complaint}"
    );
    assert!(!complaint.contains("Refused"), "{complaint}");
}

#[test]
fn serve_lets_in_those_who_have_the_key() {
    let folder = Folder::new();
    let mut command = folder.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("TIDEWIRE_ADMIN_KEY", "correct-horse-battery");
    let mut server = Running::start(command);
    let line = server.line_with("console");
    let url = line
        .trim()
        .trim_start_matches("console")
        .trim()
        .trim_end_matches('/');

    let mut command = folder.command(&["publish", "doc", "hello", "--url", url]);
    let complaint = Ended::of(command).complained();
    assert!(complaint.contains("token"), "{complaint}");
    command = folder.command(&["publish", "doc", "hello", "--url", url]);
    command.env("TIDEWIRE_TOKEN", "correct-horse-battery");
    Ended::of(command).printed();

    server.signal("-TERM");
    let (code, said) = server.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("correct-horse"), "{said}");
}

#[test]
fn a_stream_that_is_not_there_cannot_be_tailed() {
    let folder = Folder::new();
    let (_server, url) = dev(&folder);
    let complaint = folder
        .run(&["tail", "--stream", "nowhere", "--url", &url])
        .complained();
    assert!(
        complaint.contains("there is no stream nowhere"),
        "{complaint}"
    );
}

#[test]
fn a_store_can_be_migrated_without_serving() {
    let folder = Folder::new();
    let printed = folder.run(&["migrate", "--data", "here"]).printed();
    assert!(printed.starts_with("SQLite in here: "), "{printed}");
    assert!(folder.path().join("here").is_dir());
}
