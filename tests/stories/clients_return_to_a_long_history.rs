//! Clients of every kind come back to more changes than any page holds, of rows such as users have:
//! each gets all of them, once, in order, and is live then, and nobody is told that they are up to date
//! before they are.
//!
//! `./test faults` tells it with 100,000 changes.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use serde_json::{Value, json};
use tidewire_stories::jobs::events;
use tidewire_stories::query_tab::{run, watch};
use tidewire_stories::wait::within_patience;
use tidewire_stories::{
    Http, Jobs, Launch, Process, QueryTab, ServerSent, Store, StreamSource, Tab, WebSocket,
    eventually, faults, on_both_stores,
};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

on_both_stores!(every_kind_of_client_gets_all_of_it_once_and_in_order);

const STREAM: &str = "table/orders";
/// What the note of a row says in the last change before the clients come, and in the first after.
const LAST: &str = "the last of the past";
const LIVE: &str = "the first that is live";
/// Between two looks at what was printed.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Rows that the live query shows.
const QUERIED: usize = 50;
const SELECT: &str = "SELECT id, version, status FROM orders WHERE id <= 50";
/// Rows that are followed as entities.
const ENTITIES: i64 = 100;

/// How many rows there are, and how often all of them change.
fn dimensions() -> (i64, i64) {
    // Of faults there are none here: only the number says which run it is.
    if faults::rounds(1) > 1 { (1_000, 100) } else { (100, 60) }
}

/// The table as each store would have it.
async fn make_orders(store: &Store, http: &Http) {
    let (types, values) = match store {
        Store::Sqlite { .. } => (
            ["TEXT", "TEXT", "TEXT"],
            "lower(hex(randomblob(16))), 'open', 10.25, '[\"new\", \"gift\", \"eu\"]', \
             '2024-05-01T10:00:00.123456+00:00', '2024-05-01T10:00:00.123456+00:00'",
        ),
        Store::Postgres { .. } => (
            ["UUID", "TEXT[]", "TIMESTAMPTZ"],
            "gen_random_uuid(), 'open', 10.25, ARRAY['new', 'gift', 'eu'], \
             now() - interval '1 day', now()",
        ),
    };
    let [uuid, texts, moment] = types;
    let create = format!(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, user_id {uuid}, status TEXT, total NUMERIC(12, 2),
             tags {texts}, created_at {moment}, updated_at {moment}, note TEXT, version INTEGER)"
    );
    run(http, &create).await;
    watch(http, &json!({ "table": "orders", "entity": "order" })).await;
    let (rows, _) = dimensions();
    let insert = format!(
        "INSERT INTO orders WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < {rows})
         SELECT id, {values}, 'leave it with the neighbours', 0 FROM n"
    );
    run(http, &insert).await;
}

async fn change_all(http: &Http) {
    for _ in 0..dimensions().1 {
        run(http, "UPDATE orders SET version = version + 1, total = total + 1.25, status = 'paid'")
            .await;
    }
    one_more(http, LAST).await;
}

async fn one_more(http: &Http, note: &str) {
    run(http, &format!("UPDATE orders SET version = version + 1, note = '{note}' WHERE id = 1"))
        .await;
}

/// What a client was told so far. Every row's versions must come one after the other.
struct Received {
    who: &'static str,
    /// The next version of each row.
    next: BTreeMap<i64, i64>,
    count: i64,
    note: String,
}

impl Received {
    /// Nothing, of someone who has seen the rows when their versions were below this.
    fn nothing(who: &'static str, first: i64) -> Received {
        let next = (1..=dimensions().0).map(|id| (id, first)).collect();
        Received { who, next, count: 0, note: String::new() }
    }

    /// Takes a row as a change has left it.
    fn row(&mut self, row: &Value) {
        let number = |name: &str| row[name].as_i64().unwrap_or_else(|| panic!("{name} in {row}"));
        let (id, version) = (number("id"), number("version"));
        let next = self.next.get_mut(&id).unwrap_or_else(|| panic!("no such row: {row}"));
        let (who, count) = (self.who, self.count);
        assert_eq!(version, *next, "{who} misses changes of the row {id}, after {count} in all");
        *next += 1;
        self.count += 1;
        self.note = row["note"].as_str().expect("a note").to_owned();
    }

