//! `tidewire tail`, on servers that run.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::run::Folder;
use crate::running::{Running, dev, listening};

/// Closes a stream, or deletes it.
fn end_stream(url: &str, method: &str, stream: &str) {
    let address = url.trim_start_matches("http://");
    let mut socket = TcpStream::connect(address).expect("a connection");
    let head = format!(
        "{method} /v1/stream/{stream} HTTP/1.1\r\nhost: {address}\r\nstream-closed: true\r\n\
         content-length: 0\r\nconnection: close\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).expect("a request");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
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
    tail.signal("-INT");
    let (code, said) = tail.end();
    assert_eq!(code, Some(0), "{said}");
    for once in ["trying again", "connected again"] {
        assert_eq!(said.matches(once).count(), 1, "{said}");
    }
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
fn a_stream_that_is_not_there_cannot_be_tailed() {
    let folder = Folder::new();
    let (_server, url) = dev(&folder);
    let complaint = folder.run(&["tail", "--stream", "nowhere", "--url", &url]).complained();
    assert!(
        complaint.contains("cannot follow nowhere: there is no stream of this name"),
        "{complaint}"
    );
}

#[test]
fn text_and_bytes_are_printed_as_they_were_appended() {
    let folder = Folder::new();
    let (_server, url) = dev(&folder);
    let publish = |stream: &str, content_type: &str, data: &str| {
        let arguments = ["publish", stream, data, "--content-type", content_type, "--url", &url];
        folder.run(&arguments).printed();
    };
    publish("text", "text/plain", "it's \"text\"");
    publish("text", "text/plain", "two\nlines\n");
    publish("bytes", "application/octet-stream", "\u{1}\u{2}");
    let tail =
        |stream: &str| Running::start(folder.command(&["tail", "--stream", stream, "--url", &url]));
    let mut text = tail("text");
    let lines: Vec<String> = (0..3).map(|_| text.line_with("")).collect();
    assert_eq!(lines, ["it's \"text\"\n", "two\n", "lines\n"]);
    assert_eq!(tail("bytes").line_with(""), "\u{1}\u{2}\n");
}

#[test]
fn of_several_streams_each_line_is_named_and_the_end_is_that_of_the_last() {
    let folder = Folder::new();
    let (_server, url) = dev(&folder);
    let publish = |stream: &str, data: &str| {
        folder.run(&["publish", stream, data, "--url", &url]).printed();
    };
    publish("a", r#"{"n": 1}"#);
    publish("b", "one\ntwo");
    let arguments = ["tail", "--stream", "a", "--stream", "b", "--url", &url];
    let mut tail = Running::start(folder.command(&arguments));
    let mut lines: Vec<String> = (0..3).map(|_| tail.line_with("")).collect();
    lines.sort();
    assert_eq!(lines, ["a\t{\"n\": 1}\n", "b\tone\n", "b\ttwo\n"]);
    end_stream(&url, "POST", "a");
    tail.error_with("the stream a is closed");
    publish("b", "three");
    assert_eq!(tail.line_with(""), "b\tthree\n");
    end_stream(&url, "POST", "b");
    let (code, said) = tail.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("the stream b is closed"), "{said}");
}

#[test]
fn a_stream_that_cannot_be_followed_does_not_keep_the_others_from_it() {
    let folder = Folder::new();
    let (_server, url) = dev(&folder);
    folder.run(&["publish", "doc", "[1]", "--url", &url]).printed();
    let arguments = ["tail", "--stream", "nowhere", "--stream", "doc", "--url", &url];
    let mut tail = Running::start(folder.command(&arguments));
    tail.error_with("cannot follow nowhere: ");
    assert_eq!(tail.line_with(""), "doc\t1\n");
    end_stream(&url, "DELETE", "doc");
    let (code, said) = tail.end();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("the stream doc was deleted"), "{said}");
}

#[test]
fn a_server_that_wants_a_key_ends_a_tail_that_has_none() {
    let folder = Folder::new();
    let mut command = folder.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("TIDEWIRE_ADMIN_KEY", "correct-horse-battery");
    let (_server, url) = listening(command);
    let complaint = folder.run(&["tail", "--stream", "doc", "--url", &url]).complained();
    assert!(complaint.contains("cannot follow doc: "), "{complaint}");
    assert!(complaint.contains("unauthorized"), "{complaint}");
}
