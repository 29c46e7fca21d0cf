//! A crowd follows one thing and two follow another: what the two are told does not wait until the last of the
//! crowd has its own, whether the crowd follows a stream, a live query or an entity (I9).
//!
//! No duration decides. All clients are read by one thread, which gets what arrives in the order of its arrival;
//! what counts is whether the two were told something after the first of the crowd and before the last. A server
//! that serves a crowd in one go never does that, however often it is tried.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use serde_json::{Value, json};
use tidewire_stories::query_tab::{run, watch};
use tidewire_stories::wait::PATIENCE;
use tidewire_stories::{Http, Launch, Store, WebSocket, on_both_stores};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

on_both_stores!(
    a_stream_of_two_goes_on_while_a_streams_crowd_is_served,
    a_stream_of_two_goes_on_while_a_live_querys_crowd_is_served,
    a_stream_of_two_goes_on_while_an_entitys_crowd_is_served,
);

/// All on one shard, where those who follow something else have to share it; and few make a crowd.
const SETTINGS: [(&str, &str); 2] =
    [("TIDEWIRE_LIVE_SHARDS", "1"), ("TIDEWIRE_LIVE_FAN_OUT_THRESHOLD", "8")];
const CROWD: usize = 500;
/// Members of the crowd that come in at once.
const AT_ONCE: usize = 50;
/// Who append to the stream of two, each without a pause: there is always something on its way.
const WRITERS: usize = 4;
/// So often it has to be seen that the two are told something amid the crowd,
const SEEN: usize = 5;
/// in so many rounds. That one of them shows it takes luck, because the two are told nothing but what is there.
const ROUNDS: usize = 200;

#[derive(Debug, Clone, Copy)]
enum Recipient {
    OfCrowd,
    OfTwo(usize),
}

async fn start(store: &Store) -> tidewire_stories::Server {
    let launch = Launch::dev(store);
    let server = SETTINGS.iter().fold(launch, |launch, (name, value)| launch.set(name, value));
    let server = server.start().await;
    server.http().create("two").await;
    server
}

async fn a_stream_of_two_goes_on_while_a_streams_crowd_is_served(store: Store) {
    let server = start(&store).await;
    let http = server.http();
    http.create("crowd").await;
    let subscription = json!({ "query_id": "crowd", "stream": "crowd" });
    the_two_are_told_amid_the_crowd(http, &subscription, "event", async |round| {
        http.append("crowd", &json!(round)).await;
    })
    .await;
    server.kill();
}

async fn a_stream_of_two_goes_on_while_a_live_querys_crowd_is_served(store: Store) {
    let server = start(&store).await;
    let http = server.http();
    run(http, "CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT)").await;
    watch(http, &json!({ "table": "orders" })).await;
    let sql = "SELECT id, status FROM orders WHERE status = 'open'";
    let subscription = json!({ "query_id": "crowd", "sql": sql });
    the_two_are_told_amid_the_crowd(http, &subscription, "change", async |round| {
        run(http, &format!("INSERT INTO orders VALUES ({round}, 'open')")).await;
    })
    .await;
    server.kill();
}

async fn a_stream_of_two_goes_on_while_an_entitys_crowd_is_served(store: Store) {
    let server = start(&store).await;
    let http = server.http();
    run(http, "CREATE TABLE projects (id INTEGER PRIMARY KEY, round INTEGER)").await;
    watch(http, &json!({ "table": "projects", "entity": "project" })).await;
    run(http, "INSERT INTO projects VALUES (7, 0)").await;
    let subscription =
        json!({ "query_id": "crowd", "entity_code": "project", "entity_ids": ["7"] });
    the_two_are_told_amid_the_crowd(http, &subscription, "INVALIDATE", async |round| {
        run(http, &format!("UPDATE projects SET round = {round}")).await;
    })
    .await;
    server.kill();
}

/// `happens` is what the crowd is told of, each member in one message of this kind.
async fn the_two_are_told_amid_the_crowd(
    http: &Http,
    subscription: &Value,
    kind: &'static str,
    happens: impl AsyncFn(usize),
) {
    let mut audience = Audience::gather(http, subscription, kind).await;
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        let http = http.clone();
        writers.spawn(async move {
            loop {
                http.append("two", &json!("small")).await;
            }
        });
    }
    let (mut rounds, mut seen) = (0, 0);
    while seen < SEEN {
        assert!(rounds < ROUNDS, "amid the crowd the two were told something {seen} times only");
        rounds += 1;
        happens(rounds).await;
        let round = tokio::task::spawn_blocking(move || {
            let amid = audience.told_amid_the_crowd();
            (audience, amid)
        });
        let (back, amid) = round.await.expect("a round");
        audience = back;
        seen += usize::from(amid);
    }
    writers.shutdown().await;
}

/// The crowd and the two, in a thread of their own. They leave when dropped.
struct Audience {
    told: Receiver<Recipient>,
    _leave: oneshot::Sender<()>,
    _thread: JoinHandle<()>,
}

impl Audience {
    /// Everybody follows when this returns.
    async fn gather(http: &Http, subscription: &Value, kind: &'static str) -> Audience {
        let (tell, told) = channel();
        let (leave, left) = oneshot::channel();
        let (is_in, all_in) = oneshot::channel();
        let (http, subscription) = (http.clone(), subscription.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async move {
                let mut members = JoinSet::new();
                for first in (0..CROWD).step_by(AT_ONCE) {
                    let come =
                        (first..CROWD.min(first + AT_ONCE)).map(|_| follow(&http, &subscription));
                    for socket in futures_util::future::join_all(come).await {
                        members.spawn(listen(socket, kind, Recipient::OfCrowd, tell.clone()));
                    }
                }
                for member in 0..2 {
                    let subscription = json!({ "query_id": "two", "stream": "two" });
                    let socket = follow(&http, &subscription).await;
                    members.spawn(listen(socket, "event", Recipient::OfTwo(member), tell.clone()));
                }
                let _ = is_in.send(());
                tokio::select! {
                    _ = left => {}
                    Some(ended) = members.join_next() => panic!("one has left: {ended:?}"),
                }
            });
        });
        all_in.await.expect("all come in");
        Audience { told, _leave: leave, _thread: thread }
    }

    /// Hears of one message to each of the crowd: whether both of the two were told something after the first
    /// of those and before the last.
    fn told_amid_the_crowd(&self) -> bool {
        let (mut of_crowd, mut of_two) = (0, [false; 2]);
        while of_crowd < CROWD {
            match self.told.recv_timeout(PATIENCE).expect("what all are to be told") {
                Recipient::OfCrowd => of_crowd += 1,
                Recipient::OfTwo(member) => of_two[member] |= of_crowd > 0,
            }
        }
        of_two == [true; 2]
    }
}

async fn follow(http: &Http, subscription: &Value) -> WebSocket {
    let mut socket = WebSocket::connect(http, "/v1/ws").await;
    socket.subscribe(subscription).await;
    socket
}

/// Says of each message of this kind that it has come.
async fn listen(mut socket: WebSocket, kind: &str, told: Recipient, tell: Sender<Recipient>) {
    loop {
        let message = socket.next().await;
        if message["type"] == kind && tell.send(told).is_err() {
            return;
        }
    }
}
