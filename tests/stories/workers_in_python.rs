//! The worker of `examples/python-worker`, killed and stopped at its work: what it counts is in the ack, so it is
//! there once.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use tidewire_stories::{ApiKey, Http, Jobs, Launch, Process, Store, eventually, on_both_stores};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

on_both_stores!(
    every_event_is_counted_once_whoever_is_killed,
    only_the_transaction_whose_sql_fails_is_set_aside,
    whoever_may_not_is_told_so,
);

const KEY: &str = "story-5e0c8a41b7f2693d";
const HOSTS: i64 = 5;
const ROUNDS: i64 = 6;

/// `python3 worker.py`, as the README has it.
fn worker(http: &Http, key: &ApiKey, member: &str) -> Process {
    worker_at(http.base(), &key.key, member)
}

fn worker_at(url: &str, key: &str, member: &str) -> Process {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/python-worker/worker.py");
    let mut command = Command::new("python3");
    command
        .arg(script)
        .env("TIDEWIRE_URL", url)
        .env("TIDEWIRE_TOKEN", key)
        .env("TIDEWIRE_GROUP", "totals")
        .env("TIDEWIRE_MEMBER", member)
        // A proxy set for the outside world cannot reach this machine's own ports.
        .env("no_proxy", "127.0.0.1");
    Process::spawn(command)
}

async fn start(http: &Http) -> Jobs {
    let jobs = Jobs::start(http, "totals", &json!({ "partitions": 4, "tables": ["jobs"] })).await;
    jobs.sql(
        "CREATE TABLE totals (host_id TEXT, user_id TEXT, events INTEGER, \
         PRIMARY KEY (host_id, user_id))",
    )
    .await;
    jobs
}

async fn totals(jobs: &Jobs) -> BTreeMap<String, i64> {
    let answer = jobs.sql("SELECT host_id, user_id, events FROM totals").await;
    let rows = answer["rows"].as_array().expect("rows").iter();
    rows.map(|row| {
        let key = format!("{}/{}", row["host_id"], row["user_id"]).replace('"', "");
        (key, row["events"].as_i64().expect("a number"))
    })
    .collect()
}

async fn every_event_is_counted_once_whoever_is_killed(store: Store) {
    let server = Launch::serve(&store, KEY).start().await;
    let http = server.http();
    let jobs = start(http).await;
    let scopes = json!({ "tables": [], "groups": ["totals"], "can": ["consume", "sql"] });
    let key = http.make_key(&scopes).await;
    let mut workers = vec![worker(http, &key, "one"), worker(http, &key, "two")];
    let mut expected = BTreeMap::new();
    for round in 0..ROUNDS {
        let rows: Vec<(i64, String)> =
            (0..HOSTS).map(|n| (round * HOSTS + n, format!("host-{n}"))).collect();
        for (_, host) in &rows {
            *expected.entry(format!("{host}/ann")).or_default() += 1;
        }
        let rows: Vec<_> = rows.iter().map(|(id, host)| (*id, host.as_str(), "ann")).collect();
        jobs.add(&rows).await;
        if round == 2 {
            // Without a word: what it holds is another's when the lease is over.
            workers.remove(0).kill();
            workers.push(worker(http, &key, "three"));
        }
    }
    eventually("every event is counted", async || (totals(&jobs).await == expected).then_some(()))
        .await;
    // Before it asks for work it does not listen to signals yet, and there may be none left for it.
    let knows_third = |group: &serde_json::Value| {
        let members = group["members"].as_array().expect("members");
        members.iter().any(|member| member["member"] == "three")
    };
    eventually("the third is known", async || knows_third(&jobs.look().await).then_some(())).await;
    for worker in workers {
        worker.signal("TERM");
        let ended = worker.ended().await;
        assert_eq!(ended.code, Some(0), "{}", ended.said);
    }
    assert_eq!(totals(&jobs).await, expected, "counted once");
    eventually("nothing is left", async || (jobs.look().await["lag_events"] == 0).then_some(()))
        .await;
}

async fn only_the_transaction_whose_sql_fails_is_set_aside(store: Store) {
    let server = Launch::serve(&store, KEY).start().await;
    let http = server.http();
    let wish = json!({ "partitions": 1, "tables": ["jobs"], "max_attempts": 2 });
    let jobs = Jobs::start(http, "totals", &wish).await;
    jobs.sql(
        "CREATE TABLE totals (host_id TEXT, user_id TEXT CHECK (user_id <> 'bob'), events INTEGER, \
         PRIMARY KEY (host_id, user_id))",
    )
    .await;
    let users = ["ann", "bob", "eve"];
    for (id, user) in (0..).zip(users) {
        jobs.add(&[(id, "acme", user)]).await;
    }
    let scopes = json!({ "tables": [], "groups": ["totals"], "can": ["consume", "sql"] });
    let worker = worker(http, &http.make_key(&scopes).await, "one");
    let expected = BTreeMap::from([("acme/ann".to_owned(), 1), ("acme/eve".to_owned(), 1)]);
    eventually("the others are counted", async || (totals(&jobs).await == expected).then_some(()))
        .await;
    worker.signal("TERM");
    let ended = worker.ended().await;
    assert_eq!(ended.code, Some(0), "{}", ended.said);
    let letters = jobs.letters("state=dead").await;
    let told: Vec<_> = letters.iter().map(|l| (&l["event"]["user_id"], &l["attempts"])).collect();
    assert_eq!(told, [(&json!("bob"), &json!(2))]);
}

async fn whoever_may_not_is_told_so(store: Store) {
    let server = Launch::serve(&store, KEY).start().await;
    let http = server.http();
    start(http).await;
    let key = http.make_key(&json!({ "tables": ["*"], "can": ["read"] })).await;
    let ended = worker(http, &key, "one").ended().await;
    assert_eq!(ended.code, Some(1), "{}", ended.said);
    assert!(ended.said.contains("do not allow"), "{}", ended.said);
    assert!(!ended.said.contains("Traceback"), "{}", ended.said);
}

#[tokio::test]
async fn what_a_proxy_says_and_an_answer_that_breaks_off_is_weather() {
    let gone = r#"{"code":"group_not_found","detail":"there is no such group","temporary":false}"#;
    let answers = [
        "HTTP/1.1 502 X\r\ncontent-length: 13\r\n\r\n<h1>Away</h1>".to_owned(),
        "HTTP/1.1 503 X\r\ncontent-length: 99\r\n\r\n{\"code\":".to_owned(),
        "HTTP/1.1 200 X\r\ncontent-length: 99\r\n\r\n{\"token\":".to_owned(),
        "HTTP/1.1 200 X\r\ncontent-length: 13\r\n\r\n<h1>Away</h1>".to_owned(),
        format!("HTTP/1.1 404 X\r\ncontent-length: {}\r\n\r\n{gone}", gone.len()),
    ];
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let worker = worker_at(&url, "key", "one");
    for answer in answers {
        let (mut socket, _) = listener.accept().await.expect("it asks again");
        let mut asked = Vec::new();
        while !asked.ends_with(b"}") {
            asked.push(socket.read_u8().await.expect("a request"));
        }
        socket.write_all(answer.as_bytes()).await.expect("it listens");
    }
    let ended = worker.ended().await;
    assert_eq!(ended.code, Some(1), "{}", ended.said);
    assert!(ended.said.contains("there is no such group"), "{}", ended.said);
    assert!(!ended.said.contains("Traceback"), "{}", ended.said);
}
