//! What the binary refuses, and its messages: one message each, with no traces of Rust in it.

use std::net::{SocketAddr, TcpListener};

use crate::run::Folder;

/// Each attempt to reach a database is short, so that a test of several is short too.
const IMPATIENT: (&str, &str) = ("TIDEWIRE_POSTGRES_CONNECT_TIMEOUT_MS", "100");

/// An address whose port was free a moment ago.
fn nobody_listens() -> SocketAddr {
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    free.local_addr().expect("an address")
}

#[test]
fn dev_listens_on_loopback_only() {
    for address in ["0.0.0.0:4437", "[::]:4437", "192.0.2.1:4437"] {
        let folder = Folder::new();
        let complaint = folder.run(&["dev", "--listen", address]).complained();
        assert!(complaint.contains(&format!("{address} is not a loopback address")), "{complaint}");
        assert!(complaint.contains("tidewire serve"), "{complaint}");
        assert!(!folder.path().join("tidewire-data").exists(), "it was refused before it began");
    }
}

#[test]
fn serve_needs_a_key_and_says_how_to_make_one() {
    let folder = Folder::new();
    let complaint = folder.run(&["serve", "--listen", "127.0.0.1:0"]).complained();
    assert!(complaint.contains("TIDEWIRE_ADMIN_KEY=$(openssl rand -hex 32)"), "{complaint}");
    assert!(!folder.path().join("tidewire-data").exists(), "it was refused before it began");
}

#[test]
fn serve_refuses_a_short_key_without_repeating_it() {
    let variables = [("TIDEWIRE_ADMIN_KEY", "hunter2")];
    let arguments = ["serve", "--listen", "127.0.0.1:0"];
    let complaint = Folder::new().run_with(&arguments, &variables).complained();
    assert!(complaint.contains("too short"), "{complaint}");
    assert!(!complaint.contains("hunter2"), "{complaint}");
}

#[test]
fn an_address_in_use_comes_with_advice() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address").to_string();
    let complaint = Folder::new().run(&["dev", "--listen", &address]).complained();
    assert!(complaint.contains(&format!("cannot listen on {address}")), "{complaint}");
    assert!(complaint.contains("--listen"), "{complaint}");
}

#[test]
fn dev_does_not_wait_for_a_database_that_is_not_there() {
    let address = nobody_listens();
    let url = format!("postgres://app:hunter2@{address}/app");
    let arguments = ["dev", "--listen", "127.0.0.1:0", "--database", &url];
    let complaint = Folder::new().run_with(&arguments, &[IMPATIENT]).complained();
    let place = format!("postgres://app:***@{address}/app");
    assert!(complaint.contains(&place), "{complaint}");
    assert!(complaint.contains("cannot be reached"), "{complaint}");
    assert!(!complaint.contains("hunter2"), "{complaint}");
}

#[test]
fn serve_waits_for_its_database_and_then_gives_up() {
    let database = format!("postgres://app:hunter2@{}/app", nobody_listens());
    let variables = [
        ("TIDEWIRE_ADMIN_KEY", "correct-horse-battery"),
        ("TIDEWIRE_DATABASE", &database),
        ("TIDEWIRE_DATABASE_WAIT_MS", "1500"),
        IMPATIENT,
    ];
    let arguments = ["serve", "--listen", "127.0.0.1:0"];
    let complaint = Folder::new().run_with(&arguments, &variables).complained();
    assert!(complaint.contains("trying again"), "{complaint}");
    assert!(complaint.lines().last().is_some_and(|line| line.starts_with("tidewire: cannot open")));
    assert!(!complaint.contains("hunter2") && !complaint.contains("correct-horse"), "{complaint}");
}

#[test]
fn a_filter_that_is_none_is_refused() {
    let variables = [("TIDEWIRE_LOG", "tidewire=loud")];
    let complaint = Folder::new().run_with(&["migrate"], &variables).complained();
    assert!(complaint.contains("TIDEWIRE_LOG=tidewire=loud is not a filter"), "{complaint}");
}

#[test]
fn a_server_that_is_not_there_is_named_once_with_what_to_do() {
    let url = format!("http://{}", nobody_listens());
    for words in [
        &["publish", "doc", "hi"][..],
        &["nodes"],
        &["sql", "SELECT 1"],
        &["keys", "list"],
        &["watch", "orders"],
        &["groups", "list"],
    ] {
        let complaint = Folder::new().run(&[words, &["--url", &url]].concat()).complained();
        assert!(complaint.contains(&format!("no answer from {url}")), "{complaint}");
        assert_eq!(
            complaint.to_lowercase().matches("connection refused").count(),
            1,
            "{complaint}"
        );
        let hint = "hint: start a server (tidewire dev), or name the one that runs by --url or TIDEWIRE_URL\n";
        assert!(complaint.ends_with(hint), "{complaint}");
    }
}

#[test]
fn an_address_that_is_none_comes_with_the_one_that_was_meant() {
    for (url, says) in [
        ("127.0.0.1:4437", "did you mean http://127.0.0.1:4437?"),
        ("localhost:4437", "did you mean http://localhost:4437?"),
        ("ws://localhost:4437", "did you mean http://localhost:4437?"),
        ("http://localhost:4437/v1/stream", "without a path: http://localhost:4437"),
    ] {
        let complaint = Folder::new().run(&["nodes", "--url", url]).complained();
        assert!(complaint.contains(says), "{complaint}");
    }
}

/// What others call it, or write without a word before it: exit code 2, as for all that is not well formed.
#[test]
fn words_of_other_programs_are_answered_with_ours() {
    for (words, says) in [
        (&["dev", "--port", "8080"][..], "--listen 127.0.0.1:8080"),
        (&["serve", "-p", "8080"], "--listen 127.0.0.1:8080"),
        (&["dev", "--host", "0.0.0.0"], "--listen 0.0.0.0:4437"),
        (&["serve", "--bind", "[::]:80"], "--listen [::]:80"),
        (&["nodes", "--port", "8080"], "--url http://127.0.0.1:8080"),
        (&["publish", "doc", "hi", "--port", ":8080"], "--url http://127.0.0.1:8080"),
        (&["tail", "orders"], "--stream orders, or --table orders"),
        (&["keys", "create", "app"], "--name app"),
    ] {
        let ended = Folder::new().run(words);
        assert_eq!((ended.code, &*ended.out), (Some(2), ""), "{words:?}: {}", ended.err);
        assert!(ended.err.contains(says), "{words:?}: {}", ended.err);
    }
}
