//! A server's life, and the commands that talk to it.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

use crate::run::Folder;

/// A process that is killed when the test is over, however it ends.
struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
    err: BufReader<ChildStderr>,
}

impl Running {
    fn start(mut command: Command) -> Running {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary runs");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        let err = BufReader::new(child.stderr.take().expect("a pipe"));
        Running { child, out, err }
    }

    /// The next line of its output that holds `what`.
    #[track_caller]
    fn line_with(&mut self, what: &str) -> String {
        let found = line_with(&mut self.out, what);
        found.unwrap_or_else(|| panic!("it ended without saying {what:?}: {}", self.errors()))
    }

    /// The next line of its standard error that holds `what`.
    #[track_caller]
    fn error_with(&mut self, what: &str) -> String {
        let found = line_with(&mut self.err, what);
        found.unwrap_or_else(|| panic!("it ended without saying {what:?}"))
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &id]).status().expect("kill runs");
        assert!(sent.success());
    }

    /// Its exit code, and what it said on its standard error.
    fn end(mut self) -> (Option<i32>, String) {
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
fn dev(folder: &Folder) -> (Running, String) {
    listening(folder.command(&["dev", "--listen", "127.0.0.1:0"]))
}

fn listening(command: Command) -> (Running, String) {
    let mut server = Running::start(command);
    let line = server.line_with("console");
    let url = line.trim().trim_start_matches("console").trim();
    let url = url.trim_end_matches('/').to_owned();
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

/// A request that has begun and will not end by itself. The server's `100 Continue` says that it
/// waits for the body.
fn unfinished_request(url: &str) -> TcpStream {
    let address = url.trim_start_matches("http://");
    let mut socket = TcpStream::connect(address).expect("a connection");
    let head = format!(
        "PUT /v1/stream/doc HTTP/1.1\r\nhost: {address}\r\ncontent-length: 5\r\n\
         expect: 100-continue\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).expect("a request's head");
    let mut answer = [0; 12];
    socket.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 100");
    socket
}

#[test]
fn a_request_under_way_is_finished_before_the_server_ends() {
    let folder = Folder::new();
    let (mut server, url) = dev(&folder);
    let mut request = unfinished_request(&url);
    server.signal("-TERM");
    server.error_with("finishing requests under way");
    request.write_all(b"hello").expect("the body");
    let mut answer = String::new();
    request.read_to_string(&mut answer).expect("an answer");
    assert!(answer.contains("HTTP/1.1 201"), "{answer}");
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn a_second_signal_ends_a_server_at_once() {
    let folder = Folder::new();
    let (mut server, url) = dev(&folder);
    let _request = unfinished_request(&url);
    server.signal("-TERM");
    server.error_with("finishing requests under way");
    server.signal("-INT");
    assert_eq!(server.end().0, Some(130));
}

#[test]
fn a_tail_outlives_its_server() {
    let folder = Folder::new();
    let (server, url) = dev(&folder);
    let publish = |data: &str| {
        folder.run(&["publish", "doc", data, "--json", "--url", &url]).printed();
    };
    publish("1");
    let mut tail = Running::start(folder.command(&["tail", "--stream", "doc", "--url", &url]));
    tail.line_with("1");
    server.signal("-TERM");
    assert_eq!(server.end().0, Some(0));

    let address = url.trim_start_matches("http://");
    let (_server, _) = listening(folder.command(&["dev", "--listen", address]));
    publish("2");
    assert_eq!(tail.line_with(""), "2\n", "neither lost nor repeated");
}

#[test]
fn what_is_published_is_tailed_and_survives_a_restart() {
    let folder = Folder::new();
    let (server, url) = dev(&folder);
    let publish = |url: &str, data: &str| {
        folder.run(&["publish", "chat/1", data, "--url", url]).printed().trim().to_owned()
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
    let arguments = ["tail", "--stream", "chat/1", "--from", &first, "--url", &url];
    let mut tail = Running::start(folder.command(&arguments));
    assert_eq!(tail.line_with("n"), "{\"n\": 2}\n");
}

#[test]
fn a_second_server_on_the_folder_is_refused() {
    let folder = Folder::new();
    let (_server, _) = dev(&folder);
    let complaint = folder.run(&["dev", "--listen", "127.0.0.1:0"]).complained();
    assert!(complaint.contains("in use by another tidewire"), "{complaint}");
    assert!(!complaint.contains("Refused"), "{complaint}");
}

#[test]
fn serve_lets_in_those_who_have_the_key() {
    let folder = Folder::new();
    let mut command = folder.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("TIDEWIRE_ADMIN_KEY", "correct-horse-battery");
    let (server, url) = listening(command);

    let publish = ["publish", "doc", "hello", "--url", &url];
    let complaint = folder.run(&publish).complained();
    assert!(complaint.contains("token"), "{complaint}");
    folder.run_with(&publish, &[("TIDEWIRE_TOKEN", "correct-horse-battery")]).printed();

    server.signal("-TERM");
    let (code, said) = server.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("correct-horse"), "{said}");
}

#[test]
fn a_stream_that_is_not_there_cannot_be_tailed() {
    let folder = Folder::new();
    let (_server, url) = dev(&folder);
    let complaint = folder.run(&["tail", "--stream", "nowhere", "--url", &url]).complained();
    assert!(complaint.contains("there is no stream nowhere"), "{complaint}");
}

#[test]
fn a_store_can_be_migrated_without_serving() {
    let folder = Folder::new();
    let printed = folder.run(&["migrate", "--data", "here"]).printed();
    assert!(printed.starts_with("SQLite in here: "), "{printed}");
    assert!(folder.path().join("here").is_dir());
}
