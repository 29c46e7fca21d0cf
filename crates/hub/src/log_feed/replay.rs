//! Replays: a subscription's past events, read from the store up to where it can go live.
//!
//! A replay reads some streams at once and gives their events in the log's order. It goes on when the
//! connection has taken what was read before, so that its pace is the socket's, and it holds a page
//! of each stream at most.
//!
//! ```text
//!   stream a   ▪   ▪ ▪      ▪ │        read up to its end: horizon = the log's tip then
//!   stream b     ▪      ▪ ▪   │ ▪ ▪    a full page: horizon = its last event
//!   ──────────────────────────▼──────► everything up to the least horizon can be given
//! ```
//!
//! When every stream has been read to its end the shard is asked to let them join; see `join`.
//!
//! The past of entities and of live queries is read elsewhere (`kinds::entities::begin`, `kinds::query::engine::resume`),
//! because it is another one: not all events of some streams in order, but the last of each entity, and what some
//! tables' rows are to a query. They share how a store is asked again (`patience`), and how many are at once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use tidewire_store::{Event, Lifetime, Page, PageLimit, Position, StreamState};

use crate::Hub;
use crate::audience::ViewMode;
use crate::connection::{Key, StartFrom};
use crate::frames::{Dialect, Envelope, Form};
use crate::lookup::beyond_tip;
use crate::lookup::{Reach, find as find_page, renew};
use crate::min_offset::MinOffset;
use crate::outbox::Slot;
use crate::patience::RetryPolicy;
use crate::row_filter::{RowFilter, View};
use crate::{Command, Handle};
use tidewire_access::problem::Problem;
use tidewire_wire::websocket::deflate::Deflater;

/// Events that one step reads, over all its streams.
const STEP_EVENTS: usize = 2_000;
/// Payload bytes likewise.
const STEP_BYTES: usize = 512 << 10;
/// Each stream's share of those is at least this, so that many streams do not crawl.
const SHARE_EVENTS_MIN: usize = 16;
const SHARE_BYTES_MIN: usize = 8 << 10;
/// Bytes of one piece of a step.
const PARCEL_BYTES: usize = 64 << 10;

/// A subscription that is to be replayed.
#[derive(Debug)]
pub(crate) struct ReplayRequest {
    pub slot: Slot,
    pub query_id: Arc<str>,
    pub stream: Arc<str>,
    pub reach: Reach,
    pub start: StartFrom,
    pub min_offset: MinOffset,
    pub mode: ViewMode,
    /// Known if the stream was looked at before.
    pub(crate) envelope: Option<Envelope>,
}

/// Whom a replay is for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    pub key: Key,
    pub(crate) replay: u32,
    pub dialect: Dialect,
}

/// What a replay brings at a time.
#[derive(Debug, Default)]
pub struct ReplayPage {
    /// Subscriptions whose stream was found, and after what their events come.
    pub begun: Vec<ReplayStart>,
    /// Subscriptions that cannot be.
    pub failed: Vec<(Slot, Problem)>,
    /// What subscriptions see their tables through.
    pub(crate) lenses: Vec<(Slot, Arc<RowFilter>)>,
    /// Events, in the log's order.
    pub(crate) items: Vec<SubscriptionEvents>,
    /// Everything up to here has been given.
    pub reached: Position,
    /// Set when every stream was read to its end.
    pub ends: Option<Vec<End>>,
}

#[derive(Debug)]
pub struct ReplayStart {
    pub slot: Slot,
    pub after: Position,
    pub(crate) envelope: Envelope,
    pub content_type: String,
    /// For a stream whose lifetime slides: how often to renew it.
    pub(crate) renew_every: Option<Duration>,
}

/// Some events of one subscription.
#[derive(Debug)]
pub(crate) struct SubscriptionEvents {
    pub slot: Slot,
    pub bytes: Bytes,
    pub events: usize,
}

/// A stream that was read to its end.
#[derive(Debug)]
pub struct End {
    pub slot: Slot,
    /// Read up to here.
    pub min_offset: Position,
    /// What was read beyond the step's `reached`.
    pub rest: Vec<Event>,
    /// The stream is closed, and this is its last event.
    pub closed: Option<Position>,
}

/// What the shard makes of a step.
#[derive(Debug, PartialEq, Eq)]
pub enum ReplayDecision {
    /// Read on.
    Continue,
    /// All have joined, or nobody wants it any more.
    Done,
}

