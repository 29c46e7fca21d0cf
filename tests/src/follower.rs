//! The client library at work: streams over one WebSocket, through whatever happens to the server.
//!
//! A follower notes what it is given. It can be made to stop reading, which is all it takes to be a
//! slow client: nothing is read behind the library's back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tidewire_client::{Client, ClientError, Live, LiveEvent, LiveOptions, ReadFrom, Update};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use crate::transcript::{Event, Transcript};
use crate::wait::eventually;

/// A follower at work. Dropping it drops the connection, without a word.
#[derive(Debug)]
pub struct Follower {
    seen: Arc<Mutex<Seen>>,
    pace: watch::Sender<Pace>,
    task: AbortHandle,
    _owner: JoinSet<()>,
}

/// How it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// As fast as it can.
    Full,
    /// With a pause after each event.
    Pausing(Duration),
    /// Not at all.
    Stopped,
}

/// What a follower got.
#[derive(Debug, Default)]
struct Seen {
    streams: BTreeMap<String, Followed>,
    /// The nodes it was connected to, one after the other.
    nodes: Vec<String>,
    /// Why connections ended.
    losses: Vec<String>,
    /// What it was refused.
    problems: Vec<String>,
    /// Why nothing comes any more.
    end: Option<String>,
}

#[derive(Debug)]
struct Followed {
    /// Everything after this was promised.
    start: String,
    events: Vec<(String, Bytes)>,
}

impl Follower {
    /// Follows these streams, each under its own name. An event counts as processed when it is
    /// noted.
    pub fn start(client: &Client, options: LiveOptions, from: &[(&str, ReadFrom)]) -> Follower {
        let mut live = client.live(options).expect("options that are of use");
        for (stream, from) in from {
            live.subscribe(stream, stream, from.clone()).expect("a stream's name");
        }
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (pace, paced) = watch::channel(Pace::Full);
        let mut owner = JoinSet::new();
        let task = owner.spawn(run(live, paced, Arc::clone(&seen)));
        Follower { seen, pace, task, _owner: owner }
    }

    /// Reads on at this pace.
    pub fn reads(&self, pace: Pace) {
        self.pace.send_replace(pace);
    }

    /// Waits until every one of so many subscriptions stands.
    pub async fn stands(&self, streams: usize) {
        eventually("the subscriptions stand", async || {
            let seen = self.seen();
            (seen.streams.len() >= streams).then_some(())
        })
        .await;
    }

    /// Waits until it has all that the stream has after the agreed start, and checks that it has
    /// nothing else: each event once, in order, unchanged.
    pub async fn has_all_of(&self, transcript: &Transcript) {
        let stream = transcript.stream();
        eventually(&format!("the follower gets all of {stream}"), async || {
            let seen = self.seen();
            let followed = seen.streams.get(stream)?;
            let last = transcript.events().last().map_or("", |event| &event.offset);
            let newest = followed.events.last().map_or(&followed.start, |(offset, _)| offset);
            (newest.as_str() >= last).then_some(())
        })
        .await;
        let seen = self.seen();
        let followed = &seen.streams[stream];
        is_exact(stream, &followed.start, &followed.events, transcript.events());
    }

    /// After which offset a stream is followed.
    pub fn start_of(&self, stream: &str) -> Option<String> {
        self.seen().streams.get(stream).map(|followed| followed.start.clone())
    }

    /// How many events it has.
    pub fn count(&self) -> usize {
        self.seen().streams.values().map(|followed| followed.events.len()).sum()
    }

    /// Waits until it has so many events more.
    pub async fn progresses(&self, events: usize) {
        let goal = self.count() + events;
        eventually("the follower gets on", async || (self.count() >= goal).then_some(())).await;
    }

    /// The nodes it was connected to, one after the other.
    pub fn nodes(&self) -> Vec<String> {
        self.seen().nodes.clone()
    }

    /// Why connections ended, or could not be made.
    pub fn losses(&self) -> Vec<String> {
        self.seen().losses.clone()
    }

    /// What the server refused.
    pub fn problems(&self) -> Vec<String> {
        self.seen().problems.clone()
    }

    /// Fails if nothing can come any more.
    fn seen(&self) -> MutexGuard<'_, Seen> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(end) = &seen.end {
            panic!("a follower has ended: {end}; before that: {:?}", seen.losses);
        }
        assert!(!self.task.is_finished(), "a follower has panicked");
        seen
    }
}

/// Checks that a subscription got what a stream holds after its start, from the first on, each event
/// once, in order and unchanged. It need not have got to the stream's end.
pub fn is_exact(stream: &str, start: &str, got: &[(String, Bytes)], expected: &[Event]) {
    let after = expected.iter().filter(|event| event.offset.as_str() > start);
    let mut count = 0;
    for ((offset, payload), event) in got.iter().zip(after.clone()) {
        assert_eq!(offset, &event.offset, "event {count} of {stream} after {start}");
        let expected = event.payload.to_string();
        assert_eq!(payload, expected.as_bytes(), "the payload at {offset} of {stream}");
        count += 1;
    }
    assert_eq!(count, got.len(), "{stream} has no more than {} events", after.count());
}

async fn run(mut live: Live, mut pace: watch::Receiver<Pace>, seen: Arc<Mutex<Seen>>) {
    loop {
        let now = *pace.borrow_and_update();
        if now == Pace::Stopped {
            if pace.changed().await.is_err() {
                return;
            }
            continue;
        }
        let update = tokio::select! {
            update = live.next() => update,
            _ = pace.changed() => continue,
        };
        let is_event = matches!(update, Ok(Some(Update::Event(_))));
        if !note(&seen, &mut live, update) {
            return;
        }
        if let (true, Pace::Pausing(pause)) = (is_event, now) {
            tokio::time::sleep(pause).await;
        }
    }
}

/// Notes what came. Returns whether there can be more.
fn note(seen: &Mutex<Seen>, live: &mut Live, update: Result<Option<Update>, ClientError>) -> bool {
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    match update {
        Ok(Some(update)) => {
            if let Some(event) = seen.note(update) {
                live.ack(&event);
            }
        }
        Ok(None) => seen.end = Some("there is nothing to follow".to_owned()),
        Err(error) => seen.end = Some(error.to_string()),
    }
    seen.end.is_none()
}

impl Seen {
    /// Notes an update, and gives back what is to be acknowledged.
    fn note(&mut self, update: Update) -> Option<LiveEvent> {
        match update {
            Update::Connected { node, .. } => self.nodes.push(node),
            Update::Disconnected { error, .. } => self.losses.push(error.to_string()),
            Update::Created { stream, offset, .. } => {
                let new = || Followed { start: offset, events: Vec::new() };
                self.streams.entry(stream.to_string()).or_insert_with(new);
            }
            Update::Event(event) => {
                let followed = self.streams.get_mut(&*event.stream);
                let followed = followed.expect("a subscription that stands before its events");
                followed.events.push((event.offset.clone(), event.payload.clone()));
                return Some(event);
            }
            Update::Problem { query_id, problem } => {
                self.problems.push(format!("{query_id:?}: {problem:?}"));
            }
            Update::Ended { stream, reason, .. } => {
                self.problems.push(format!("{stream} has ended: {reason}"));
            }
            _ => {}
        }
        None
    }
}
