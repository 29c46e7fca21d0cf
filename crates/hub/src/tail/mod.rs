//! Following the log: one reader of the log a node, however many readers of streams.
//!
//! A reader that waits for a stream holds an [`TopicGuard`] at that stream's [`Topic`]. The
//! follower reads the log once, hands the events of attended streams to their topics, and the
//! topics wake their readers. A waiting reader costs no query; a woken one finds the new events in
//! memory, encoded once for everybody. The hub's shards, which push instead of being woken one reader
//! at a time, get each look at the log as a [`LogBatch`].
//!
//! - `chunk`: a stream's events of one look at the log, and the forms that its followers share
//! - `entities`: what becomes of entities, for the shards that have someone to tell
//! - `tables`: tables whose changes live queries are kept by
//! - `topic`: one stream's newest events in memory, for the readers that wait for it

mod chunk;
mod entities;
mod tables;
mod topic;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{broadcast, mpsc, watch};
use tokio_util::sync::CancellationToken;

use tidewire_store::{
    Control, Epoch, PageLimit, Position, SharedStore, StoreError, TailEvent, WantsPayload,
};

use crate::changes;
use crate::row_filter::Tables;

pub use chunk::Chunk;
pub use entities::{CodeGuard, EntityNews};
pub use tables::TableGuard;
pub use topic::{Ending, SchemaChange, StreamSlice, Topic, TopicRead};

/// Events read from the log at once.
const FOLLOW_LIMIT: PageLimit = PageLimit { events: 2_000, bytes: 8 << 20 };

/// Batches of headers kept for listeners that want to see every event. One that falls behind by
/// more is told so and looks at the store instead.
const HEADER_BATCHES: usize = 256;

/// What one look at the log brought, for those who push it on.
#[derive(Debug)]
pub struct LogBatch {
    /// Everything up to here has been seen.
    pub position: Position,
    /// The attended streams that something happened to.
    pub streams: Vec<StreamSlice>,
    /// What became of entities of attended codes, in order.
    pub entities: Vec<Arc<EntityNews>>,
}

/// Where batches go: one way for each shard. A shard that is busy makes the follower wait, which then
/// sees more at once.
pub(crate) type BatchSenders = Vec<mpsc::Sender<Arc<LogBatch>>>;

/// Where this node stands in the log, and who waits for what.
#[derive(Debug)]
pub struct Tail {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    topics: Mutex<Topics>,
    /// The same as `topics.position`, for those who wait for it and for the metrics.
    position: watch::Sender<Position>,
    /// When the newest event that was seen was appended, and how long after that it was seen.
    lag_ms: AtomicU64,
    headers: broadcast::Sender<Arc<Vec<TailEvent>>>,
    /// To be told of changes before anyone gets what came after them.
    tables: Arc<Tables>,
}

#[derive(Debug)]
struct Topics {
    /// Everything up to here has been handed to the topics.
    position: Position,
    by_stream: HashMap<Arc<str>, Arc<Topic>>,
    codes: entities::Codes,
    tables: tables::Sources,
}

impl Topics {
    /// Whether anyone needs a stream's payloads.
    fn wants(&self, stream: &str) -> bool {
        self.by_stream.contains_key(stream) || self.tables.contains(stream)
    }
}

impl Shared {
    fn topics(&self) -> MutexGuard<'_, Topics> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tail {
    /// A tail that starts at `position`.
    pub(crate) fn new(position: Position, tables: Arc<Tables>) -> Tail {
        let codes = entities::Codes::default();
        let tables_read = tables::Sources::default();
        let topics = Topics { position, by_stream: HashMap::new(), codes, tables: tables_read };
        Tail {
            shared: Arc::new(Shared {
                topics: Mutex::new(topics),
                position: watch::Sender::new(position),
                lag_ms: AtomicU64::new(0),
                headers: broadcast::channel(HEADER_BATCHES).0,
                tables,
            }),
        }
    }

    /// Begins to wait for a stream. Events after the moment of this call reach the topic.
    pub fn attend(&self, stream: &str) -> TopicGuard {
        let mut topics = self.shared.topics();
        let position = topics.position;
        let topic = topics
            .by_stream
            .entry(stream.into())
            .or_insert_with(|| Arc::new(Topic::new(stream, position)));
        topic.enter();
        TopicGuard { topic: Arc::clone(topic), shared: Arc::clone(&self.shared) }
    }

    /// Headers of all events from now on, in batches.
    pub fn headers(&self) -> broadcast::Receiver<Arc<Vec<TailEvent>>> {
        self.shared.headers.subscribe()
    }

    /// Where this node stands in the log.
    pub fn position(&self) -> Position {
        *self.shared.position.borrow()
    }

    /// Waits until this node has seen the log up to a position.
    pub async fn reached(&self, position: Position) {
        // The sender is this very tail's, so it cannot be gone.
        let _ = self.shared.position.subscribe().wait_for(|seen| *seen >= position).await;
    }

