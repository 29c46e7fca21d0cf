//! The server as a driver, with a worker that claims batches and does with them as the library does: it stops at the
//! first key that fails, unless some failed before, and then tries all of them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tidewire_deliver::{Access, GroupOptions, Options, Server};
use tidewire_store::SharedStore;
use tidewire_store::groups::{Holdings, OnDead, SharedGroups};
use tokio::net::TcpListener;

use crate::history::Fate;
use crate::transcript::{Transcript, Who};
use crate::{BYTES_MAX, MAX_ATTEMPTS, TRANSACTION_EVENTS_MAX, Until};

pub(crate) const GROUP: &str = "http";

pub(crate) struct Http {
    server: Server,
    client: reqwest::Client,
    pub(crate) groups: SharedGroups,
    pub(crate) batch_size: usize,
    pub(crate) on_dead: OnDead,
    pub(crate) transcript: Arc<Mutex<Transcript>>,
}

impl Http {
    pub(crate) async fn start(store: SharedStore, batch_size: usize, on_dead: OnDead) -> Http {
        let mut options = Options::new(Access::OpenOnLoopback);
        options.groups = GroupOptions {
            batch_bytes: BYTES_MAX,
            transaction_events_max: TRANSACTION_EVENTS_MAX,
            transaction_bytes_max: BYTES_MAX,
            retry: Duration::from_millis(1),
            retry_max: Duration::from_millis(5),
            ..GroupOptions::default()
        };
        let groups = Arc::clone(&store).groups();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let server = Server::start(options, store, listener).await.expect("a server");
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let transcript = Arc::default();
        Http { server, client, groups, batch_size, on_dead, transcript }
    }

    pub(crate) async fn end(self) {
        self.server.shutdown(Duration::from_secs(5)).await;
    }

    async fn post(&self, step: &str, body: &Value) -> (u16, Value) {
        let url = format!("http://{}/v1/groups/{GROUP}/{step}", self.server.local_addr());
        let request = self.client.post(url).header("content-type", "application/json");
        let answer = request.body(body.to_string()).send().await.expect("an answer");
        let status = answer.status().as_u16();
        let text = answer.text().await.expect("a text");
        (status, serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    /// Works for as long as there is something to do.
    pub(crate) async fn work(&self, until: &Until) {
        let pinned = match until {
            Until::Partition(pinned) => Some(*pinned),
            _ => None,
        };
        let claim = json!({ "batch_size": self.batch_size, "wait_ms": 500, "partition": pinned });
        let deadline = until.deadline();
        while !until.is_over(&*self.groups, GROUP).await {
            deadline.check(&*self.groups, GROUP).await;
            match self.post("claim", &claim).await {
                (200, batch) => self.handle(&batch).await,
                (204, _) => {}
                (status, problem) => {
                    assert!(matches!(until, Until::Trouble), "{status}: {problem}");
                }
            }
        }
    }

    async fn handle(&self, batch: &Value) {
        let partition = u32::try_from(number(&batch["partition"])).expect("a partition");
        let held = self.groups.holdings(GROUP, partition).await.expect("holdings");
        let (failures, dead) = self.turns(batch, &held);
        let failed = if failures.is_empty() { dead } else { failures };
        let (step, body) = match failed.is_empty() {
            true => ("ack", json!({ "token": batch["token"] })),
            false => {
                ("nack", json!({ "token": batch["token"], "failed": failed, "retry_in_ms": 0 }))
            }
        };
        let (status, answer) = self.post(step, &body).await;
        assert_eq!(status, 200, "{step}: {answer}");
    }

    /// Each key's turn: what is to be tried again, and what is dead.
    fn turns(&self, batch: &Value, held: &Holdings) -> (Vec<Value>, Vec<Value>) {
        let redrive = batch["redrive"] == true;
        let (partition, is_first) = (held.partition.partition, held.attempts.is_empty());
        let mut transcript = self.transcript.lock().expect("no panic");
        let from = if redrive { 0 } else { transcript.first_event(held) };
        let (mut failures, mut dead) = (Vec::new(), Vec::new());
        let mut well: Vec<(Who, Vec<u64>)> = Vec::new();
        for key in batch["groups"].as_array().expect("groups") {
            let text = |name: &str| key[name].as_str().expect("a name").to_owned();
            let who = (text("host_id"), text("user_id"));
            let attempt = u32::try_from(number(&key["attempt"])).expect("a number");
            let events = key["events"].as_array().expect("events");
            let positions: Vec<u64> = events.iter().map(|event| offset(&event["offset"])).collect();
            match redrive {
                true => transcript.letters(partition, &who, attempt, &positions),
                false => transcript.handed_out(partition, from, &who),
            }
            let failing = failing_units(events, attempt, redrive);
            let Some(first) = failing.first() else {
                well.push((who, positions));
                continue;
            };
            transcript.failed(partition, &who, attempt, offset(&first.0["offset"]));
            let blame = |(event, fate): &(&Value, Fate), verdict| {
                json!({
                    "host_id": who.0, "user_id": who.1, "offset": event["offset"],
                    "error": fate.error(), "verdict": verdict,
                })
            };
            let last = attempt + 1 >= MAX_ATTEMPTS;
            match first.1 {
                Fate::Retry if !last => {
                    failures.push(blame(first, "retry"));
                    if is_first {
                        break;
                    }
                }
                fate => {
                    // That the last attempt is the last is for the server to know.
                    dead.push(blame(first, if fate == Fate::Dead { "dead" } else { "retry" }));
                    if self.on_dead == OnDead::Skip && !redrive {
                        let others = &failing[1..];
                        for other in others {
                            transcript.failed(partition, &who, attempt, offset(&other.0["offset"]));
                        }
                        dead.extend(others.iter().map(|other| blame(other, "dead")));
                    }
                }
            }
        }
        if failures.is_empty() && dead.is_empty() && !redrive {
            for (who, events) in &well {
                transcript.handled(partition, from, who, events);
            }
        }
        (failures, dead)
    }
}

/// Of each source transaction that fails, the first event that does.
fn failing_units(events: &[Value], attempt: u32, redrive: bool) -> Vec<(&Value, Fate)> {
    let units = events.chunk_by(|a, b| match (&a["txid"], &b["txid"]) {
        (Value::Null, Value::Null) => a["tx_last"] == false,
        (a, b) => a == b,
    });
    let fate = |event: &Value| {
        let document =
            [&event["after_data"], &event["payload"]].into_iter().find(|d| d.is_object());
        let what = document.and_then(|document| document["what"].as_str()).expect("a fate");
        Fate::of(what, attempt, redrive)
    };
    let first = |unit: &'_ [Value]| unit.iter().position(|event| fate(event) != Fate::Well);
    units
        .filter_map(|unit| first(unit).map(|at| &unit[at]))
        .map(|event| (event, fate(event)))
        .collect()
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

/// The position of an offset.
fn offset(value: &Value) -> u64 {
    let (_, position) = value.as_str().and_then(|text| text.split_once('_')).expect("an offset");
    position.parse().expect("a position")
}
