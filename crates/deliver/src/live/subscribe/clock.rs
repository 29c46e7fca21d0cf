//! What clients say of the clock that exists for tests, and that it needs nothing of its own to be permitted.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{SubscribeContext, WantedSubscription};
use crate::node::Node;
use tidewire_access::auth::scopes::Scopes;
use tidewire_access::auth::{Identity, Who};
use tidewire_access::options::{Access, Options};
use tidewire_hub::kinds::clock::ClockRequest;
use tidewire_hub::testing;
use tidewire_hub::{ServerSent, Transport};

/// The clock, under a name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ClockWish {
    pub(super) query_id: Arc<str>,
}

impl ClockWish {
    pub(super) fn request(self) -> ClockRequest {
        ClockRequest { query_id: self.query_id }
    }
}

#[tokio::test]
async fn a_kind_is_permitted_by_the_name_of_what_it_reads() {
    let store = tidewire_store::memory::MemoryStore::fresh();
    let options = Options::new(Access::OpenOnLoopback);
    let assembled = Node::assemble(options, store, String::new(), 1).await;
    let (node, unstarted) = assembled.expect("a node");
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    node.hub.start(unstarted.shards, &tasks, &stop);
    let shard = node.hub.shards.shard_of("", "c").clone();
    let (body, mut far_end) = mpsc::channel(8);
    let transport = Transport::ServerSent(ServerSent { body });
    let presence = shard.attach(transport, testing::connection_info("c")).await.expect("a place");
    let key = presence.key();
    for scopes in [r#"{"streams": ["clock"], "can": ["read"]}"#, r#"{"streams": ["other"]}"#] {
        let scopes = Scopes::parse(scopes, &(), &node.access.names).expect("scopes");
        let identity = Identity::new(Who::Key(1), scopes, None);
        let context = SubscribeContext {
            node: &node,
            shard: &shard,
            key,
            identity: &identity,
            session: None,
        };
        context
            .subscribe(vec![Ok(WantedSubscription::Clock(ClockWish { query_id: "q".into() }))])
            .await;
    }
    let mut said = String::new();
    while said.matches("data: ").count() < 2 {
        let piece = far_end.recv().await.expect("an answer");
        said.push_str(std::str::from_utf8(&piece).expect("text"));
    }
    let messages = said.lines().filter_map(|line| line.strip_prefix("data: "));
    let messages: Vec<Value> =
        messages.map(|message| serde_json::from_str(message).expect("JSON")).collect();
    assert_eq!(messages[0]["type"], "subscription_created");
    let refused = &messages[1];
    assert_eq!((&refused["query_id"], &refused["code"]), (&"q".into(), &"forbidden".into()));
    assert_eq!(node.hub.shards.totals().subscriptions, 1, "the one that is allowed");
    stop.cancel();
}
