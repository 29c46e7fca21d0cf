//! Upkeep of what the log keeps: has the store give up and remove what is past its limits, says who
//! lost something by it, and counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use tidewire_store::{Lagging, Retained};

use tidewire_access::exposition::{write_counters, write_gauges};
use tidewire_hub::Hub;

/// The pause between two steps, at least. The steps themselves take at most half of the time, however
/// much there is to do: this is upkeep, and others use the database.
const PAUSE_MIN: Duration = Duration::from_millis(5);

/// What this node did, and how things stood when it last looked. What another node did is counted
/// there.
#[derive(Debug, Default)]
pub(crate) struct RetentionStats {
    events_removed: AtomicU64,
    bytes_removed: AtomicU64,
    events_archived: AtomicU64,
    streams_trimmed: AtomicU64,
    partitions_dropped: AtomicU64,
    cursors_passed: AtomicU64,
    captured_events: AtomicU64,
    captured_bytes: AtomicU64,
    streams_held_back: AtomicU64,
    oldest_ms: AtomicU64,
}

impl RetentionStats {
    fn note(&self, done: &Retained) {
        let add = |counter: &AtomicU64, value: u64| counter.fetch_add(value, Ordering::Relaxed);
        add(&self.events_removed, done.events_removed);
        add(&self.bytes_removed, done.bytes_removed);
        add(&self.events_archived, done.events_archived);
        add(&self.streams_trimmed, done.streams_trimmed as u64);
        add(&self.partitions_dropped, done.partitions_dropped as u64);
        add(&self.cursors_passed, done.lagging.len() as u64);
        let set = |gauge: &AtomicU64, value: u64| gauge.store(value, Ordering::Relaxed);
        set(&self.captured_events, done.captured_events);
        set(&self.captured_bytes, done.captured_bytes);
        set(&self.streams_held_back, done.streams_held_back as u64);
        set(&self.oldest_ms, done.oldest_ms.and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0));
    }

    /// The text that a scraper gets.
    pub(crate) fn write(&self, body: &mut String) -> std::fmt::Result {
        let read = |value: &AtomicU64| value.load(Ordering::Relaxed);
        let counters = [
            ("retention_events_removed", "Events removed from the log", read(&self.events_removed)),
            ("retention_bytes_removed", "Bytes of those", read(&self.bytes_removed)),
            ("retention_events_archived", "Events of those archived", read(&self.events_archived)),
            ("retention_trims", "Times that a stream gave up events", read(&self.streams_trimmed)),
            (
                "retention_partitions_dropped",
                "Empty partitions of the log that were dropped",
                read(&self.partitions_dropped),
            ),
            (
                "retention_cursors_passed",
                "Times that a hard limit took events that someone had not read",
                read(&self.cursors_passed),
            ),
        ];
        write_counters(body, &counters)?;
        let gauges = [
            ("captured_events", "Captured rows in the log", read(&self.captured_events)),
            ("captured_bytes", "Bytes of those", read(&self.captured_bytes)),
            (
                "captured_oldest_milliseconds",
                "When the oldest of those were appended, roughly, since the Unix epoch",
                read(&self.oldest_ms),
            ),
            (
                "retention_streams_held_back",
                "Streams with events past their limits, kept for someone who has not read them",
                read(&self.streams_held_back),
            ),
        ];
        write_gauges(body, &gauges)
    }
}

/// Has the store do what is due, a piece at a time.
pub(crate) async fn keep(hub: Arc<Hub>, stats: Arc<RetentionStats>, stop: CancellationToken) {
    let interval = hub.options.log.sweep_interval;
    let (mut from, mut pause) = (String::new(), interval);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        let begun = Instant::now();
        pause = interval;
        match hub.store.retain(&hub.options.retention, &from).await {
            Ok(done) if done.elsewhere => {}
            Ok(done) => {
                stats.note(&done);
                done.lagging.iter().for_each(|lagging| warn(&hub, lagging));
                if done.more {
                    pause = begun.elapsed().max(PAUSE_MIN).min(interval);
                }
                from = done.next;
            }
            Err(error) => tracing::warn!(%error, "retention failed; trying again next round"),
        }
    }
}

fn warn(hub: &Hub, Lagging { stream, cursor, trimmed }: &Lagging) {
    tracing::warn!(
        stream,
        cursor = %hub.offset(*cursor),
        trimmed = %hub.offset(*trimmed),
        "events that someone had not read were given up, because retention.hard_age_ms or \
         retention.hard_bytes_max was reached; they are told with 410 offset_trimmed"
    );
}