    fn is_at(&self, note: &str) -> bool {
        self.note == note
    }

    /// Checks that the whole past was told when its last change was.
    fn is_whole(&self) {
        let (rows, updates) = dimensions();
        let (who, told) = (self.who, self.next.values().sum::<i64>());
        assert_eq!(told, rows * (updates + 1) + 1, "{who} was not told all of the past");
    }
}

/// Held by each client until it has read the past. It listens on meanwhile, as a client must that wants to be
/// taken for alive: when all have dropped theirs, the first live change is made.
type OnTheWay = mpsc::Sender<Infallible>;

/// Someone who can be asked for the next rows that they are told of.
trait Client: Send {
    /// Takes what comes next.
    fn hear(&mut self, told: &mut Received) -> impl Future<Output = ()> + Send;
}

/// Reads the past, says so, and reads on to what is live.
async fn reads(mut client: impl Client, mut told: Received, on_the_way: OnTheWay) {
    let who = told.who;
    while !told.is_at(LAST) {
        within_patience(&format!("the past, for {who}"), client.hear(&mut told)).await;
    }
    told.is_whole();
    drop(on_the_way);
    while !told.is_at(LIVE) {
        client.hear(&mut told).await;
    }
}

/// A WebSocket with a subscription to the table or to its stream.
struct Socket(WebSocket);

impl Socket {
    async fn open(http: &Http, subscription: &Value) -> Socket {
        let mut socket = WebSocket::connect(http, "/v1/ws").await;
        socket.hears("hello").await;
        socket.subscribe(subscription).await;
        Socket(socket)
    }
}

impl Client for Socket {
    async fn hear(&mut self, told: &mut Received) {
        let message = self.0.next().await;
        match message["type"].as_str() {
            Some("cdc_event") => told.row(&message["data"]),
            Some("event") => told.row(&message["payload"]["data"]),
            Some("progress") => {}
            _ => panic!("{} was told {message}", told.who),
        }
    }
}

/// A session, over Server-Sent Events.
impl Client for ServerSent {
    async fn hear(&mut self, told: &mut Received) {
        let sent = self.whenever().await.expect("a response that goes on");
        match sent.message["type"].as_str() {
            Some("event") => told.row(&sent.message["payload"]["data"]),
            Some("progress" | "subscription_created") => {}
            _ => panic!("{} was told {sent:?}", told.who),
        }
    }
}

/// The stream by `live=sse`: one response after the other, because each has its time.
struct Responses {
    http: Http,
    source: StreamSource,
    offset: String,
}

impl Client for Responses {
    async fn hear(&mut self, told: &mut Received) {
        let Some(batch) = self.source.next().await else {
            self.source = StreamSource::open(&self.http, STREAM, &self.offset).await;
            return;
        };
        self.offset = batch.offset().to_owned();
        batch.messages.iter().for_each(|message| told.row(&message["data"]));
        let is_end = batch.control["upToDate"] == true;
        assert!(!is_end || told.is_at(LAST) || told.is_at(LIVE), "up to date after {}", told.count);
    }
}

/// One request after the other: all of them waiting, or only those at the end.
struct Requests {
    http: Http,
    offset: String,
    waits: bool,
}

impl Client for Requests {
    async fn hear(&mut self, told: &mut Received) {
        let live = if self.waits { "&live=long-poll" } else { "" };
        let path = format!("/v1/stream/{STREAM}?offset={}{live}", self.offset);
        let answer = self.http.get(&path).await;
        assert!(matches!(answer.status, 200 | 204), "{path}: {}", answer.text());
        if answer.status == 200 {
            let messages = answer.json();
            let messages = messages.as_array().expect("an array");
            messages.iter().for_each(|message| told.row(&message["data"]));
        }
        self.offset = answer.next_offset();
        let is_end = answer.header("stream-up-to-date").is_some();
        assert!(!is_end || told.is_at(LAST) || told.is_at(LIVE), "up to date after {}", told.count);
        self.waits |= is_end;
    }
}

