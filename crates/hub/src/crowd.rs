//! A shard with a crowd of followers, of which a test is the other end; and that a crowd of any kind delays
//! nobody.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::Interval;

use tidewire_query::{Delta, PlanName, QueryId, Recipients, Subscriber};
use tidewire_store::memory::MemoryStore;
use tidewire_store::{
    Actor, Append, Command as LogCommand, Create, EntityAction, EntityChange, Position,
    SharedStore, TailEvent,
};

use crate::audience::{Follower, ViewMode};
use crate::connection::{Key, StartFrom};
use crate::kinds::entities::EntityRequest;
use crate::kinds::query::engine::{Change, News, QueryUpdates};
use crate::kinds::{Kind, SubscribeRequest, clock, query};
use crate::log_feed::StreamRequest;
use crate::lookup::Reach;
use crate::min_offset::MinOffset;
use crate::shard::Shard;
use crate::shard_loop::Incoming;
use crate::tail::BatchSenders;
use crate::testing;
use crate::transport::{ServerSent, Transport};
use crate::{Hub, Unstarted};
use tidewire_access::auth::Identity;
use tidewire_access::options::{Access, Options};
use tidewire_fixtures::orders;

/// Beyond these an audience is large.
const THRESHOLD: usize = 50;
const FOLLOWERS: usize = 300;
/// No more of a crowd are served in a turn.
const SLICE: usize = 16;

/// A shard, and clients of it.
pub(crate) struct Crowd {
    pub hub: Arc<Hub>,
    pub shard: Shard,
    incoming: Incoming,
    sinks: BatchSenders,
    tick: Interval,
}

/// The far end of a connection.
pub(crate) struct Client {
    pub key: Key,
    body: mpsc::Receiver<Bytes>,
    pub got: String,
}

impl Client {
    /// Takes what was sent. One piece fits on the way.
    pub(crate) fn read(&mut self) {
        while let Ok(piece) = self.body.try_recv() {
            self.got.push_str(std::str::from_utf8(&piece).expect("text"));
        }
    }
}

impl Crowd {
    pub(crate) async fn new(edit: impl FnOnce(&mut Options)) -> Crowd {
        Crowd::over(MemoryStore::fresh(), edit).await
    }

    async fn over(store: SharedStore, edit: impl FnOnce(&mut Options)) -> Crowd {
        let mut options = Options::new(Access::OpenOnLoopback);
        options.live.fan_out_threshold = THRESHOLD;
        edit(&mut options);
        let (hub, Unstarted { mut shards, sinks, .. }) = testing::hub(options, store).await;
        let dormant = shards.pop().expect("a shard");
        let shard = Shard::new(Arc::clone(&hub), dormant.handle, dormant.position, 0);
        let tick = tokio::time::interval(Duration::from_secs(1));
        Crowd { hub, shard, incoming: dormant.incoming, sinks, tick }
    }

    pub(crate) fn client(&mut self) -> Client {
        let (sender, body) = mpsc::channel(1);
        let transport = Transport::ServerSent(ServerSent { body: sender });
        let key = self.shard.attach(transport, testing::connection_info("c"), false);
        Client { key, body, got: String::new() }
    }

    pub(crate) async fn turn(&mut self) {
        // What the store was asked for comes in between.
        tokio::task::yield_now().await;
        self.shard.turn(&mut self.incoming, &mut self.tick);
    }

    async fn create(&self, stream: &str) {
        let create = Create {
            stream: stream.to_owned(),
            content_type: Some("application/json".to_owned()),
            lifetime: None,
            messages: Vec::new(),
            closed: false,
            fork: None,
            actor: Actor::default(),
        };
        let create = LogCommand::Create(Box::new(create));
        self.hub.store.submit(create).await.expect("a stream");
    }

    async fn append(&self, stream: &str) {
        let append = Append {
            stream: stream.to_owned(),
            content_type: Some("application/json".to_owned()),
            messages: vec![Bytes::from_static(b"{\"said\":1}")],
            close: false,
            seq: None,
            producer: None,
            actor: Actor::default(),
            trace_context: None,
        };
        self.hub.store.submit(LogCommand::Append(append)).await.expect("an append");
    }

    async fn follow_log(&self) {
        self.hub.tail.catch_up(&self.hub.store, &self.sinks).await.expect("a log");
    }

