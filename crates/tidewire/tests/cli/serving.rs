//! A server's life.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::run::Folder;
use crate::running::{dev, listening};

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
fn a_store_can_be_migrated_without_serving() {
    let folder = Folder::new();
    let printed = folder.run(&["migrate", "--data", "here"]).printed();
    assert!(printed.starts_with("SQLite in here: "), "{printed}");
    assert!(folder.path().join("here").is_dir());
}