/// Reads until all have joined.
pub(crate) async fn run(hub: Arc<Hub>, shard: Handle, target: Target, wanted: Vec<ReplayRequest>) {
    let mut replay = Replay::new(&hub, target.dialect, wanted);
    loop {
        let step = tokio::select! {
            step = replay.step() => Box::new(step),
            () = hub.draining.cancelled() => return,
        };
        let (reply, verdict) = oneshot::channel();
        let Target { key, replay: id, .. } = target;
        shard.ask(Command::Replayed { key, replay: id, step, reply }).await;
        match verdict.await {
            Ok(ReplayDecision::Continue) => {}
            // The connection may be gone, and the question with it.
            Ok(ReplayDecision::Done) | Err(_) => return,
        }
    }
}

struct Replay<'a> {
    hub: &'a Hub,
    dialect: Dialect,
    cursors: Vec<Cursor>,
    deflater: Option<Deflater>,
}

struct Cursor {
    wanted: ReplayRequest,
    /// Everything up to here is in `page` or was given. `None` before the first look.
    min_offset: Option<Position>,
    /// What was read and not yet given.
    page: VecDeque<Event>,
    /// The stream was read to its end.
    complete: bool,
    closed: Option<Position>,
}

impl<'a> Replay<'a> {
    fn new(hub: &'a Hub, dialect: Dialect, wanted: Vec<ReplayRequest>) -> Replay<'a> {
        let cursor = |wanted: ReplayRequest| Cursor {
            wanted,
            min_offset: None,
            page: VecDeque::new(),
            complete: false,
            closed: None,
        };
        let cursors = wanted.into_iter().map(cursor).collect();
        Replay { hub, dialect, cursors, deflater: None }
    }

    async fn step(&mut self) -> ReplayPage {
        let mut step = ReplayPage::default();
        self.read(&mut step).await;
        let min_offset = |cursor: &Cursor| cursor.min_offset.unwrap_or(Position::START);
        step.reached = self.cursors.iter().map(min_offset).min().unwrap_or(Position::START);
        self.give(&mut step);
        if self.cursors.iter().all(|cursor| cursor.complete) {
            let end = |cursor: &Cursor| End {
                slot: cursor.wanted.slot,
                min_offset: min_offset(cursor),
                rest: cursor.page.iter().cloned().collect(),
                closed: cursor.closed,
            };
            step.ends = Some(self.cursors.iter().map(end).collect());
        }
        // If there is another step, then what was read to its end may have grown since.
        for cursor in self.cursors.iter_mut().filter(|cursor| cursor.page.is_empty()) {
            cursor.complete = false;
        }
        step
    }

    /// Reads a page of every stream of which nothing is left.
    async fn read(&mut self, step: &mut ReplayPage) {
        let count = self.cursors.len().max(1);
        let limit = PageLimit {
            events: (STEP_EVENTS / count).max(SHARE_EVENTS_MIN),
            bytes: (STEP_BYTES / count).max(SHARE_BYTES_MIN),
        };
        let mut cursors = std::mem::take(&mut self.cursors);
        for cursor in &mut cursors {
            if cursor.complete || !cursor.page.is_empty() {
                continue;
            }
            match cursor.read(self.hub, limit).await {
                Ok((begun, row_filter)) => {
                    step.begun.extend(begun);
                    step.lenses
                        .extend(row_filter.map(|row_filter| (cursor.wanted.slot, row_filter)));
                }
                Err(problem) => step.failed.push((cursor.wanted.slot, problem)),
            }
        }
        cursors.retain(|cursor| !step.failed.iter().any(|(slot, _)| *slot == cursor.wanted.slot));
        self.cursors = cursors;
    }

    /// Takes out everything up to where all streams are known.
    fn give(&mut self, step: &mut ReplayPage) {
        let mut given: Vec<(usize, Event)> = Vec::new();
        for (index, cursor) in self.cursors.iter_mut().enumerate() {
            let known = cursor.page.partition_point(|event| event.position <= step.reached);
            given.extend(cursor.page.drain(..known).map(|event| (index, event)));
        }
        given.sort_by_key(|(_, event)| event.position);
        let mut run: Vec<Event> = Vec::new();
        let mut bytes = 0;
        let mut given = given.into_iter().peekable();
        while let Some((index, event)) = given.next() {
            bytes += event.payload.len();
            run.push(event);
            let goes_on = given.peek().is_some_and(|(next, _)| *next == index);
            if goes_on && bytes < PARCEL_BYTES {
                continue;
            }
            let ReplayRequest { slot, envelope, .. } = &self.cursors[index].wanted;
            if let Some(envelope) = envelope {
                let bytes = envelope.encode(self.dialect, &run, &mut self.deflater);
                step.items.push(SubscriptionEvents { slot: *slot, bytes, events: run.len() });
            }
            run.clear();
            bytes = 0;
        }
    }
}

impl Cursor {
    /// Reads on. Says so if this was the first look at the stream, and through what it is seen.
    async fn read(
        &mut self,
        hub: &Hub,
        limit: PageLimit,
    ) -> Result<(Option<ReplayStart>, Option<Arc<RowFilter>>), Problem> {
        let (after, first) = match (self.min_offset, self.wanted.start) {
            (Some(min_offset), _) => (min_offset, false),
            (None, StartFrom::After(after)) => (after, true),
            // Past every event: the answer tells where the stream ends.
            (None, StartFrom::Now) => (Position::new(u64::MAX), true),
        };
        if first {
            self.wanted.min_offset.reached(hub).await?;
        }
        let ReplayRequest { stream, reach, mode, .. } = &self.wanted;
        if first && mode.to_table {
            be_watched(hub, stream, mode.view.as_ref()).await?;
        }
        let mut page = read_page(hub, stream, reach, after, limit).await?;
        let after = match self.wanted.start {
            StartFrom::Now if first => page.view.tail,
            _ => after,
        };
        beyond_tip(hub, after, &page)?;
        self.complete = page.up_to_date();
        self.min_offset = Some(page.scanned_to.max(after));
        self.closed = page.view.state.closed.as_ref().map(|closed| closed.position);
        let begun = first.then(|| self.begun(hub, &page.view.state, after));
        if first {
            renew(hub, &page.view.state).await;
        }
        let row_filter = see_page(hub, self.wanted.mode.view.as_ref(), &mut page).await?;
        self.page = page.events.into();
        Ok((begun, row_filter))
    }

