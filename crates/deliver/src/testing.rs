//! What tests share: a node to present credentials to, and every way to change them; a hub, and a store with a
//! table; those who come to it.

use std::sync::Arc;

use axum::http::HeaderMap;
use proptest::prelude::*;
use proptest::sample::Index;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use tidewire_store::memory::MemoryStore;
use tidewire_store::{Actor, NewWatch, Position, SharedStore, SqlLimits, Statements};
use tidewire_store_sqlite::{SqliteOptions, SqliteStore};

use crate::access::options::{Access, Options};
use crate::hub::lookup::{self, Reach};
use crate::hub::reader_frame::Voice;
use crate::hub::{Arrival, Facts, Hub, PASSAGE_LIMIT, Unstarted};
use crate::node::Node;
use crate::server::Server;

/// The key that may do everything.
pub(crate) const ADMIN_KEY: &str = "test-2c9e41d7b3865f0a";

/// A node that asks for credentials, over a store of its own. Gone when dropped.
pub(crate) struct Bench {
    server: Server,
    runtime: Runtime,
    _folder: Option<TempDir>,
}

impl Bench {
    /// Over a store in memory: there is no SQL, and there are no groups.
    pub(crate) fn start() -> Bench {
        Bench::over(Runtime::new().expect("a runtime"), MemoryStore::fresh(), None)
    }

    /// Over an embedded store.
    pub(crate) fn start_on_sqlite() -> Bench {
        let runtime = Runtime::new().expect("a runtime");
        let folder = tempfile::tempdir().expect("a folder");
        let store = runtime.block_on(SqliteStore::open(SqliteOptions::new(folder.path())));
        Bench::over(runtime, store.expect("a store"), Some(folder))
    }

    fn over(runtime: Runtime, store: SharedStore, folder: Option<TempDir>) -> Bench {
        let start = async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let access = Access::Guarded { admin_key: Some(ADMIN_KEY.to_owned()) };
            Server::start(Options::new(access), store, listener).await.expect("a server")
        };
        let server = runtime.block_on(start);
        Bench { server, runtime, _folder: folder }
    }

    pub(crate) fn node(&self) -> &Arc<Node> {
        self.server.node()
    }

    pub(crate) fn address(&self) -> std::net::SocketAddr {
        self.server.local_addr()
    }

    /// Waits for something, where a test cannot.
    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }
}

/// The hub, of one shard, of a node that serves nobody, and what of it is yet to be started.
pub(crate) async fn hub(options: Options, store: SharedStore) -> (Arc<Hub>, Unstarted) {
    let assembled = Node::assemble(options, store, String::new(), 1).await;
    let (node, unstarted) = assembled.expect("a node");
    (node.hub, unstarted)
}

/// A store of its own with a table `orders (id, total)` that is watched, and the folder that it is in.
pub(crate) async fn watched_orders() -> (SharedStore, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = SqliteStore::open(SqliteOptions::new(folder.path())).await.expect("a store");
    let store: SharedStore = store;
    run(&store, "CREATE TABLE orders (id INTEGER PRIMARY KEY, total INTEGER) STRICT").await;
    let watch = NewWatch { table: "orders".to_owned(), ..NewWatch::default() };
    store.watch(watch).await.expect("a watch");
    (store, folder)
}

/// Runs a statement as whoever may run any.
pub(crate) async fn run(store: &SharedStore, sql: &str) {
    let limits = SqlLimits { timeout_ms: 10_000, rows_max: 100, bytes_max: 1 << 20 };
    let (params, actor) = (Vec::new(), Actor::default());
    let statements = Statements { sql: sql.to_owned(), params, actor, limits };
    store.run_sql(statements).await.expect("SQL");
}

/// A reader that comes to a stream, at its start or at its tail.
pub(crate) async fn arrival(hub: &Hub, stream: &str, at_tail: bool) -> Arrival {
    let attendance = hub.tail.attend(stream);
    let after = if at_tail { Position::new(u64::MAX) } else { Position::START };
    let reach = Reach::everything();
    let page = lookup::find(hub, stream, &reach, after, PASSAGE_LIMIT).await.expect("a page");
    let after = if at_tail { page.view.tail } else { after };
    let voice = Voice::new(hub.store.epoch(), "application/json", None);
    Arrival::new(facts("c"), attendance, reach, (None, None), &page, after, voice)
}

/// A client of whom nothing else is known.
pub(crate) fn facts(id: &str) -> Arc<Facts> {
    Arc::new(Facts::new(id.into(), None, &HeaderMap::new()))
}

/// A change of bytes.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    Flip(Index, u8),
    Drop(Index, usize),
    Insert(Index, Vec<u8>),
    Truncate(Index),
    Repeat(Index, usize),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        // One past the last is a place to insert at, too.
        let size = bytes.len() + 1;
        match self {
            Change::Flip(at, mask) if !bytes.is_empty() => {
                let at = at.index(bytes.len());
                bytes[at] ^= mask;
            }
            Change::Flip(..) => {}
            Change::Drop(at, count) => {
                let at = at.index(size);
                let end = bytes.len().min(at + count);
                bytes.drain(at..end);
            }
            Change::Insert(at, inserted) => {
                let at = at.index(size);
                bytes.splice(at..at, inserted.iter().copied());
            }
            Change::Truncate(at) => bytes.truncate(at.index(size)),
            Change::Repeat(at, count) => {
                let at = at.index(size);
                let end = bytes.len().min(at + count);
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
        }
    }
}

/// Bytes with changes, one after the other.
pub(crate) fn changed(bytes: impl Into<Vec<u8>>, changes: &[Change]) -> Vec<u8> {
    let mut bytes = bytes.into();
    changes.iter().for_each(|change| change.apply(&mut bytes));
    bytes
}

/// A text with changes, one after the other.
pub(crate) fn changed_text(text: &str, changes: &[Change]) -> String {
    String::from_utf8_lossy(&changed(text, changes)).into_owned()
}

/// A few changes.
pub(crate) fn changes() -> impl Strategy<Value = Vec<Change>> {
    prop::collection::vec(change(), 1..4)
}

fn change() -> impl Strategy<Value = Change> {
    let of_base64 = prop::collection::vec(prop::sample::select(b"Aa0-_.=".to_vec()), 1..5);
    prop_oneof![
        (any::<Index>(), 1u8..).prop_map(|(at, mask)| Change::Flip(at, mask)),
        (any::<Index>(), 1usize..40).prop_map(|(at, count)| Change::Drop(at, count)),
        (any::<Index>(), prop::collection::vec(any::<u8>(), 1..20))
            .prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        (any::<Index>(), of_base64).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        any::<Index>().prop_map(Change::Truncate),
        (any::<Index>(), 1usize..40).prop_map(|(at, count)| Change::Repeat(at, count)),
    ]
}