    /// Clients that follow something, and have been told that they do.
    async fn followers(&mut self, count: usize, of: Crowded) -> Vec<Client> {
        let mut clients = Vec::with_capacity(count);
        for number in 0..count {
            if let Crowded::Reader(stream) = of {
                clients.push(self.reader(stream).await);
                continue;
            }
            let client = self.client();
            self.begin(number, client.key, of);
            clients.push(client);
        }
        let first = match of {
            Crowded::Reader(_) => "event: control",
            Crowded::Query => "",
            _ => "subscription_created",
        };
        let is_behind = |shard: &Shard| shard.connections.iter().any(|(_, c)| c.is_hungry());
        while is_behind(&self.shard) || !clients.iter().all(|c| c.got.contains(first)) {
            self.turn().await;
            clients.iter_mut().for_each(Client::read);
        }
        clients.iter_mut().for_each(|client| client.got.clear());
        clients
    }

    async fn reader(&mut self, stream: &str) -> Client {
        let (sender, body) = mpsc::channel(1);
        let transport = Transport::ServerSent(ServerSent { body: sender });
        let arrival = testing::arrival(&self.hub, stream, true).await;
        let key = self.shard.admit_reader(transport, arrival);
        Client { key, body, got: String::new() }
    }

    fn begin(&mut self, number: usize, key: Key, of: Crowded) {
        let request = match of {
            Crowded::Stream(_) | Crowded::Table => SubscribeRequest::Stream(StreamRequest {
                query_id: "q".into(),
                stream: of.stream().into(),
                reach: Reach::everything(),
                start: StartFrom::Now,
                min_offset: MinOffset::default(),
                link: None,
                mode: ViewMode { to_table: matches!(of, Crowded::Table), view: None },
                patterns: None,
            }),
            Crowded::Entities => SubscribeRequest::Entities(EntityRequest {
                query_id: "q".into(),
                code: "thing".into(),
                ids: vec!["7".into()],
                start: StartFrom::Now,
                min_offset: MinOffset::default(),
                identity: Identity::of_this_machine(),
                adds: false,
                kept: true,
            }),
            Crowded::Clock => SubscribeRequest::Clock(clock::ClockRequest { query_id: "q".into() }),
            Crowded::Query => return self.begin_query(number as u64, key),
            Crowded::Reader(_) => return,
        };
        self.shard.subscribe(key, vec![request]);
    }

    /// As if its rows were told already.
    fn begin_query(&mut self, number: u64, key: Key) {
        let who = Subscriber(number);
        let kind = Kind::Query(Box::new(query::tests::begun(who, QueryId(1))));
        let slot = self.shard.add(key, ("q".into(), None), kind, false).expect("there");
        self.shard.rosters.queries.enter(who, Follower { key, slot });
        self.shard.rosters.queries.begin(QueryId(1), &"q".into(), Follower { key, slot });
    }

    /// Something happens that concerns all of a crowd.
    async fn happen(&mut self, of: Crowded) {
        match of {
            Crowded::Stream(stream) | Crowded::Reader(stream) => {
                self.append(stream).await;
                self.follow_log().await;
            }
            Crowded::Table => {
                orders::run(&self.hub.store, "INSERT INTO orders VALUES (7, 1)").await;
                self.follow_log().await;
            }
            Crowded::Entities => {
                let change = EntityChange {
                    code: "thing".to_owned(),
                    id: Some("7".to_owned()),
                    was: None,
                    action: EntityAction::Update,
                    host_id: None,
                };
                let event = TailEvent {
                    position: self.hub.tail.position().next(),
                    stream: "entity/thing".to_owned(),
                    control: None,
                    payload: None,
                    row: None,
                    entity: Some(change),
                    txid: None,
                    tx_last: true,
                    created_at_ms: 0,
                };
                let batch = self.hub.tail.hand_out(&[event]).expect("someone attends");
                self.sinks[0].try_send(Arc::new(batch)).expect("room");
            }
            Crowded::Query => {
                let news = vec![Arc::new(change(&self.hub, 9, true))];
                self.shard.hear(&QueryUpdates { position: Position::new(9), news });
            }
            Crowded::Clock => self.shard.strike(1),
        }
    }
}

impl Crowd {
    /// How many of those who follow entities have been found to be concerned by what happened after a place.
    fn noted(&self, before: Position) -> usize {
        let subscriptions = self.shard.connections.iter().flat_map(|(_, c)| c.slots());
        let interests = subscriptions.filter_map(|(_, subscription)| subscription.kind.entities());
        interests.filter(|interest| interest.ids.values().any(|up_to| *up_to > before)).count()
    }
}

/// A change of the query that crowds follow.
fn change(hub: &Hub, at: u64, has_place: bool) -> News {
    let delta = Delta { inserted: vec!["{\"said\":1}".into()], ..Delta::default() };
    let at = (Position::new(at), hub.offset(Position::new(at)));
    let change = Change::new(&delta, Some(at).filter(|_| has_place), None, (0, PlanName::Filter));
    News::Change { to: Recipients::All(QueryId(1)), change }
}

