//! What tests share: a node to present credentials to.

use std::sync::Arc;

use tempfile::TempDir;
use tidewire_access::options::{Access, Options};
use tidewire_store::SharedStore;
use tidewire_store::memory::MemoryStore;
use tidewire_store_sqlite::{SqliteOptions, SqliteStore};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

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
