//! The rules of subscriptions, as pure code.

use std::collections::BTreeMap;

use super::{Config, Delivery, Fence, Kind, Link, Op, Reply, Subscription, Wake};
use crate::offset::Position;

/// What an operation is applied against besides the subscription itself.
#[derive(Debug)]
pub struct Context {
    /// The store's clock.
    pub now_ms: i64,
    /// An id for a wake, should one begin.
    pub wake_id: String,
    /// Ends of the streams the operation names or, on creation, that match the pattern. Streams
    /// that do not exist are left out.
    pub tails: BTreeMap<String, Position>,
    /// Where those of them that are forks left their source. What lies before is not theirs.
    pub starts: BTreeMap<String, Position>,
}

/// What an operation does.
#[derive(Debug)]
pub struct Change {
    /// What to answer.
    pub reply: Reply,
    /// What to keep: `Some(None)` removes the subscription, `None` leaves it as it is.
    pub save: Option<Option<Subscription>>,
    /// The set of streams it covers changed, so nodes must be told.
    pub(crate) interest_changed: bool,
    /// A wake to announce in a wake stream: the stream that grew.
    pub announce: Option<Announce>,
}

/// A wake event to append.
#[derive(Debug, PartialEq, Eq)]
pub struct Announce {
    pub wake_stream: String,
    pub event: String,
}

impl Change {
    fn reply(reply: Reply) -> Change {
        Change { reply, save: None, interest_changed: false, announce: None }
    }
}

/// Applies an operation to a subscription.
pub fn apply(id: &str, current: Option<Subscription>, op: &Op, context: &Context) -> Change {
    let mut work = match (current, op) {
        (current, Op::Create(config)) => return create(id, current, config, context),
        (None, _) => return Change::reply(Reply::NotFound),
        (Some(subscription), _) => Work { subscription, context, announce: None, changed: false },
    };
    let mut interest_changed = false;
    let reply = match op {
        Op::Create(_) => Reply::NotFound,
        Op::Delete => {
            return Change {
                reply: Reply::Done { next_wake: false },
                save: Some(None),
                interest_changed: true,
                announce: None,
            };
        }
        Op::AddStreams(streams) => {
            interest_changed = true;
            work.add(streams)
        }
        Op::RemoveStream(stream) => {
            let reply = work.remove(stream);
            interest_changed = work.changed;
            reply
        }
        Op::Grown { stream } => work.grown(stream),
        Op::Claim { worker } => work.claim(worker),
        Op::Ack { fence, acks, done } => work.ack(fence, acks, *done),
        Op::Release { fence } => work.release(fence),
        Op::Due { attempt_ms } => work.due(*attempt_ms),
        Op::Delivered { generation, outcome } => work.delivered(*generation, *outcome),
    };
    Change {
        reply,
        save: work.changed.then_some(Some(work.subscription)),
        interest_changed,
        announce: work.announce,
    }
}

fn create(id: &str, current: Option<Subscription>, config: &Config, context: &Context) -> Change {
    if let Some(subscription) = current {
        return Change::reply(if subscription.config == *config {
            Reply::Subscription { new: false, subscription: Box::new(subscription) }
        } else {
            Reply::Exists
        });
    }
    let mut links = BTreeMap::new();
    for (stream, &tail) in &context.tails {
        let explicit = config.streams.contains(stream);
        let by_pattern = config.covers_by_pattern(stream);
        links.insert(stream.clone(), Link { explicit, by_pattern, acked: tail, tail });
    }
    for stream in &config.streams {
        links.entry(stream.clone()).or_insert(NEW_EXPLICIT);
    }
    let subscription = Subscription {
        id: id.to_owned(),
        config: config.clone(),
        created_at_ms: context.now_ms,
        generation: 0,
        wake: None,
        retry_count: 0,
        next_attempt_at_ms: None,
        links,
    };
    Change {
        reply: Reply::Subscription { new: true, subscription: Box::new(subscription.clone()) },
        save: Some(Some(subscription)),
        interest_changed: true,
        announce: None,
    }
}

/// A stream named before it exists: all of it will be pending.
const NEW_EXPLICIT: Link =
    Link { explicit: true, by_pattern: false, acked: Position::START, tail: Position::START };

struct Work<'a> {
    subscription: Subscription,
    context: &'a Context,
    announce: Option<Announce>,
    changed: bool,
}