    /// How long the newest event took from its commit to this node.
    pub fn lag_ms(&self) -> u64 {
        self.shared.lag_ms.load(Ordering::Relaxed)
    }

    /// Streams that someone waits for.
    pub fn attended(&self) -> usize {
        self.shared.topics().by_stream.len()
    }

    /// Follows the log until cancelled.
    pub async fn follow(
        &self,
        store: SharedStore,
        fallback_poll: Duration,
        sinks: BatchSenders,
        stop: CancellationToken,
    ) {
        let mut grown = store.grown();
        let mut poll = tokio::time::interval(fallback_poll);
        poll.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                changed = grown.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                _ = poll.tick() => {}
            }
            if let Err(error) = self.catch_up(&store, &sinks).await {
                tracing::warn!(%error, "cannot follow the log; trying again");
            }
        }
    }

    /// Reads on until there is nothing new.
    pub(crate) async fn catch_up(
        &self,
        store: &SharedStore,
        sinks: &BatchSenders,
    ) -> Result<(), StoreError> {
        loop {
            let after = self.shared.topics().position;
            let shared = Arc::clone(&self.shared);
            let wants: WantsPayload = Arc::new(move |stream: &str| shared.topics().wants(stream));
            let mut events = store.follow(after, FOLLOW_LIMIT, wants).await?;
            self.render(&mut events, store.epoch());
            if events.is_empty() {
                return Ok(());
            }
            while !events.is_empty() {
                let later = events.split_off(first_sight(&events));
                let Some(batch) = self.hand_out(&events) else { return Ok(()) };
                let batch = Arc::new(batch);
                for sink in sinks {
                    // A shard that is gone belongs to a server that stops.
                    let _ = sink.send(Arc::clone(&batch)).await;
                }
                // Those who push go first: whom a task wakes last runs before all whom it has woken.
                tokio::task::yield_now().await;
                // Nobody listening is fine.
                let _ = self.shared.headers.send(Arc::new(events));
                events = later;
            }
        }
    }

    /// Gives changes of rows their documents, where someone follows the table's stream.
    fn render(&self, events: &mut [TailEvent], epoch: Epoch) {
        for event in events.iter_mut().filter(|event| event.row.is_some()) {
            if self.shared.topics().by_stream.contains_key(event.stream.as_str()) {
                changes::render_tail_event(event, epoch);
            }
        }
    }

    /// Gives events to those who wait for them.
    pub(crate) fn hand_out(&self, events: &[TailEvent]) -> Option<LogBatch> {
        let last = events.last()?;
        let (position, created_at_ms) = (last.position, last.created_at_ms);
        let mut by_topic: HashMap<&str, Vec<&TailEvent>> = HashMap::new();
        let mut streams = Vec::new();
        let mut entities = Vec::new();
        self.shared.tables.hear(events);
        {
            let mut topics = self.shared.topics();
            for event in events {
                entities.extend(topics.codes.news(event).map(Arc::new));
                if topics.by_stream.contains_key(event.stream.as_str()) {
                    by_topic.entry(&event.stream).or_default().push(event);
                }
            }
            for (stream, events) in by_topic {
                let Some(topic) = topics.by_stream.get(stream) else { continue };
                let stream_slice = topic.extend(&events, position);
                if stream_slice.ending == Some(Ending::Gone) {
                    topics.by_stream.remove(stream);
                }
                streams.push(stream_slice);
            }
            topics.position = position;
        }
        self.shared.position.send_replace(position);
        let lag_ms = u64::try_from(tidewire_wire::clock::now_ms() - created_at_ms).unwrap_or(0);
        self.shared.lag_ms.store(lag_ms, Ordering::Relaxed);
        Some(LogBatch { position, streams, entities })
    }
}

/// How many events make one batch: up to a change of a table's columns, so that whoever follows it is
/// told between the rows before and the rows after.
fn first_sight(events: &[TailEvent]) -> usize {
    let change = events.iter().position(|event| event.control == Some(Control::Schema));
    change.map_or(events.len(), |at| at + 1)
}

/// A reader's place at a topic. Leaving (dropping it) closes the topic after the last reader.
#[derive(Debug)]
pub struct TopicGuard {
    topic: Arc<Topic>,
    shared: Arc<Shared>,
}

impl TopicGuard {
    /// The topic itself.
    pub fn topic(&self) -> &Arc<Topic> {
        &self.topic
    }
}

impl std::ops::Deref for TopicGuard {
    type Target = Topic;

    fn deref(&self) -> &Topic {
        &self.topic
    }
}

impl Drop for TopicGuard {
    fn drop(&mut self) {
        let mut topics = self.shared.topics();
        let is_present = |topics: &Topics| {
            topics
                .by_stream
                .get(self.topic.stream())
                .is_some_and(|present| Arc::ptr_eq(present, &self.topic))
        };
        if self.topic.leave() && is_present(&topics) {
            topics.by_stream.remove(self.topic.stream());
        }
    }
}
