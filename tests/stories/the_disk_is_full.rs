//! The disk that holds the store fills up, and later has room again.

use std::path::Path;

use reqwest::Method;

use tidewire_stories::{Answer, Disk, Http, Launch, Store, Transcript};

/// Some of the disk is taken by a file that can be deleted.
const BALLAST_BYTES: usize = 3 << 20;

/// Bytes of one message: the disk is full after some fifty.
const MESSAGE_BYTES: usize = 64 << 10;

/// The disk cannot hold so many messages.
const MESSAGES_MAX: u64 = 200;

/// I1, I9: a full disk refuses appends in a way that clients can sit out. What was acknowledged stays
/// readable, and nothing is needed but room.
#[tokio::test(flavor = "multi_thread")]
async fn appends_wait_for_room_and_reads_go_on() {
    let disk = Disk::mount("8m");
    let ballast = disk.outside().join("ballast");
    std::fs::write(&ballast, vec![1; BALLAST_BYTES]).expect("room for the ballast");
    let store = Store::sqlite_in(disk.inside().join("data"));
    let launch = Launch::dev(&store).wrapped_in(disk.enter());
    let server = launch.start().await;
    let http = server.http();
    http.create("full").await;

    let refused = fill(http).await;
    let readable = Transcript::read(http, "full").await;
    assert_eq!(
        numbers(&readable),
        (0..refused).collect::<Vec<_>>(),
        "what was acknowledged, read from a full disk"
    );
    refuses_clearly(http, refused).await;

    make_room(&ballast);
    let answer = append(http, refused).await;
    assert_eq!(answer.status, 200, "with room again: {}", answer.text());
    let answer = append(http, refused).await;
    assert_eq!(answer.status, 204, "a repetition: {}", answer.text());
    http.append("full", &serde_json::json!({ "n": refused + 1 })).await;

    let transcript = Transcript::read(http, "full").await;
    readable.is_kept_in(&transcript);
    let expected: Vec<u64> = (0..=refused + 1).collect();
    assert_eq!(numbers(&transcript), expected, "once there was room again");

    server.stop().await;
    let server = launch.start().await;
    let reopened = Transcript::read(server.http(), "full").await;
    assert_eq!(numbers(&reopened), expected, "after a restart");
}

/// Appends until the disk is full, and returns the number of the append that was refused.
async fn fill(http: &Http) -> u64 {
    for n in 0..MESSAGES_MAX {
        let answer = append(http, n).await;
        if answer.status != 200 {
            answer.problem(507, "store_full");
            return n;
        }
    }
    panic!("{MESSAGES_MAX} messages of {MESSAGE_BYTES} bytes went onto a disk of 8 MiB");
}

/// A producer that repeats its append gets the same clear answer every time.
async fn refuses_clearly(http: &Http, n: u64) {
    for _ in 0..3 {
        let answer = append(http, n).await;
        let problem = answer.problem(507, "store_full");
        assert_eq!(problem["temporary"], true, "{problem}");
        assert!(answer.header("retry-after").is_some(), "{answer:?}");
    }
}

/// Append `n` of an idempotent producer.
async fn append(http: &Http, n: u64) -> Answer {
    let body = serde_json::json!({ "n": n, "fill": "x".repeat(MESSAGE_BYTES) });
    let request = http
        .request(Method::POST, "/v1/stream/full")
        .header("content-type", "application/json")
        .header("producer-id", "patient")
        .header("producer-epoch", 0)
        .header("producer-seq", n);
    Answer::of(request.body(body.to_string())).await
}

fn make_room(ballast: &Path) {
    std::fs::remove_file(ballast).expect("the ballast can be deleted");
}

fn numbers(transcript: &Transcript) -> Vec<u64> {
    let number = |payload: &serde_json::Value| payload["n"].as_u64().expect("a number");
    transcript.events().iter().map(|event| number(&event.payload)).collect()
}
