//! The work behind subscriptions: sees streams grow, wakes, delivers webhooks, takes back leases.
//!
//! Every node does all of it. That is safe because each step is one transaction in the store that
//! does nothing when another node was first: a stream that grew wakes an idle subscription once,
//! and whoever delivers a webhook takes the turn before it does.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use tidewire_store::subscription::{Interest, Op, Reply, Subscription, glob};
use tidewire_store::{Control, Position, StoreError, TailEvent};

use super::webhook::{Sender, attempt_ms};
use crate::node::Node;

/// How often deliveries and leases that are due are looked for.
const ROUND: Duration = Duration::from_millis(250);
/// Names looked at together when a pattern is matched against all streams there are.
const NAMES_AT_ONCE: usize = 10_000;
/// Due subscriptions looked at a round.
const DUE_MAX: usize = 200;

/// One node's share of the work.
pub(crate) struct Dispatcher {
    node: Arc<Node>,
    sender: Sender,
    interests: Vec<Interest>,
    deliveries: TaskTracker,
    places: Arc<Semaphore>,
}

impl Dispatcher {
    /// Works until cancelled.
    pub(crate) async fn run(node: Arc<Node>, stop: CancellationToken) {
        let sender = match Sender::new(&node) {
            Ok(sender) => sender,
            Err(error) => {
                tracing::error!(%error, "webhooks cannot be sent");
                return;
            }
        };
        let places = Arc::new(Semaphore::new(node.options.webhooks.concurrent_max.max(1)));
        let deliveries = TaskTracker::new();
        let mut dispatcher = Dispatcher { node, sender, interests: Vec::new(), deliveries, places };
        tokio::select! {
            () = stop.cancelled() => {}
            () = dispatcher.work() => {}
        }
        dispatcher.deliveries.close();
        dispatcher.deliveries.wait().await;
    }

    async fn work(&mut self) {
        let mut headers = self.node.hub.tail.headers();
        let mut round = tokio::time::interval(ROUND);
        round.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // Until the interests are known, and after events were missed, every subscription is looked
        // at once.
        let mut look_at_all = true;
        loop {
            if look_at_all {
                match self.look_at_all().await {
                    Ok(()) => look_at_all = false,
                    Err(error) => tracing::warn!(%error, "cannot read subscriptions; trying again"),
                }
            }
            tokio::select! {
                batch = headers.recv() => match batch {
                    Ok(events) => look_at_all |= self.grown(&events).await.is_err(),
                    Err(RecvError::Lagged(_)) => look_at_all = true,
                    Err(RecvError::Closed) => return,
                },
                _ = round.tick() => {
                    if let Err(error) = self.due().await {
                        tracing::warn!(%error, "cannot look for due subscriptions");
                    }
                }
            }
        }
    }

    /// Reads the interests anew and wakes what has pending work.
    async fn look_at_all(&mut self) -> Result<(), StoreError> {
        self.interests = self.node.store.interests().await?;
        for interest in self.interests.clone() {
            if let Some(pattern) = &interest.pattern {
                self.link_matching(&interest.id, pattern).await?;
            }
            self.due_one(&interest.id).await?;
        }
        Ok(())
    }

    /// Links streams that match and whose first events nobody saw, because no node was up then.
    async fn link_matching(&self, id: &str, pattern: &str) -> Result<(), StoreError> {
        let Some(subscription) = self.node.store.subscription(id).await? else { return Ok(()) };
        let prefix = glob::literal_prefix(pattern);
        let mut after = String::new();
        loop {
            let names = self.node.store.names(prefix, &after, NAMES_AT_ONCE).await?;
            let Some(last) = names.last() else { return Ok(()) };
            after.clone_from(last);
            for stream in names {
                if glob::matches(pattern, &stream) && !subscription.links.contains_key(&stream) {
                    self.node.store.change_subscription(id, Op::Grown { stream }).await?;
                }
            }
        }
    }

    /// Wakes the subscriptions that these events concern.
    async fn grown(&mut self, events: &[TailEvent]) -> Result<(), StoreError> {
        if events.iter().any(|event| event.control == Some(Control::Subscription)) {
            self.interests = self.node.store.interests().await?;
        }
        if self.interests.is_empty() {
            return Ok(());
        }
        let mut newest: HashMap<&str, Position> = HashMap::new();
        for event in events.iter().filter(|event| event.control.is_none()) {
            newest.insert(&event.stream, event.position);
        }
        let mut affected = HashSet::new();
        for (stream, position) in newest {
            for interest in self.interests.iter().filter(|interest| interest.covers(stream)) {
                affected.insert((interest.id.clone(), stream.to_owned(), position));
            }
        }
        for (id, stream, position) in affected {
            self.grown_one(&id, stream, position).await?;
        }
        Ok(())
    }

    async fn grown_one(
        &self,
        id: &str,
        stream: String,
        position: Position,
    ) -> Result<(), StoreError> {
        // A look without a lock first: while a wake is under way there is nothing to do, because
        // whoever ends it sees this event too.
        let Some(subscription) = self.node.store.subscription(id).await? else { return Ok(()) };
        let settled = subscription
            .links
            .get(&stream)
            .is_some_and(|link| subscription.wake.is_some() || link.acked >= position);
        if !settled {
            let reply = self.node.store.change_subscription(id, Op::Grown { stream }).await?;
            if reply == (Reply::Done { next_wake: true }) {
                self.due_one(id).await?;
            }
        }
        Ok(())
    }

    async fn due(&self) -> Result<(), StoreError> {
        for id in self.node.store.due_subscriptions(DUE_MAX).await? {
            self.due_one(&id).await?;
        }
        Ok(())
    }

    /// Takes the turn to deliver, if there is something to deliver.
    async fn due_one(&self, id: &str) -> Result<(), StoreError> {
        let attempt_ms = attempt_ms(self.node.options.webhooks.timeout);
        let reply = self.node.store.change_subscription(id, Op::Due { attempt_ms }).await?;
        if let Reply::Deliver(subscription) = reply {
            let delivery = deliver(
                Arc::clone(&self.node),
                self.sender.clone(),
                Arc::clone(&self.places),
                *subscription,
            );
            self.deliveries.spawn(delivery);
        }
        Ok(())
    }
}

/// Delivers one wake and records how it went. If that cannot be recorded, the turn passes on when
/// its time is up.
async fn deliver(
    node: Arc<Node>,
    sender: Sender,
    places: Arc<Semaphore>,
    subscription: Subscription,
) {
    let Ok(_place) = places.acquire().await else { return };
    let outcome = sender.send(&node, &subscription).await;
    let op = Op::Delivered { generation: subscription.generation, outcome };
    if let Err(error) = node.store.change_subscription(&subscription.id, op).await {
        tracing::warn!(%error, subscription = subscription.id, "delivery not recorded");
    }
}
