//! Tabs of a shard that subscribe and unsubscribe while entities change and their sockets stall: each is
//! told of exactly what became of what it subscribed to, and of nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Interval;
use tokio_util::sync::CancellationToken;

use tidewire_store::memory::MemoryStore;
use tidewire_store::{EntityAction, EntityChange, Position, SharedStore, TailEvent};

use super::ledger::Ledger;
use super::{EntityCommand, EntityRequest, own_name};
use crate::directory::NamedConnection;
use crate::kinds::entities::kept::Entities;
use crate::min_offset::MinOffset;
use crate::shard::Shard;
use crate::shard_loop::Incoming;
use crate::tail::BatchSenders;
use crate::testing::{self, connection_info};
use crate::transport::ServerSent;
use crate::{Hub, Unstarted};
use crate::{Key, StartFrom, SubscribeRequest, Transport};
use tidewire_access::auth::Identity;
use tidewire_access::options::{Access, Options};

const TABS: usize = 4;
const IDS: u8 = 6;
/// Everything comes to rest within this, or never.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone)]
enum SimulationStep {
    Subscribe {
        tab: usize,
        id: u8,
    },
    Unsubscribe {
        tab: usize,
        id: Option<u8>,
    },
    /// Something becomes of an entity, or of all.
    Change {
        id: Option<u8>,
        action: EntityAction,
    },
    Turn,
    Read {
        tab: usize,
        pieces: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<SimulationStep>> {
    let action = prop_oneof![
        Just(EntityAction::Create),
        Just(EntityAction::Update),
        Just(EntityAction::Delete)
    ];
    let id = || prop_oneof![9 => (0..IDS).prop_map(Some), 1 => Just(None)];
    let step = prop_oneof![
        4 => (0..TABS, 0..IDS).prop_map(|(tab, id)| SimulationStep::Subscribe { tab, id }),
        2 => (0..TABS, id()).prop_map(|(tab, id)| SimulationStep::Unsubscribe { tab, id }),
        8 => (id(), action).prop_map(|(id, action)| SimulationStep::Change { id, action }),
        8 => Just(SimulationStep::Turn),
        8 => (0..TABS, 1usize..4).prop_map(|(tab, pieces)| SimulationStep::Read { tab, pieces }),
    ];
    proptest::collection::vec(step, 1..150)
}

/// The far end of a connection, and what it should be told.
struct Tab {
    key: Key,
    body: mpsc::Receiver<Bytes>,
    got: String,
    /// What it is certain to be told of: what was confirmed.
    confirmed: BTreeSet<u8>,
    /// Changes that it must be told of, or something later of the same entity: id to position.
    owed: BTreeMap<u8, u64>,
    /// Changes that it may be told of: those of what it has asked for by then.
    allowed: BTreeSet<(u8, u64)>,
    /// Changes that it must have been told of by a message with their position, or something later.
    covered: BTreeSet<(u8, u64)>,
}

struct World {
    hub: Arc<Hub>,
    shard: Shard,
    incoming: Incoming,
    sinks: BatchSenders,
    tick: Interval,
    tabs: Vec<Tab>,
    position: u64,
}

impl World {
    /// With more followers than `crowd` something is told in slices.
    async fn new(crowd: usize) -> World {
        let store: SharedStore = MemoryStore::fresh();
        let mut options = Options::new(Access::OpenOnLoopback);
        options.live.fan_out_threshold = crowd;
        let (hub, Unstarted { mut shards, sinks, .. }) = testing::hub(options, store).await;
        let dormant = shards.pop().expect("a shard");
        let mut shard = Shard::new(Arc::clone(&hub), dormant.handle, dormant.position, 0);
        let mut tabs = Vec::new();
        for number in 0..TABS {
            let (sender, body) = mpsc::channel(1);
            let transport = Transport::ServerSent(ServerSent { body: sender });
            let key = shard.attach(transport, connection_info(&number.to_string()), false);
            let (confirmed, owed, allowed, covered) = Default::default();
            tabs.push(Tab { key, body, got: String::new(), confirmed, owed, allowed, covered });
        }
        World {
            position: dormant.position.number(),
            incoming: dormant.incoming,
            shard,
            hub,
            sinks,
            tick: tokio::time::interval(Duration::from_secs(1)),
            tabs,
        }
    }

    async fn take(&mut self, step: &SimulationStep) {
        match *step {
            SimulationStep::Subscribe { tab, id } => self.subscribe(tab, id).await,
            SimulationStep::Unsubscribe { tab, id } => self.unsubscribe(tab, id),
            SimulationStep::Change { id, action } => self.change(id, action),
            SimulationStep::Turn => self.turn().await,
            SimulationStep::Read { tab, pieces } => self.read(tab, pieces),
        }
    }

    /// A tab subscribes, and waits until that is confirmed by the store.
    async fn subscribe(&mut self, tab: usize, id: u8) {
        let request = EntityRequest {
            query_id: own_name("thing"),
            code: "thing".into(),
            ids: vec![id.to_string().into()],
            start: StartFrom::Now,
            min_offset: MinOffset::default(),
            identity: Identity::of_this_machine(),
            adds: true,
            kept: false,
        };
        let key = self.tabs[tab].key;
        self.shard.subscribe(key, vec![SubscribeRequest::Entities(request)]);
        let is_joining = |shard: &mut Shard| {
            let connection = shard.connection(key).expect("it is there");
            let slot = connection.find("entity/thing").expect("it was asked for");
            connection.interest(slot).is_some_and(|interest| !interest.joining.is_empty())
        };
        while is_joining(&mut self.shard) {
            self.turn().await;
        }
        self.tabs[tab].confirmed.insert(id);
    }

    fn unsubscribe(&mut self, tab: usize, id: Option<u8>) {
        let ids = id.map(|id| vec![id.to_string()]);
        let tab = &mut self.tabs[tab];
        self.shard.obey_entities(tab.key, EntityCommand::Unsubscribe { code: "thing".into(), ids });
        // Whoever unsubscribes does not want to know.
        tab.confirmed.retain(|of| id.is_some_and(|id| id != *of));
        tab.owed.retain(|of, _| id.is_some_and(|id| id != *of));
        tab.covered.retain(|(of, _)| id.is_some_and(|id| id != *of));
    }

    fn change(&mut self, id: Option<u8>, action: EntityAction) {
        if self.sinks[0].capacity() <= 2 {
            return;
        }
        self.position += 1;
        for tab in &mut self.tabs {
            let meant = tab.confirmed.iter().filter(|of| id.is_none_or(|id| id == **of));
            for id in meant {
                tab.owed.insert(*id, self.position);
                tab.allowed.insert((*id, self.position));
                tab.covered.insert((*id, self.position));
            }
        }
        let event = TailEvent {
            position: Position::new(self.position),
            stream: "table/things".to_owned(),
            control: None,
            payload: None,
            row: None,
            entity: Some(EntityChange {
                code: "thing".to_owned(),
                id: id.map(|id| id.to_string()),
                was: None,
                action,
                host_id: None,
            }),
            txid: None,
            tx_last: true,
            created_at_ms: 0,
        };
        let batch = self.hub.tail.hand_out(&[event]).expect("a batch");
        self.sinks[0].try_send(Arc::new(batch)).expect("room");
    }

    async fn turn(&mut self) {
        // What the store was asked for comes in between.
        tokio::task::yield_now().await;
        self.shard.turn(&mut self.incoming, &mut self.tick);
    }

    fn read(&mut self, tab: usize, pieces: usize) {
        let tab = &mut self.tabs[tab];
        for _ in 0..pieces {
            let Ok(piece) = tab.body.try_recv() else { return };
            tab.got.push_str(std::str::from_utf8(&piece).expect("text"));
        }
    }

    async fn come_to_rest(&mut self) {
        loop {
            self.turn().await;
            (0..TABS).for_each(|tab| self.read(tab, usize::MAX));
            let quiet = self.incoming.batches.is_empty()
                && self.shard.backlog.is_empty()
                && self.shard.connections.iter().all(|(_, c)| c.outbox.is_empty() && !c.dirty);
            if quiet {
                return;
            }
        }
    }
}

impl Tab {
    /// Checks that it was told of what it should be, of nothing else, and of each entity in order.
    fn was_told_exactly(&self) {
        let mut told: BTreeMap<u8, u64> = BTreeMap::new();
        let mut covered = 0;
        for line in self.got.lines().filter_map(|line| line.strip_prefix("data: ")) {
            let message: Value = serde_json::from_str(line).expect("JSON");
            if message["type"] != "INVALIDATE" {
                continue;
            }
            let offset: u64 =
                message["offset"].as_str().expect("an offset")[5..].parse().expect("a number");
            assert!(offset > covered, "{message} says no more than the one before it");
            covered = offset;
            for change in message["payload"]["changes"].as_array().expect("changes") {
                let id: u8 = change["entityId"].as_str().expect("an id").parse().expect("ours");
                let range = self.allowed.range((id, 0)..=(id, offset));
                let latest = range.last().map(|(_, position)| *position);
                let latest = latest.unwrap_or_else(|| panic!("{change} is none of its business"));
                let before = told.insert(id, latest);
                assert!(before.is_none_or(|before| before < latest), "{change} is told twice");
            }
            for (id, position) in self.covered.iter().filter(|(_, position)| *position <= offset) {
                let got = told.get(id);
                assert!(got.is_some_and(|got| got >= position), "{message} covers {id}: {got:?}");
            }
        }
        for (id, position) in &self.owed {
            let got = told.get(id);
            assert!(got.is_some_and(|got| got >= position), "{id} at {position}: told {got:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Invariant 3, for subscriptions to entities: each tab is told of exactly its ids.
    #[test]
    fn every_tab_is_told_of_exactly_its_entities(steps in steps(), crowd in 0usize..4) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let mut world = World::new(crowd).await;
            let stop = CancellationToken::new();
            let batch = tokio::spawn(Entities::run(Arc::clone(&world.hub), stop.clone()));
            let story = async {
                for step in &steps {
                    world.take(step).await;
                }
                world.come_to_rest().await;
            };
            tokio::time::timeout(PATIENCE, story).await.expect("it comes to rest");
            for tab in &world.tabs {
                tab.was_told_exactly();
            }
            for tab in 0..TABS {
                let key = world.tabs[tab].key;
                world.shard.depart(key);
            }
            assert_eq!(world.shard.rosters.entities.index.size(), 0, "nobody is left behind");
            assert!(world.shard.rosters.entities.attendances.is_empty(), "no code is attended");
            stop.cancel();
            batch.await.expect("the batch ends");
        });
    }
}

fn ledger(world: &mut World, key: Key) -> Option<&mut Ledger> {
    world.shard.rosters.entities.ledgers.of(key)
}

/// However often SQL says that a connection's subscriptions changed, its shard is asked once until it
/// begins, and the store is looked at once at a time.
#[tokio::test]
async fn a_crowd_of_changes_is_reviewed_once() {
    let mut world = World::new(TABS).await;
    let (key, id) = (world.tabs[0].key, Arc::from("0"));
    let present = NamedConnection {
        shard: world.shard.handle.clone(),
        key,
        identity: Identity::of_this_machine(),
    };
    let _registered = Entities::enter(&world.hub, &id, present);
    let edits = |world: &mut World| ledger(world, key).map_or(0, |ledger| ledger.edits);
    for round in 1..=3 {
        for _ in 0..100 {
            world.hub.entities_changed(&id);
        }
        while edits(&mut world) < round {
            world.turn().await;
        }
        world.turn().await;
        assert_eq!(edits(&mut world), round, "one review for all of them");
        assert_eq!(world.hub.tasks.len(), 1, "one look, and nobody else at work");
    }
    // What was found is out of date by then, so it is looked at again; then there is no more to do.
    let stop = CancellationToken::new();
    let batch = tokio::spawn(Entities::run(Arc::clone(&world.hub), stop.clone()));
    let rest = async {
        while ledger(&mut world, key).is_some_and(|ledger| ledger.reviewing) {
            world.turn().await;
        }
    };
    tokio::time::timeout(PATIENCE, rest).await.expect("it comes to rest");
    assert_eq!(edits(&mut world), 4);
    stop.cancel();
    batch.await.expect("the batch ends");
}
