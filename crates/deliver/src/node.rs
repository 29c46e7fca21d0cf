//! What all request handlers of a node share.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use tidewire_store::{Offset, Position, SharedStore};

use crate::access::auth::gates::Gates;
use crate::access::auth::names::TableNames;
use crate::access::auth::{Credentials, Identity, Who};
use crate::access::budget::Budget;
use crate::access::memory::Memory;
use crate::access::options::{Options, Tunable};
use crate::access::start_error::StartError;
use crate::groups::Office;
use crate::hub::kinds::entities::kept::Entities;
use crate::hub::kinds::query::engine::{Desk, Queries};
use crate::hub::lens::{Rules, Tables, dialect};
use crate::hub::tail::{Sinks, Tail};
use crate::hub::views::Views;
use crate::hub::{Dormant, Hub};
use crate::metrics::Metrics;
use crate::nodes;
use crate::readiness::Readiness;
use crate::retention::RetentionStats;
use crate::sessions::Sessions;
use crate::streams::Pages;
use crate::subscriptions::Signer;
use crate::wire::seats::Seats;
use crate::wire::tls::Keeper;

/// One node's parts.
#[derive(Debug)]
pub(crate) struct Node {
    /// Its name, which no other node has.
    pub(crate) id: String,
    pub(crate) options: Options,
    /// What may have changed since it started.
    pub(crate) tuned: RwLock<Arc<Tunable>>,
    pub(crate) store: SharedStore,
    pub(crate) credentials: Credentials,
    pub(crate) rates: Gates,
    /// Live connections by identity.
    pub(crate) places: Seats<Who>,
    /// Whoever reaches an open server.
    pub(crate) anyone: Identity,
    /// Whoever asks for what is public.
    pub(crate) stranger: Identity,
    pub(crate) tail: Tail,
    /// What tables are made of, and what of them is seen.
    pub(crate) tables: Arc<Tables>,
    /// What tables are called.
    pub(crate) names: TableNames,
    /// What must hold of rows that are read.
    pub(crate) rules: Rules,
    pub(crate) hub: Hub,
    pub(crate) sessions: Sessions,
    pub(crate) entities: Entities,
    pub(crate) queries: Queries,
    pub(crate) groups: Office,
    pub(crate) metrics: Metrics,
    pub(crate) memory: Memory,
    /// For requests and answers under way.
    pub(crate) budget: Budget,
    pub(crate) readiness: Readiness,
    pub(crate) retention: RetentionStats,
    /// Pages that were read lately.
    pub(crate) pages: Pages,
    /// Streams that are being asked for.
    pub(crate) views: Views,
    pub(crate) signer: Signer,
    /// What new connections are encrypted with, where they are.
    pub(crate) tls: Option<Keeper>,
    /// Where clients and webhook receivers reach this server, without a slash at the end.
    pub(crate) public_url: String,
    /// One permit for each reader that waits.
    pub(crate) live_readers: Arc<Semaphore>,
    /// Cancelled when the server begins to drain: live readers end, requests in flight finish.
    pub(crate) draining: CancellationToken,
}

/// A node, and the parts of it that are yet to be started.
#[derive(Debug)]
pub(crate) struct Assembled {
    pub(crate) node: Node,
    pub(crate) shards: Vec<Dormant>,
    pub(crate) sinks: Sinks,
    pub(crate) desk: Desk,
}

impl Node {
    /// Puts a node together. The hub's shards are yet to be started.
    pub(crate) async fn assemble(
        options: Options,
        store: SharedStore,
        public_url: String,
        shards: usize,
    ) -> Result<Assembled, StartError> {
        let tls = options.tls.as_ref().map(Keeper::open).transpose()?;
        let tip = store.tip().await?;
        let names = TableNames::new(dialect(&store));
        names.look(&store, Duration::ZERO).await?;
        let tables = Arc::new(Tables::new(names.clone()));
        let (hub, shards, sinks, query_sinks) = Hub::new(shards, tip);
        let tail = Tail::new(tip, Arc::clone(&tables));
        let (queries, orders) = Queries::new();
        // It hears everything from the first event on.
        let events = tail.headers();
        let desk = Desk { orders, events, sinks: query_sinks, position: tip };
        let node = Node {
            id: nodes::name(&options.node),
            tail,
            tables,
            hub,
            sessions: Sessions::load_key(&store, &options.sessions).await?,
            entities: Entities::default(),
            queries,
            groups: Office::new(&store, &options.groups),
            memory: Memory::new(options.live.memory_bytes_max),
            budget: Budget::new(options.limits.inflight_bytes_max),
            readiness: Readiness::new(tip),
            retention: RetentionStats::default(),
            metrics: Metrics::new(),
            pages: Pages::new(options.streams.page_cache_bytes_max),
            views: Views::default(),
            signer: Signer::load(&store).await?,
            credentials: Credentials::new(&options, &store, &names)?,
            rules: Rules::new(&options.tables, &names),
            names,
            rates: Gates::new(&options.tunable.rates),
            places: Seats::default(),
            anyone: Identity::of_this_machine(),
            stranger: Identity::stranger(),
            tuned: RwLock::new(Arc::new(options.tunable.clone())),
            live_readers: Arc::new(Semaphore::new(options.limits.live_readers_max)),
            draining: CancellationToken::new(),
            tls,
            public_url,
            options,
            store,
        };
        Ok(Assembled { node, shards, sinks, desk })
    }

    /// What can change while it runs, as it is.
    pub(crate) fn tunable(&self) -> Arc<Tunable> {
        Arc::clone(&self.tuned.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the configuration again, where it comes from somewhere.
    pub(crate) fn reload(&self) {
        let Some(reload) = &self.options.reload else { return };
        match (reload.0)() {
            Ok(tunable) => {
                self.rates.set(&tunable.rates);
                *self.tuned.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tunable);
                tracing::info!("read the configuration again");
                self.rules.say_again();
                self.names.doubt();
            }
            Err(error) => tracing::warn!(error, "the configuration is wrong; it stays as it was"),
        }
    }

    /// A position as clients see it.
    pub(crate) fn offset(&self, position: Position) -> Offset {
        position.in_epoch(self.store.epoch())
    }
}
