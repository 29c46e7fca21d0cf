//! Clients that follow a stream live, through whatever happens to the server.
//!
//! A reader comes back with the last offset it was given, as the protocol says, and takes what it
//! gets as it comes: nothing is deduplicated here, so a server that repeats itself is found out.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::{Method, RequestBuilder};
use serde_json::Value;
use tidewire_client::sse;
use tokio::task::{AbortHandle, JoinSet};

use crate::complaint::{Complaint, none_is_hopeless};
use crate::http::{Answer, Http};
use crate::transcript::{Transcript, events};
use crate::wait::eventually;

/// Before a reader comes back after a complaint that names no time.
const PAUSE: Duration = Duration::from_millis(25);

/// How a reader waits for what is not there yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadMode {
    LongPoll,
    Sse,
}

/// A reader at work. Cut off when dropped.
#[derive(Debug)]
pub struct Reader {
    manner: ReadMode,
    seen: Arc<Mutex<Seen>>,
    task: AbortHandle,
    _owner: JoinSet<()>,
}

/// What a reader got.
#[derive(Debug)]
struct Seen {
    payloads: Vec<Value>,
    complaints: Vec<Complaint>,
    /// The last offset it was given: where it comes back to.
    next: String,
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reader {
    /// Follows a stream from its start by `live=long-poll`.
    pub fn long_poll(http: &Http, stream: &str) -> Reader {
        Reader::start(ReadMode::LongPoll, http, stream)
    }

    /// Follows a stream from its start by `live=sse`.
    pub fn sse(http: &Http, stream: &str) -> Reader {
        Reader::start(ReadMode::Sse, http, stream)
    }

    fn start(manner: ReadMode, http: &Http, stream: &str) -> Reader {
        let seen = Arc::new(Mutex::new(Seen {
            payloads: Vec::new(),
            complaints: Vec::new(),
            next: "-1".to_owned(),
        }));
        let live = match manner {
            ReadMode::LongPoll => "long-poll&format=events",
            ReadMode::Sse => "sse",
        };
        let path = format!("/v1/stream/{stream}?live={live}");
        let (http, shared) = (http.clone(), Arc::clone(&seen));
        let mut owner = JoinSet::new();
        let task = owner.spawn(async move {
            loop {
                let next = lock(&shared).next.clone();
                let request = http.request(Method::GET, &format!("{path}&offset={next}"));
                let turn = match manner {
                    ReadMode::LongPoll => long_poll(request, &shared).await,
                    ReadMode::Sse => sse(request, &shared).await,
                };
                if let Err(complaint) = turn {
                    let pause = pause(&complaint);
                    lock(&shared).complaints.push(complaint);
                    tokio::time::sleep(pause).await;
                }
            }
        });
        Reader { manner, seen, task, _owner: owner }
    }

    /// Waits until the reader has got as many events as the stream has, and checks that they are
    /// those of the stream, each once, in order.
    pub async fn has_all_of(&self, transcript: &Transcript) {
        let manner = self.manner;
        let expected = transcript.events();
        let what = format!("the {manner:?} reader gets all {} events", expected.len());
        eventually(&what, async || {
            none_is_hopeless(&self.complaints());
            assert!(!self.task.is_finished(), "the {manner:?} reader has panicked");
            (lock(&self.seen).payloads.len() >= expected.len()).then_some(())
        })
        .await;
        let seen = lock(&self.seen);
        for (index, (got, event)) in seen.payloads.iter().zip(expected).enumerate() {
            let offset = &event.offset;
            assert_eq!(
                *got, event.payload,
                "event {index} of the {manner:?} reader is not the one at {offset}"
            );
        }
        assert_eq!(
            seen.payloads.len(),
            expected.len(),
            "the {manner:?} reader got more than there is"
        );
    }

    /// All that the reader was told besides success.
    pub fn complaints(&self) -> Vec<Complaint> {
        lock(&self.seen).complaints.clone()
    }
}

/// How long a reader stays away: as long as it was told to.
fn pause(complaint: &Complaint) -> Duration {
    match complaint {
        Complaint::Problem { retry_after: Some(seconds), .. } => {
            seconds.parse().map_or(PAUSE, Duration::from_secs)
        }
        _ => PAUSE,
    }
}

async fn long_poll(request: RequestBuilder, seen: &Mutex<Seen>) -> Result<(), Complaint> {
    let answer = Answer::try_of(request).await;
    let answer = answer.map_err(|error| Complaint::no_answer(&error))?;
    let mut seen = lock(seen);
    match answer.status {
        200 => {
            let arrived = events(&answer.json());
            seen.payloads.extend(arrived.into_iter().map(|event| event.payload));
        }
        204 => {}
        _ => return Err(Complaint::of(&answer)),
    }
    seen.next = answer.next_offset();
    Ok(())
}

/// One response from its head to its end. An end is no complaint: the server ends them all.
async fn sse(request: RequestBuilder, seen: &Mutex<Seen>) -> Result<(), Complaint> {
    let broke = |error: reqwest::Error| Complaint::no_answer(&error);
    let mut response = request.send().await.map_err(broke)?;
    if response.status() != 200 {
        let answer = Answer {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            body: response.bytes().await.map_err(broke)?,
        };
        return Err(Complaint::of(&answer));
    }
    let mut parser = sse::Parser::default();
    // Data counts once its control event says where it ends: a client that was cut off in between
    // asks for it again.
    let mut held = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(broke)? {
        for event in parser.push(&piece).expect("events of a sensible size") {
            let data: Value = serde_json::from_str(&event.data)
                .unwrap_or_else(|error| panic!("{event:?} is not JSON: {error}"));
            match (event.name.as_str(), data) {
                ("data", Value::Array(messages)) => held.extend(messages),
                ("control", control) => {
                    let mut seen = lock(seen);
                    seen.payloads.append(&mut held);
                    let next = control["streamNextOffset"].as_str();
                    next.expect("streamNextOffset").clone_into(&mut seen.next);
                }
                (name, data) => panic!("an event of an unknown kind: {name} {data}"),
            }
        }
    }
    Ok(())
}
