//! A shard's periodic work: pings, ending silent and stuck connections, progress, acknowledgements.

use std::sync::Arc;
use std::time::Duration;

use tidewire_store::{Command as LogCommand, Position, SessionChange};

use super::connection::{Connection, Key, Subscription};
use super::outbox::{OutboxItem, Slot};
use super::shard::{Shard, ms};
use super::stats::{add, set};
use crate::ack::{Ack, Acked};
use crate::messages::{Progress, ServerMessage as _};

/// How often a lifetime is renewed at most.
const RENEWAL_MS_MIN: u64 = 100;

/// What it is time for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Due {
    /// A client has not been heard for too long.
    Silent,
    /// Something has waited for too long.
    Stuck,
    Ping,
}

impl Shard {
    /// Finds those for whom it is time to do something, unless there are some already.
    pub(super) fn upkeep(&mut self) {
        if !self.due.is_empty() {
            return;
        }
        let live = &self.hub.options.live;
        let (silence_ms, age_ms) = (ms(live.silence), ms(live.queue_age));
        let (mut events, mut bytes, mut oldest_ms) = (0, 0, self.now_ms);
        for (index, connection) in &self.connections {
            events += connection.outbox.events;
            bytes += connection.outbox.bytes;
            let waits_since = connection.outbox.oldest_ms().unwrap_or(self.now_ms);
            oldest_ms = oldest_ms.min(waits_since);
            let silent = connection.silent_since(self.now_ms) + silence_ms <= self.now_ms;
            let stuck = connection.reader.is_none() && waits_since + age_ms <= self.now_ms;
            let ping = connection.next_ping_ms <= self.now_ms && !connection.closing;
            let what = match (silent, stuck, ping) {
                (true, ..) => Due::Silent,
                (_, true, _) => Due::Stuck,
                (.., true) => Due::Ping,
                _ => continue,
            };
            self.due.push_back((Key { index, serial: connection.serial }, what));
        }
        set(&self.stats.queued_events, events);
        set(&self.stats.queued_bytes, bytes);
        set(&self.stats.queue_age_ms, usize::try_from(self.now_ms - oldest_ms).unwrap_or(0));
    }

    /// Looks after some of those for whom it is time. They may be many at once: all who got the same
    /// message last, or came together.
    pub(super) fn care(&mut self, count: usize) {
        let ping_ms = ms(self.hub.options.live.ping);
        for _ in 0..count {
            let Some((key, what)) = self.due.pop_front() else { return };
            let Some(connection) = self.connection(key) else { continue };
            match what {
                Due::Silent => {
                    add(&self.stats.silent, 1);
                    self.remove(key.index);
                }
                Due::Stuck => self.drop_stuck(key),
                Due::Ping if connection.reader.is_some() => self.care_for_reader(key),
                Due::Ping => self.ping(key, ping_ms),
            }
        }
    }

    /// Asks whether a client is there, and tells it how far it has got.
    fn ping(&mut self, key: Key, ping_ms: u64) {
        let (all_served, now_ms) = (self.backlog.is_empty(), self.now_ms);
        let Some(connection) = self.connection(key) else { return };
        connection.next_ping_ms = now_ms + ping_ms;
        connection.queue(connection.dialect().ping(), OutboxItem::Ping, now_ms);
        self.touch(key.index);
        let connection = self.connections.get(key.index).filter(|_| all_served);
        let Some(position) = connection.and_then(|c| self.caught_up(c)) else { return };
        let offset = self.hub.offset(position);
        let Some(connection) = self.connections.get_mut(key.index) else { return };
        if connection.told < position {
            connection.told = position;
            connection.furthest = connection.furthest.max(position);
            let message = Progress { query_id: None, offset }.text();
            connection.say(&message, Some(offset), &mut self.deflater, now_ms);
        }
    }

    /// Up to where a connection was told everything, or has it in its outbox.
    fn caught_up(&self, connection: &Connection) -> Option<Position> {
        if !connection.unsorted.is_empty() {
            return None;
        }
        let mut slots = connection.slots();
        slots.try_fold(self.position, |position, (_, subscription)| {
            let caught_up = subscription.kind.subject().caught_up(subscription, self)?;
            Some(position.min(caught_up))
        })
    }

