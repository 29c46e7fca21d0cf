//! The connections of this node by name, so that what is said of one to all nodes finds it; and by
//! user, where a user may have one at a time.
//!
//! Of two connections of a user that come at once, on two nodes, one must stay. Each node says of
//! its own that it has come, in the control channel, and the message with the higher number wins: all
//! nodes hear all messages, each its own among them, and so agree.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Hub;
use crate::{Handle, Key};
use tidewire_access::auth::{Identity, Who};

/// A connection that is there.
#[derive(Debug, Clone)]
pub struct NamedConnection {
    pub shard: Handle,
    pub key: Key,
    pub identity: Identity,
}

#[derive(Debug, Default)]
pub struct Connected(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    by_id: HashMap<Arc<str>, NamedConnection>,
    /// Users of whom each connection here is to be the only one.
    by_user: HashMap<Who, User>,
    /// Connections whose shard is asked to review them, and has not begun to.
    to_review: HashSet<Arc<str>>,
}

/// A user's connections on this node.
#[derive(Debug, Default)]
struct User {
    /// Each with the number of the message that said that it came, once that is heard.
    connections: Vec<(Arc<str>, Option<i64>)>,
    /// The highest number of a message about this user, whichever node's.
    latest: i64,
}

/// A connection's entry, removed when dropped.
#[derive(Debug)]
pub struct Registered {
    hub: Arc<Hub>,
    id: Arc<str>,
}

impl Connected {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn enter(hub: &Arc<Hub>, id: &Arc<str>, present: NamedConnection) -> Registered {
        hub.entities.connected.inner().by_id.insert(Arc::clone(id), present);
        Registered { hub: Arc::clone(hub), id: Arc::clone(id) }
    }

    pub fn find(&self, id: &str) -> Option<NamedConnection> {
        self.inner().by_id.get(id).cloned()
    }

    /// Returns a connection that is to be reviewed, unless its shard is asked to do so already.
    pub(crate) fn ask_review(&self, id: &str) -> Option<NamedConnection> {
        let mut inner = self.inner();
        let (id, present) = inner.by_id.get_key_value(id)?;
        let (id, present) = (Arc::clone(id), present.clone());
        inner.to_review.insert(id).then_some(present)
    }

    pub(crate) fn begin_review(&self, id: &str) {
        self.inner().to_review.remove(id);
    }

    /// Notes that a connection is to be its user's only one.
    pub fn claim(&self, id: &Arc<str>, who: &Who) {
        let mut inner = self.inner();
        if inner.by_id.contains_key(id) {
            let user = inner.by_user.entry(who.clone()).or_default();
            user.connections.push((Arc::clone(id), None));
        }
    }

    /// Hears that a user's connection has come, somewhere. Returns those here that have to go.
    pub fn hear(&self, number: i64, id: &str, who: &Who) -> Vec<NamedConnection> {
        let mut inner = self.inner();
        let Some(user) = inner.by_user.get_mut(who) else { return Vec::new() };
        let leaving: Vec<Arc<str>> = user.hear(number, id);
        leaving.iter().filter_map(|id| inner.by_id.get(id).cloned()).collect()
    }
}

impl User {
    fn hear(&mut self, number: i64, id: &str) -> Vec<Arc<str>> {
        if let Some((_, said)) = self.connections.iter_mut().find(|(known, _)| **known == *id) {
            *said = Some(number);
        }
        self.latest = self.latest.max(number);
        let latest = self.latest;
        let is_older = |said: &Option<i64>| said.is_some_and(|said| said < latest);
        let older = self.connections.iter().filter(|(_, said)| is_older(said));
        older.map(|(id, _)| Arc::clone(id)).collect()
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut inner = self.hub.entities.connected.inner();
        inner.to_review.remove(&self.id);
        let Some(present) = inner.by_id.remove(&self.id) else { return };
        let who = present.identity.who();
        if let Some(user) = inner.by_user.get_mut(who) {
            user.connections.retain(|(id, _)| *id != self.id);
            if user.connections.is_empty() {
                inner.by_user.remove(who);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(ids: &[Arc<str>]) -> Vec<&str> {
        ids.iter().map(|id| &**id).collect()
    }

    #[test]
    fn one_that_has_not_heard_of_itself_waits_for_that() {
        let mut user = User { connections: vec![("a".into(), None)], latest: 0 };
        assert!(user.hear(7, "elsewhere").is_empty(), "it may be the newer one");
        assert_eq!(names(&user.hear(6, "a")), ["a"], "it is not");
    }

    proptest! {
        /// However the messages reach the nodes, all agree on who stays.
        #[test]
        fn the_last_to_say_so_stays(
            places in proptest::collection::vec(0usize..3, 1..8),
            orders in proptest::collection::vec(any::<prop::sample::Index>(), 3 * 8),
        ) {
            let last = places.len() - 1;
            let mut staying = Vec::new();
            for node in 0..3 {
                let own = places.iter().enumerate().filter(|(_, place)| **place == node);
                let connections = own.map(|(id, _)| (id.to_string().into(), None)).collect();
                let mut user = User { connections, latest: 0 };
                let mut messages: Vec<usize> = (0..places.len()).collect();
                for order in &orders[node * 8..(node + 1) * 8] {
                    if messages.is_empty() {
                        break;
                    }
                    let id = messages.remove(order.index(messages.len()));
                    let number = i64::try_from(id).expect("few");
                    for leaving in user.hear(number, &id.to_string()) {
                        user.connections.retain(|(id, _)| *id != leaving);
                    }
                }
                staying.extend(user.connections.into_iter().map(|(id, _)| id));
            }
            prop_assert_eq!(names(&staying), [last.to_string()]);
        }
    }
}
