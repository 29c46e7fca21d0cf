//! A member of a group at work, against a server that plays a script: each connection gets the next answer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tidewire_client::consume::{Outcome, Worker, WorkerError, WorkerOptions, WorkerStats};
use tidewire_client::{Claimed, Client};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Plays answers in order and keeps what was asked: the last part of the path, and the body.
struct Script {
    url: String,
    asked: Arc<Mutex<Vec<(String, String)>>>,
    task: JoinHandle<()>,
}

impl Script {
    async fn play(answers: Vec<String>) -> Script {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            for answer in answers {
                let (mut socket, _) = listener.accept().await.expect("a connection");
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(socket.read_u8().await.expect("a request's head"));
                }
                let head = String::from_utf8_lossy(&head).to_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let length = length.and_then(|length| length.parse().ok()).unwrap_or_default();
                let mut body = vec![0; length];
                socket.read_exact(&mut body).await.expect("a body");
                let act = head.split_whitespace().nth(1).and_then(|path| path.rsplit('/').next());
                let said =
                    (act.unwrap_or_default().to_owned(), String::from_utf8(body).expect("text"));
                heard.lock().expect("lock").push(said);
                socket.write_all(answer.as_bytes()).await.expect("an answer");
            }
            // Whoever asks further waits.
            std::future::pending::<()>().await;
        });
        Script { url, asked, task }
    }

    fn acts(&self) -> Vec<String> {
        self.asked.lock().expect("lock").iter().map(|(act, _)| act.clone()).collect()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn answer(status: u16, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    )
}

fn batch(lease_ms: u64) -> String {
    let body = format!(
        r#"{{"token":"t","group":"g","partition":0,"lease_ms":{lease_ms},"from":"a","to":"b",
            "groups":[{{"host_id":"h","user_id":"u","attempt":0,"events":[{{"n": 1}}]}}]}}"#
    );
    answer(200, &body)
}

const GONE: &str =
    r#"{"code":"group_not_found","detail":"there is no such group","temporary":false}"#;
const LOST: &str = r#"{"code":"lease_lost","detail":"it is another's","temporary":false}"#;

/// Works until the script's server says that the group is gone.
async fn work<H: AsyncFn(&Claimed) -> Outcome>(script: &Script, handler: H) -> WorkerError {
    let client = Client::new(&script.url, None).expect("a client");
    let (_stop, stopping) = watch::channel(false);
    let worker = Worker::new(client, WorkerOptions::new("g"));
    worker.run(stopping, handler).await.expect_err("the script ends")
}

#[tokio::test]
async fn a_lease_is_extended_while_the_work_goes_on() {
    let extended = || answer(200, r#"{"lease_ms":30}"#);
    let acked = answer(200, r#"{"consumed":"b","offset":null,"repeated":false}"#);
    let answers = vec![batch(30), extended(), extended(), acked, answer(404, GONE)];
    let script = Script::play(answers).await;
    let ended = work(&script, async |_| {
        while script.acts().len() < 3 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Outcome::Done(Vec::new())
    })
    .await;
    assert_eq!(ended.to_string(), "there is no such group (group_not_found)");
    assert_eq!(script.acts(), ["claim", "extend", "extend", "ack", "claim"]);
}

#[tokio::test]
async fn work_whose_lease_is_lost_is_dropped() {
    let script = Script::play(vec![batch(30), answer(409, LOST), answer(404, GONE)]).await;
    work(&script, async |_| std::future::pending().await).await;
    assert_eq!(script.acts(), ["claim", "extend", "claim"]);
}

#[tokio::test]
async fn an_ack_is_repeated_until_it_is_answered() {
    let busy = answer(503, r#"{"code":"busy","temporary":true}"#);
    let acked = answer(200, r#"{"consumed":null,"repeated":true}"#);
    let script = Script::play(vec![batch(30_000), busy, acked, answer(404, GONE)]).await;
    work(&script, async |_| Outcome::Done(Vec::new())).await;
    assert_eq!(script.acts(), ["claim", "ack", "ack", "claim"]);
}

#[tokio::test]
async fn what_failed_is_told_and_a_stop_counts_nothing() {
    let nacked = || answer(200, r#"{"retry_in_ms":0,"dead_letters":0}"#);
    let script = Script::play(vec![batch(30_000), nacked(), batch(30_000), nacked()]).await;
    let ended = work(&script, async |claimed: &Claimed| {
        if script.acts().len() == 1 {
            return Outcome::Failed(claimed.all_failed("it broke", Some("dead")));
        }
        Outcome::Stop("the disk is full".to_owned())
    })
    .await;
    assert!(matches!(ended, WorkerError::Stopped(why) if why == "the disk is full"));
    let asked = script.asked.lock().expect("lock").clone();
    let told: Value = serde_json::from_str(&asked[1].1).expect("JSON");
    let ann = json!({ "host_id": "h", "user_id": "u", "error": "it broke", "verdict": "dead" });
    assert_eq!(told, json!({ "token": "t", "failed": [ann] }));
    assert_eq!(asked[3].1, r#"{"token":"t"}"#);
}

#[tokio::test]
async fn a_batch_of_more_keys_than_a_nack_names_fails_part_by_part() {
    let keys: Vec<Value> = (0..1_500)
        .map(|n| json!({ "host_id": "h", "user_id": n.to_string(), "events": [{ "n": n }] }))
        .collect();
    let claimed = json!({ "token": "t", "group": "g", "partition": 0, "lease_ms": 30_000, "from": "a",
                          "to": "b", "groups": keys });
    let batch = || answer(200, &claimed.to_string());
    let nacked = || answer(200, r#"{"retry_in_ms":0,"dead_letters":0}"#);
    let script = Script::play(vec![batch(), nacked(), batch(), nacked(), answer(404, GONE)]).await;
    work(&script, async |claimed: &Claimed| {
        if script.acts().len() == 1 {
            return Outcome::Failed(claimed.all_failed("it broke", None));
        }
        Outcome::Failed(claimed.groups.iter().map(|key| key.failed("it broke", None)).collect())
    })
    .await;
    let asked = script.asked.lock().expect("lock").clone();
    for (act, body) in [&asked[1], &asked[3]] {
        let told: Value = serde_json::from_str(body).expect("JSON");
        assert_eq!((act.as_str(), told["failed"].as_array().map(Vec::len)), ("nack", Some(1_000)));
    }
}

#[tokio::test]
async fn one_that_waits_for_work_stops_at_once() {
    let script = Script::play(vec![answer(204, "")]).await;
    let client = Client::new(&script.url, None).expect("a client");
    let (stop, stopping) = watch::channel(false);
    let worker = Worker::new(client, WorkerOptions::new("g"));
    let work = worker.run(stopping, async |_: &Claimed| Outcome::Done(Vec::new()));
    let told = async {
        while script.acts().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        stop.send_replace(true);
    };
    let (stats, ()) = tokio::join!(work, told);
    assert_eq!(stats.expect("a clean end"), WorkerStats::default());
}