    /// What has waited for too long becomes a gap.
    fn drop_stuck(&mut self, key: Key) {
        if self.fall_back_if_stuck(key) {
            return;
        }
        let now_ms = self.now_ms;
        let stats = Arc::clone(&self.stats);
        let Some(connection) = self.connection(key) else { return };
        let is_stuck = |s: &Subscription| {
            let subject = s.kind.subject();
            (s.waiting > 0 || subject.keeps_back()) && !subject.has_lost()
        };
        let stuck = connection.slots().filter(|(_, s)| is_stuck(s));
        let stuck: Vec<(Slot, Position)> = stuck.map(|(slot, s)| (slot, s.sent)).collect();
        for (slot, sent) in stuck {
            connection.lose(slot, (sent, sent), now_ms);
            add(&stats.gaps, 1);
        }
    }

    /// Has a stream's lifetime renewed while it is followed.
    pub(super) fn renew_every(&mut self, stream: &Arc<str>, every: Option<Duration>) {
        let Some(audience) = self.audiences.get_mut(stream) else { return };
        if let (Some(every), None) = (every, audience.renewal) {
            let every_ms = ms(every).max(RENEWAL_MS_MIN);
            audience.renewal = Some((every_ms, self.now_ms + every_ms));
            self.next_renewal_ms = self.next_renewal_ms.min(self.now_ms + every_ms);
        }
    }

    /// Being followed is being read: a stream with followers does not expire under them.
    pub(super) fn renew_lifetimes(&mut self) {
        if self.now_ms < self.next_renewal_ms {
            return;
        }
        self.next_renewal_ms = u64::MAX;
        for (stream, audience) in &mut self.audiences {
            let Some((every_ms, due_ms)) = &mut audience.renewal else { continue };
            if *due_ms > self.now_ms {
                self.next_renewal_ms = self.next_renewal_ms.min(*due_ms);
                continue;
            }
            *due_ms = self.now_ms + *every_ms;
            self.next_renewal_ms = self.next_renewal_ms.min(*due_ms);
            let (hub, stream) = (Arc::clone(&self.hub), stream.to_string());
            self.hub.tasks.spawn(async move {
                if let Err(error) = hub.store.submit(LogCommand::Touch { stream }).await {
                    tracing::debug!(%error, "followers did not renew their stream");
                }
            });
        }
    }

    /// Passes on what a client has processed, to its session's pointers.
    pub(super) fn acknowledge(&mut self, key: Key, acks: Vec<Ack>) {
        let position = self.position;
        let Some(connection) = self.connection(key) else { return };
        let Some(session) = connection.session.clone() else { return };
        let told = connection.told;
        let mut changes = Vec::new();
        for Ack { of, offset } in acks {
            if offset > position {
                continue;
            }
            for (_, subscription) in connection.slots() {
                // Only streams are kept by sessions.
                let Some(feed) = subscription.kind.feed() else { continue };
                let meant = match &of {
                    Acked::Query(query_id) => *subscription.query_id == **query_id,
                    Acked::Stream(stream) => *feed.stream == **stream,
                    Acked::Everything => offset <= told && feed.is_whole(),
                };
                if let (true, Some(link)) = (meant, subscription.link) {
                    changes.push(SessionChange::Acknowledge {
                        session: session.to_string(),
                        stream: feed.stream.to_string(),
                        epoch: link.epoch,
                        position: offset,
                    });
                }
            }
        }
        self.hub.session_notes.note(changes);
    }
}

impl Connection {
    /// Since when there was no sign of life.
    fn silent_since(&self, now_ms: u64) -> u64 {
        match self.transport.heard_ms() {
            Some(heard_ms) => heard_ms.max(self.progress_ms),
            // A reader is not given up before its time is up: it may read too slowly for its socket
            // to take more.
            None if self.reader.is_some() && !self.closing => now_ms,
            // A response cannot be answered. While its body takes what is sent, it counts as read.
            None if self.blocked => self.progress_ms,
            None => now_ms,
        }
    }
}