impl Work<'_> {
    fn add(&mut self, streams: &[String]) -> Reply {
        for stream in streams {
            let tail = self.context.tails.get(stream).copied().unwrap_or_default();
            let fresh = Link { acked: tail, tail, ..NEW_EXPLICIT };
            self.subscription.links.entry(stream.clone()).or_insert(fresh).explicit = true;
        }
        self.changed = true;
        Reply::Done { next_wake: false }
    }

    fn remove(&mut self, stream: &str) -> Reply {
        if let Some(link) = self.subscription.links.get_mut(stream) {
            link.explicit = false;
            if !link.by_pattern {
                self.subscription.links.remove(stream);
            }
            self.changed = true;
        }
        Reply::Done { next_wake: false }
    }

    /// Links a stream that an append has revealed, just before that append, and wakes.
    fn grown(&mut self, stream: &str) -> Reply {
        let Some(&tail) = self.context.tails.get(stream) else {
            return Reply::Done { next_wake: false };
        };
        let matches = self.subscription.config.covers_by_pattern(stream);
        match self.subscription.links.get_mut(stream) {
            Some(link) => {
                if matches && !link.by_pattern {
                    link.by_pattern = true;
                    self.changed = true;
                }
                link.tail = tail;
            }
            None if matches => {
                let acked = self.context.starts.get(stream).copied().unwrap_or_default();
                let link = Link { explicit: false, by_pattern: true, acked, tail };
                self.subscription.links.insert(stream.to_owned(), link);
                self.changed = true;
            }
            None => return Reply::Done { next_wake: false },
        }
        Reply::Done { next_wake: self.wake_if_pending(Some(stream)) }
    }

    /// Begins a wake if there is none and work is pending.
    fn wake_if_pending(&mut self, because_of: Option<&str>) -> bool {
        if self.subscription.wake.is_some() || !self.subscription.pending() {
            return false;
        }
        let first_pending = || {
            self.subscription.links.iter().find(|(_, link)| link.pending()).map(|(name, _)| name)
        };
        let stream = because_of.or_else(|| first_pending().map(String::as_str)).unwrap_or_default();
        let stream = stream.to_owned();
        let subscription = &mut self.subscription;
        subscription.generation += 1;
        subscription.retry_count = 0;
        subscription.wake = Some(Wake {
            id: self.context.wake_id.clone(),
            snapshot: snapshot(&subscription.links),
            holder: None,
            lease_until_ms: None,
        });
        match &subscription.config.kind {
            Kind::Webhook { .. } => subscription.next_attempt_at_ms = Some(self.context.now_ms),
            Kind::PullWake { wake_stream } => {
                let event = serde_json::json!({
                    "type": "wake",
                    "subscription_id": subscription.id,
                    "stream": stream,
                    "generation": subscription.generation,
                    "ts": self.context.now_ms,
                });
                self.announce =
                    Some(Announce { wake_stream: wake_stream.clone(), event: event.to_string() });
            }
        }
        self.changed = true;
        true
    }

    fn claim(&mut self, worker: &str) -> Reply {
        if !matches!(self.subscription.config.kind, Kind::PullWake { .. }) {
            return Reply::NotPullWake;
        }
        self.take_back_expired_lease();
        if let Some(Wake { holder: Some(holder), .. }) = &self.subscription.wake {
            let generation = self.subscription.generation;
            return Reply::AlreadyClaimed { holder: holder.clone(), generation };
        }
        if !self.subscription.pending() {
            return Reply::NoPendingWork;
        }
        self.wake_if_pending(None);
        let lease_until_ms = self.lease_end();
        let links = snapshot(&self.subscription.links);
        if let Some(wake) = &mut self.subscription.wake {
            wake.holder = Some(worker.to_owned());
            wake.snapshot = links;
            wake.lease_until_ms = Some(lease_until_ms);
        }
        self.changed = true;
        Reply::Claimed(Box::new(self.subscription.clone()))
    }

    fn ack(&mut self, fence: &Fence, acks: &[(String, Position)], done: bool) -> Reply {
        if !self.passes(fence) {
            return Reply::Fenced;
        }
        for (stream, position) in acks {
            let Some(link) = self.subscription.links.get(stream) else {
                return Reply::InvalidAck { reason: "the stream is not in the subscription" };
            };
            if *position < link.acked {
                return Reply::InvalidAck { reason: "the offset lies before the acknowledged one" };
            }
            if *position > link.tail {
                return Reply::InvalidAck { reason: "the offset lies past the stream's end" };
            }
        }
        for (stream, position) in acks {
            if let Some(link) = self.subscription.links.get_mut(stream) {
                link.acked = *position;
            }
        }
        self.changed = true;
        if done {
            return self.finish();
        }
        let lease_until_ms = self.lease_end();
        if let Some(wake) = &mut self.subscription.wake {
            wake.lease_until_ms = Some(lease_until_ms);
        }
        Reply::Done { next_wake: false }
    }

    fn release(&mut self, fence: &Fence) -> Reply {
        if !matches!(self.subscription.config.kind, Kind::PullWake { .. }) {
            return Reply::NotPullWake;
        }
        if !self.passes(fence) {
            return Reply::Fenced;
        }
        self.finish()
    }

    fn due(&mut self, attempt_ms: u64) -> Reply {
        let now_ms = self.context.now_ms;
        self.take_back_expired_lease();
        let next_wake = self.wake_if_pending(None);
        if self.subscription.next_attempt_at_ms.is_none_or(|at| at > now_ms) {
            return Reply::Done { next_wake };
        }
        let turn_ends_ms = now_ms.saturating_add(i64::try_from(attempt_ms).unwrap_or(i64::MAX));
        self.subscription.next_attempt_at_ms = Some(turn_ends_ms);
        let links = snapshot(&self.subscription.links);
        if let Some(wake) = &mut self.subscription.wake {
            wake.snapshot = links;
        }
        self.changed = true;
        Reply::Deliver(Box::new(self.subscription.clone()))
    }

    fn delivered(&mut self, generation: u64, outcome: Delivery) -> Reply {
        let lease_until_ms = self.lease_end();
        let current = self.subscription.generation == generation;
        let Some(wake) = self.subscription.wake.as_mut().filter(|_| current) else {
            // The receiver called back before its answer arrived here.
            return Reply::Fenced;
        };
        self.changed = true;
        match outcome {
            Delivery::Failed { retry_in_ms } => {
                let retry_in_ms = i64::try_from(retry_in_ms).unwrap_or(i64::MAX);
                self.subscription.retry_count = self.subscription.retry_count.saturating_add(1);
                self.subscription.next_attempt_at_ms =
                    Some(self.context.now_ms.saturating_add(retry_in_ms));
                Reply::Done { next_wake: false }
            }
            Delivery::Accepted => {
                wake.lease_until_ms = Some(lease_until_ms);
                self.subscription.retry_count = 0;
                self.subscription.next_attempt_at_ms = None;
                Reply::Done { next_wake: false }
            }
            Delivery::Done => {
                for (stream, position) in std::mem::take(&mut wake.snapshot) {
                    if let Some(link) = self.subscription.links.get_mut(&stream) {
                        link.acked = link.acked.max(position);
                    }
                }
                self.finish()
            }
        }
    }

    /// Ends the wake; with work pending, the next one begins at once.
    fn finish(&mut self) -> Reply {
        self.subscription.wake = None;
        self.subscription.retry_count = 0;
        self.subscription.next_attempt_at_ms = None;
        self.changed = true;
        Reply::Done { next_wake: self.wake_if_pending(None) }
    }

    fn take_back_expired_lease(&mut self) {
        let until = self.subscription.wake.as_ref().and_then(|wake| wake.lease_until_ms);
        if until.is_some_and(|until| until <= self.context.now_ms) {
            self.subscription.wake = None;
            self.subscription.next_attempt_at_ms = None;
            self.changed = true;
        }
    }

    fn passes(&self, fence: &Fence) -> bool {
        let generation = self.subscription.generation;
        fence.token_generation == generation
            && fence.generation == generation
            && self.subscription.wake.as_ref().is_some_and(|wake| wake.id == fence.wake_id)
    }

    fn lease_end(&self) -> i64 {
        let ttl_ms = i64::try_from(self.subscription.config.lease_ttl_ms).unwrap_or(i64::MAX);
        self.context.now_ms.saturating_add(ttl_ms)
    }
}

fn snapshot(links: &BTreeMap<String, Link>) -> BTreeMap<String, Position> {
    links.iter().map(|(name, link)| (name.clone(), link.tail)).collect()
}
