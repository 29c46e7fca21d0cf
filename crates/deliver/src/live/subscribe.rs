//! Subscriptions that a client asks for: of every kind alike from its message to the hub.
//!
//! Each is answered for itself: one that is refused does not concern the others.

#[cfg(all(test, debug_assertions))]
mod clock;

use std::sync::Arc;

use futures_util::stream::{self, StreamExt as _};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::entities::{self, EntitySubscribe};
use super::message::Refused;
use super::queries::{self, QuerySubscribe};
use super::streams::{self, StreamSubscribe};
use crate::node::Node;
use tidewire_access::auth::{Act, Identity, audit};
use tidewire_access::problem::Problem;
use tidewire_hub::messages::AsMessage as _;
use tidewire_hub::{Command, Handle, Key, SubscribeRequest};

/// Queries of one message that the database is asked about together.
const TOGETHER: usize = 16;

/// A subscription that a client wants, as it said: an arm for each kind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WantedSubscription {
    Stream(StreamSubscribe),
    Entities(EntitySubscribe),
    Query(QuerySubscribe),
    #[cfg(all(test, debug_assertions))]
    Clock(clock::ClockWish),
}

/// By what a subscription says of which kind it is, if it says so: one to a stream or a table says neither.
#[derive(Default, Deserialize)]
struct Meant<'a> {
    #[serde(borrow)]
    sql: Option<&'a RawValue>,
    #[serde(borrow)]
    entity_code: Option<&'a RawValue>,
}

impl WantedSubscription {
    /// Reads one of a `subscribe`.
    pub(super) fn read(node: &Node, raw: &RawValue) -> Result<WantedSubscription, Refused> {
        // What cannot be read is refused as one of a stream.
        let Meant { sql, entity_code } = serde_json::from_str(raw.get()).unwrap_or_default();
        match (sql, entity_code) {
            (Some(_), _) => queries::wanted(node, raw).map(WantedSubscription::Query),
            (None, Some(_)) => entities::wanted(node, raw).map(WantedSubscription::Entities),
            (None, None) => streams::wanted(node, raw).map(WantedSubscription::Stream),
        }
    }

    fn query_id(&self) -> &Arc<str> {
        match self {
            WantedSubscription::Stream(wanted) => &wanted.query_id,
            WantedSubscription::Entities(wanted) => &wanted.query_id,
            WantedSubscription::Query(wanted) => &wanted.query_id,
            #[cfg(all(test, debug_assertions))]
            WantedSubscription::Clock(wanted) => &wanted.query_id,
        }
    }

    /// The stream that it reads, by whose name it is permitted or refused. A kind that reads none asks
    /// for itself.
    fn reads(&self) -> Option<&str> {
        match self {
            WantedSubscription::Stream(wanted) => Some(&wanted.stream),
            WantedSubscription::Entities(_) | WantedSubscription::Query(_) => None,
            #[cfg(all(test, debug_assertions))]
            WantedSubscription::Clock(_) => Some("clock"),
        }
    }

    /// Whether the database has to be asked about it, which may take a while.
    fn asks_database(&self) -> bool {
        matches!(self, WantedSubscription::Query(_))
    }

    /// What the hub is asked for, if whoever asks may have it.
    async fn request(self, context: &SubscribeContext<'_>) -> Result<SubscribeRequest, Problem> {
        Ok(match self {
            WantedSubscription::Stream(wanted) => {
                SubscribeRequest::Stream(wanted.request(context).await?)
            }
            WantedSubscription::Entities(wanted) => {
                SubscribeRequest::Entities(wanted.request(context).await?)
            }
            WantedSubscription::Query(wanted) => {
                SubscribeRequest::Query(Box::new(wanted.request(context).await?))
            }
            #[cfg(all(test, debug_assertions))]
            WantedSubscription::Clock(wanted) => SubscribeRequest::Clock(wanted.request()),
        })
    }
}

/// Who asks, and where.
#[derive(Debug)]
pub(super) struct SubscribeContext<'a> {
    pub(super) node: &'a Node,
    pub(super) shard: &'a Handle,
    pub(super) key: Key,
    pub(super) identity: &'a Identity,
    pub(super) session: Option<&'a Arc<str>>,
}

impl SubscribeContext<'_> {
    /// Asks for what a client wants. What needs the database comes last, so that nothing else waits for it.
    pub(super) async fn subscribe(&self, wishes: Vec<Result<WantedSubscription, Refused>>) {
        let slow = |wanted: &Result<WantedSubscription, Refused>| {
            wanted.as_ref().is_ok_and(WantedSubscription::asks_database)
        };
        let (slow, others): (Vec<_>, Vec<_>) = wishes.into_iter().partition(slow);
        let mut requests = Vec::with_capacity(others.len());
        for wanted in others {
            requests.extend(self.permitted(wanted).await);
        }
        self.ask(requests).await;
        let mut slow = stream::iter(slow.into_iter().map(|wanted| self.permitted(wanted)));
        let mut slow = slow.by_ref().buffered(TOGETHER);
        while let Some(request) = slow.next().await {
            self.ask(request.into_iter().collect()).await;
        }
    }

    async fn ask(&self, requests: Vec<SubscribeRequest>) {
        if !requests.is_empty() {
            self.shard.ask(Command::Subscribe { key: self.key, requests }).await;
        }
    }

    /// What the hub is asked for. None if it is refused, and the client was told so.
    async fn permitted(
        &self,
        wanted: Result<WantedSubscription, Refused>,
    ) -> Option<SubscribeRequest> {
        let (query_id, request) = match wanted {
            Ok(wanted) => (Some(Arc::clone(wanted.query_id())), self.request(wanted).await),
            Err(Refused { query_id, problem }) => (query_id.map(Arc::from), Err(problem)),
        };
        match request {
            Ok(request) => Some(request),
            Err(problem) => {
                let message = problem.message(query_id.as_deref());
                self.shard.ask(Command::Say { key: self.key, message }).await;
                None
            }
        }
    }

    async fn request(&self, wanted: WantedSubscription) -> Result<SubscribeRequest, Problem> {
        if let Some(stream) = wanted.reads() {
            let act = Act::Read(stream);
            let turned_away = |problem: &Problem| {
                audit::turned_away(&self.node.access, Some(self.identity), act, problem)
            };
            self.identity.may(act).inspect_err(turned_away)?;
        }
        wanted.request(self).await
    }
}
