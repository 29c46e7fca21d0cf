//! What the binary will not do, and how it says so: one message, no traces of Rust in it.

use std::net::TcpListener;

use crate::run::{Ended, Folder};

#[test]
fn dev_listens_on_loopback_only() {
    for address in ["0.0.0.0:4437", "[::]:4437", "192.0.2.1:4437"] {
        let folder = Folder::new();
        let complaint = folder.run(&["dev", "--listen", address]).complained();
        assert!(
            complaint.contains(&format!("{address} is not a loopback address")),
            "{complaint}"
        );
        assert!(complaint.contains("tidewire serve"), "{complaint}");
        assert!(
            !folder.path().join("tidewire-data").exists(),
            "it was refused before it began"
        );
    }
}

#[test]
fn serve_needs_a_key_and_says_how_to_make_one() {
    let folder = Folder::new();
    let complaint = folder
        .run(&["serve", "--listen", "127.0.0.1:0"])
        .complained();
    assert!(
        complaint.contains("TIDEWIRE_ADMIN_KEY=$(openssl rand -hex 32)"),
        "{complaint}"
    );
    assert!(
        !folder.path().join("tidewire-data").exists(),
        "it was refused before it began"
    );
}

#[test]
fn serve_refuses_a_short_key_without_repeating_it() {
    let mut command = Folder::new().command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("TIDEWIRE_ADMIN_KEY", "hunter2");
    let complaint = Ended::of(command).complained();
    assert!(complaint.contains("too short"), "{complaint}");
    assert!(!complaint.contains("hunter2"), "{complaint}");
}

#[test]
fn an_address_in_use_comes_with_advice() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address").to_string();
    let complaint = Folder::new()
        .run(&["dev", "--listen", &address])
        .complained();
    assert!(
        complaint.contains(&format!("cannot listen on {address}")),
        "{complaint}"
    );
    assert!(complaint.contains("--listen"), "{complaint}");
}

#[test]
fn dev_does_not_wait_for_a_database_that_is_not_there() {
    // A port that was free a moment ago, and is not listened to.
    let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    let port = port.expect("a free port").port();
    let url = format!("postgres://app:hunter2@127.0.0.1:{port}/app");
    let arguments = ["dev", "--listen", "127.0.0.1:0", "--database", &url];
    let complaint = Folder::new().run(&arguments).complained();
    let place = format!("postgres://app:***@127.0.0.1:{port}/app");
    assert!(complaint.contains(&place), "{complaint}");
    assert!(complaint.contains("cannot be reached"), "{complaint}");
    assert!(!complaint.contains("hunter2"), "{complaint}");
}

#[test]
fn serve_waits_for_its_database_and_then_gives_up() {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    let port = port.expect("a free port").port();
    let mut command = Folder::new().command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("TIDEWIRE_ADMIN_KEY", "correct-horse-battery");
    command.env(
        "TIDEWIRE_DATABASE",
        format!("postgres://app:hunter2@127.0.0.1:{port}/app"),
    );
    command.env("TIDEWIRE_DATABASE_WAIT_MS", "1500");
    let complaint = Ended::of(command).complained();
    assert!(complaint.contains("trying again"), "{complaint}");
    assert!(
        complaint
            .lines()
            .last()
            .is_some_and(|line| line.starts_with("tidewire: cannot open"))
    );
    assert!(
        !complaint.contains("hunter2") && !complaint.contains("correct-horse"),
        "{complaint}"
    );
}

#[test]
fn a_filter_that_is_none_is_refused() {
    let mut command = Folder::new().command(&["migrate"]);
    command.env("TIDEWIRE_LOG", "tidewire=loud");
    let complaint = Ended::of(command).complained();
    assert!(
        complaint.contains("TIDEWIRE_LOG=tidewire=loud is no filter"),
        "{complaint}"
    );
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    let url = format!("http://{}", port.expect("a free port"));
    let complaint = Folder::new()
        .run(&["publish", "doc", "hi", "--url", &url])
        .complained();
    assert!(
        complaint.contains(&format!("no answer from {url}")),
        "{complaint}"
    );
    assert!(
        complaint.to_lowercase().contains("connection refused"),
        "{complaint}"
    );
}