/// A consumer group, by the program of a worker over HTTP.
impl Client for Jobs {
    async fn hear(&mut self, told: &mut Received) {
        let claim = json!({ "member": "m", "wait_ms": 1_000, "batch_size": 500 });
        if let Some(batch) = self.try_claim(&claim).await {
            events(&batch).iter().for_each(|event| told.row(&event["after_data"]));
            self.ack(&batch).await;
        }
    }
}

/// Waits for a note to be printed. There is patience with each piece, because there may be many.
async fn has_printed(tail: &Process, note: &str) {
    let mut bytes = 0;
    while !tail.has_just_printed(note) {
        let more = async {
            while tail.printed_bytes() <= bytes {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            tail.printed_bytes()
        };
        bytes = within_patience(&format!("{note}, printed"), more).await;
    }
}

/// `tidewire tail --table`: all that it prints, one change a line.
async fn tails(http: Http, on_the_way: OnTheWay) {
    let words = ["--table", "orders", "--from", "start", "--url", http.base()];
    let tail = Launch::command("tail").with(words).spawn();
    has_printed(&tail, LAST).await;
    drop(on_the_way);
    while !tail.has_just_printed(LIVE) {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    let mut told = Received::nothing("tail", 0);
    for line in tail.printed().lines().take_while(|line| !line.contains(LIVE)) {
        let change: Value = serde_json::from_str(line).expect("a change");
        told.row(&change["data"]);
    }
    told.is_whole();
}

/// A subscription to the rows as entities: whoever comes back is told of each once.
async fn hears_of_entities(http: Http, since: String, on_the_way: OnTheWay) {
    let mut socket = WebSocket::connect(&http, "/v1/ws").await;
    socket.hears("hello").await;
    let ids: Vec<String> = (1..=ENTITIES).map(|id| id.to_string()).collect();
    let wanted =
        json!({ "query_id": "e", "entity_code": "order", "entity_ids": ids, "offset": since });
    socket.subscribe(&wanted).await;
    let mut told: Vec<String> = Vec::new();
    while told.len() < ids.len() {
        let message = socket.hears("INVALIDATE").await;
        for change in message["payload"]["changes"].as_array().expect("changes") {
            assert_eq!(change["action"], "UPDATE", "{message}");
            told.push(change["entityId"].as_str().expect("an id").to_owned());
        }
    }
    told.sort_by_key(|id| id.parse::<i64>().expect("a number"));
    assert_eq!(told, ids, "each once");
    drop(on_the_way);
    let message = socket.hears("INVALIDATE").await;
    assert_eq!(message["payload"]["changes"][0]["entityId"], "1", "{message}");
}

/// A live query that goes on from its offset. Each of its changes says what the row was before, and the
/// client has that, or complains.
async fn resumes_a_query(http: Http, mut tab: QueryTab, on_the_way: OnTheWay) {
    let offset = tab.offset("q").expect("an offset").to_owned();
    let etag = tab.entry("q")["etag"].clone();
    let mut back = QueryTab::open(&http).await;
    back.inherit(&mut tab, "q");
    drop(tab);
    back.ask(&[json!({ "query_id": "q", "sql": SELECT, "offset": offset, "etag": etag })]).await;
    let created = back.hear_until("subscription_created").await;
    assert_eq!(created["subscriptions"][0]["reset"], false, "{created}");
    back.until_as_run(&http, "q", SELECT, false).await;
    let version = |tab: &QueryTab| {
        let first = tab.rows("q").iter().find(|row| row["id"] == 1);
        first.and_then(|row| row["version"].as_i64()).expect("a row")
    };
    assert_eq!(version(&back), dimensions().1 + 1);
    drop(on_the_way);
    while version(&back) != dimensions().1 + 2 {
        back.hear().await;
    }
}

/// I3: of what became of an entity some is told to nobody, such as that it got a name that none can have. Where that
/// is among the first that are read, what comes after them is told all the same. Only PostgreSQL notes down such names.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_past_of_an_entity_goes_on_after_what_is_told_to_nobody() {
    let store = Store::postgres().await;
    let server = Launch::dev(&store).start().await;
    let http = server.http();
    run(http, "CREATE TABLE things (id TEXT PRIMARY KEY, n INTEGER)").await;
    watch(http, &json!({ "table": "things", "entity": "thing" })).await;
    let since = http.tail("table/things").await;
    let unheard = "k".repeat(1_100);
    run(http, "INSERT INTO things VALUES ('a', 0)").await;
    run(http, &format!("UPDATE things SET id = '{unheard}'")).await;
    run(http, "INSERT INTO things VALUES ('a', 0)").await;
    // More than are read at once.
    let changes = "DO $$ BEGIN FOR i IN 1..2500 LOOP UPDATE things SET n = i WHERE id = 'a'; END LOOP; END $$";
    run(http, changes).await;
    run(http, "DELETE FROM things WHERE id = 'a'").await;
    eventually("all of it is in the past", async || {
        (store.count("log", "operation = 'DELETE'").await == 1).then_some(())
    })
    .await;
    let mut socket = WebSocket::connect(http, "/v1/ws").await;
    socket.hears("hello").await;
    let wanted =
        json!({ "query_id": "e", "entity_code": "thing", "entity_ids": ["a"], "offset": since });
    socket.subscribe(&wanted).await;
    let told = socket.hears("INVALIDATE").await;
    let changes = &told["payload"]["changes"];
    assert_eq!((&changes[0]["entityId"], &changes[0]["action"]), (&json!("a"), &json!("DELETE")));
}

/// I3, for everyone.
async fn every_kind_of_client_gets_all_of_it_once_and_in_order(store: Store) {
    let server =
        Launch::dev(&store).set("TIDEWIRE_QUERIES_RESUME_EVENTS_MAX", "1000000").start().await;
    let http = server.http();
    make_orders(&store, http).await;
    let group = Jobs::of(http, "shop");
    group.make(&json!({ "partitions": 1, "tables": ["orders"] })).await;
    let mut query = QueryTab::open(http).await;
    query.follow(&json!({ "query_id": "q", "sql": SELECT })).await;
    assert_eq!(query.rows("q").len(), QUERIED);
    let since = http.tail(STREAM).await;
    change_all(http).await;

    let mut clients = JoinSet::new();
    let (on_the_way, mut all_are_back) = mpsc::channel(1);
    let table = json!({ "query_id": "t", "table": "orders", "offset": "-1" });
    let stream = json!({ "query_id": "s", "stream": STREAM, "offset": since });
    let socket = Socket::open(http, &table).await;
    clients.spawn(reads(
        socket,
        Received::nothing("the socket of the table", 0),
        on_the_way.clone(),
    ));
    let socket = Socket::open(http, &stream).await;
    clients.spawn(reads(
        socket,
        Received::nothing("the socket of the stream", 1),
        on_the_way.clone(),
    ));
    let tab = Tab::open(http).await;
    tab.subscribe_at(STREAM, &since).await;
    let session = ServerSent::open(http, &tab.session, None).await;
    clients.spawn(reads(session, Received::nothing("the session", 1), on_the_way.clone()));
    let source = StreamSource::open(http, STREAM, "-1").await;
    let source = Responses { http: http.clone(), source, offset: "-1".to_owned() };
    clients.spawn(reads(source, Received::nothing("live=sse", 0), on_the_way.clone()));
    for (who, offset, first, waits) in
        [("catch-up", "-1", 0, false), ("long-poll", since.as_str(), 1, true)]
    {
        let requests = Requests { http: http.clone(), offset: offset.to_owned(), waits };
        clients.spawn(reads(requests, Received::nothing(who, first), on_the_way.clone()));
    }
    clients.spawn(reads(group, Received::nothing("the group", 0), on_the_way.clone()));
    clients.spawn(tails(http.clone(), on_the_way.clone()));
    clients.spawn(hears_of_entities(http.clone(), since, on_the_way.clone()));
    clients.spawn(resumes_a_query(http.clone(), query, on_the_way.clone()));

    drop(on_the_way);
    all_are_back.recv().await;
    one_more(http, LIVE).await;
    let everyone_hears = async {
        while let Some(ended) = clients.join_next().await {
            ended.expect("a client that was told everything");
        }
    };
    within_patience("everyone is told of what is live", everyone_hears).await;
}