/// What a crowd follows.
#[derive(Debug, Clone, Copy)]
enum Crowded {
    Stream(&'static str),
    Table,
    /// A stream, by `live=sse`.
    Reader(&'static str),
    Entities,
    Query,
    Clock,
}

impl Crowded {
    /// The stream that it is in, if it is.
    fn stream(self) -> &'static str {
        match self {
            Crowded::Stream(stream) | Crowded::Reader(stream) => stream,
            _ => "table/orders",
        }
    }

    /// What a message of it has in it.
    fn mark(self) -> &'static str {
        match self {
            Crowded::Stream(_) => "\"type\":\"event\"",
            Crowded::Table => "\"type\":\"cdc_event\"",
            Crowded::Reader(_) => "event: data",
            Crowded::Entities => "\"type\":\"INVALIDATE\"",
            Crowded::Query => "\"type\":\"change\"",
            Crowded::Clock => "\"type\":\"tick\"",
        }
    }
}

/// Invariant 5: whatever a crowd follows, others get their turn between two slices of it.
#[tokio::test]
async fn a_crowd_of_any_kind_delays_a_small_stream_by_no_more_than_a_slice() {
    for of in [
        Crowded::Stream("large"),
        Crowded::Table,
        Crowded::Reader("large"),
        Crowded::Entities,
        Crowded::Query,
        Crowded::Clock,
    ] {
        let (table, _folder) = match of {
            Crowded::Table => Some(orders::watched_orders().await).unzip(),
            _ => (None, None),
        };
        let store = table.unwrap_or_else(|| MemoryStore::fresh());
        let mut crowd = Crowd::over(store, |_| {}).await;
        crowd.create("large").await;
        crowd.create("small").await;
        let mut followers = crowd.followers(FOLLOWERS, of).await;
        let mut small = crowd.followers(2, Crowded::Stream("small")).await;
        let before = crowd.hub.tail.position();
        crowd.happen(of).await;
        crowd.append("small").await;
        crowd.follow_log().await;
        crowd.turn().await;
        let told = |client: &mut Client, mark: &str| {
            client.read();
            client.got.matches(mark).count()
        };
        let of_small = Crowded::Stream("small").mark();
        assert!(small.iter_mut().all(|client| told(client, of_small) == 1), "{of:?}: at once");
        let served = followers.iter_mut().filter_map(|c| (told(c, of.mark()) > 0).then_some(()));
        let served = served.count();
        assert!((1..=SLICE).contains(&served), "{of:?}: {served} in the same turn");
        if let Crowded::Entities = of {
            assert_eq!(crowd.noted(before), served, "nor was anything noted for others");
        }
        for _ in 0..=FOLLOWERS / SLICE {
            crowd.turn().await;
        }
        let each_once = followers.iter_mut().all(|client| told(client, of.mark()) == 1);
        assert!(each_once, "{of:?}: everyone in the end, and once");
    }
}

/// What waits for a crowd is told together, but never past what is for some of them alone.
#[tokio::test]
async fn changes_of_a_query_are_told_in_order_around_what_is_for_one_follower() {
    let mut crowd = Crowd::new(|_| {}).await;
    let mut followers = crowd.followers(FOLLOWERS, Crowded::Query).await;
    let (first, last) = (Subscriber(0), FOLLOWERS - 1);
    let settled = |at: u64| News::Settled {
        to: Recipients::Only(QueryId(1), vec![first]),
        at: Position::new(at),
    };
    for at in 1..=6 {
        // The third has no place yet, which is told to one follower alone.
        let news = vec![Arc::new(change(&crowd.hub, at, at != 3))];
        crowd.shard.hear(&QueryUpdates { position: Position::new(at), news });
        if at == 3 {
            let news = vec![Arc::new(settled(3))];
            crowd.shard.hear(&QueryUpdates { position: Position::new(at), news });
        }
    }
    for _ in 0..20 * FOLLOWERS / SLICE {
        crowd.turn().await;
        followers.iter_mut().for_each(Client::read);
    }
    let told = |client: &Client| -> Vec<String> {
        let lines = client.got.lines().filter_map(|line| line.strip_prefix("data: "));
        let message = |line| serde_json::from_str::<serde_json::Value>(line).expect("JSON");
        lines.map(message).map(|m| format!("{} {}", m["type"], m["offset"])).collect()
    };
    let offset = |at: u64| crowd.hub.offset(Position::new(at)).to_string();
    let change = |at: u64| format!("\"change\" \"{}\"", offset(at));
    let mut expected: Vec<String> = (1..=6).map(change).collect();
    expected[2] = "\"change\" null".to_owned();
    assert_eq!(told(&followers[last]), expected);
    expected.insert(3, format!("\"progress\" \"{}\"", offset(3)));
    assert_eq!(told(&followers[0]), expected);
    assert!(crowd.shard.backlog.is_empty());
}