    fn begun(&mut self, hub: &Hub, state: &StreamState, after: Position) -> ReplayStart {
        let ReplayRequest { query_id, stream, slot, mode, .. } = &self.wanted;
        let notify_bytes = hub.options.live.notify_bytes;
        let form = match mode.to_table {
            true => Form::Change,
            false => Form::of(&state.content_type),
        };
        let envelope = Envelope::new(query_id, stream, hub.store.epoch(), notify_bytes, form);
        let slot = *slot;
        self.wanted.envelope = Some(envelope.clone());
        let content_type = state.content_type.clone();
        ReplayStart { slot, after, envelope, content_type, renew_every: renew_every(state) }
    }
}

/// How often a stream's lifetime is renewed while it is followed, if it slides.
pub(crate) fn renew_every(state: &StreamState) -> Option<Duration> {
    match state.lifetime {
        Lifetime::Sliding { ttl_s } => Some(Duration::from_secs(ttl_s) / 3),
        _ => None,
    }
}

/// Reads a page, as soon as the store answers.
pub(crate) async fn read_page(
    hub: &Hub,
    stream: &str,
    reach: &Reach,
    after: Position,
    limit: PageLimit,
) -> Result<Page, Problem> {
    let mut patience = RetryPolicy::default();
    loop {
        let place = hub.replay_reads().acquire().await;
        let page = find_page(hub, stream, reach, after, limit).await;
        drop(place);
        if let Some(page) = patience.bear(page).await? {
            return Ok(page);
        }
    }
}

/// Puts what is seen of a page in the place of its events, as soon as that can be said.
pub(crate) async fn see_page(
    hub: &Hub,
    view: Option<&View>,
    page: &mut Page,
) -> Result<Option<Arc<RowFilter>>, Problem> {
    let mut patience = RetryPolicy::default();
    loop {
        if let Some(row_filter) = patience.bear(hub.see(view, page).await).await? {
            return Ok(row_filter);
        }
    }
}

/// Makes sure that a table can be followed, likewise.
async fn be_watched(hub: &Hub, stream: &str, view: Option<&View>) -> Result<(), Problem> {
    let mut patience = RetryPolicy::default();
    while patience.bear(hub.watched(stream, view).await).await?.is_none() {}
    Ok(())
}

#[cfg(test)]
mod tests;
