//! The one word that subscriptions have begun (`subscription_created`), whatever they are of. From here on
//! everything that they promise is certain to reach the client.

use bytes::BytesMut;

use tidewire_store::Position;

use super::connection::{Key, Subscription};
use super::frames::put;
use super::outbox::{OutboxItem, Slot};
use super::shard::Shard;
use crate::messages::{Created, CreatedOf, SubscriptionCreated};

/// A subscription that has begun, or has more than it had.
#[derive(Debug)]
pub(crate) struct Announcement<'a> {
    pub slot: Slot,
    /// Everything after it will come, if that is known.
    pub after: Option<Position>,
    /// What the client has of it counts no longer.
    pub reset: bool,
    pub of: CreatedOf<'a>,
}

impl Subscription {
    /// Whether it is about to begin in the place of an earlier one of its name.
    pub(super) fn is_begun_anew(&self) -> bool {
        self.renewed && !self.announced
    }
}

impl Shard {
    /// Tells a client of subscriptions of its that have begun, in one message.
    pub(crate) fn announce(&mut self, key: Key, begun: Vec<Announcement<'_>>) {
        let connection = self.connections.get_mut(key.index).filter(|c| c.serial == key.serial);
        let Some(connection) = connection else { return };
        for announcement in &begun {
            if let Some(subscription) = connection.subscription(announcement.slot) {
                subscription.announced = true;
            }
        }
        // A result's rows come as fast as the socket takes them; other answers are owed.
        let has_rows = begun.iter().any(|announcement| announcement.of.has_rows());
        let item = if has_rows { OutboxItem::Replayed } else { OutboxItem::Message };
        let created = |Announcement { slot, after, reset, of }| {
            let Slot { index, serial } = slot;
            let subscription = connection.subscriptions.get(index as usize)?.as_ref()?;
            (subscription.serial == serial).then(|| Created {
                query_id: &subscription.query_id,
                live_id: connection.live_id(&subscription.query_id),
                offset: after.map(|after| self.hub.offset(after)),
                reset,
                of,
            })
        };
        let subscriptions: Vec<Created<'_>> = begun.into_iter().filter_map(created).collect();
        if subscriptions.is_empty() {
            return;
        }
        let message = SubscriptionCreated { subscriptions }.written();
        let mut bytes = BytesMut::with_capacity(message.len() + 64);
        put(&mut bytes, connection.dialect(), message.as_bytes(), None, &mut self.deflater);
        connection.queue(bytes.freeze(), item, self.now_ms);
        self.touch(key.index);
    }
}
