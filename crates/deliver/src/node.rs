//! What all request handlers of a node share.

use std::sync::Arc;
use std::time::Duration;

use tidewire_store::SharedStore;

use crate::groups::GroupDispatchers;
use crate::metrics::Metrics;
use crate::pages::Pages;
use crate::readers::LiveReaders;
use crate::readiness::Readiness;
use crate::retention::RetentionStats;
use crate::sessions::Sessions;
use crate::signer::Signer;
use tidewire_access::AccessControl;
use tidewire_access::auth::names::TableNames;
use tidewire_access::options::{NodeOptions, Options};
use tidewire_access::start_error::StartError;
use tidewire_hub::row_filter::dialect;
use tidewire_hub::{Hub, Unstarted};
use tidewire_wire::tls::CertificateReloader;

/// One node: its hub, what access to it is decided with, and what routes need besides.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) options: Arc<Options>,
    pub(crate) store: SharedStore,
    pub(crate) access: Arc<AccessControl>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) sessions: Sessions,
    pub(crate) groups: Arc<GroupDispatchers>,
    pub(crate) metrics: Metrics,
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) retention: Arc<RetentionStats>,
    /// Pages that were read lately.
    pub(crate) pages: Arc<Pages>,
    pub(crate) signer: Arc<Signer>,
    /// What new connections are encrypted with, where they are.
    pub(crate) tls: Option<CertificateReloader>,
    /// Where clients and webhook receivers reach this server, without a slash at the end.
    pub(crate) public_url: String,
    pub(crate) live_readers: Arc<LiveReaders>,
}

/// A name that no other node has.
fn name(options: &NodeOptions) -> String {
    format!("{}_{:08x}", options.name, rand::random::<u32>())
}

impl Node {
    /// Puts a node together. Its hub is yet to be started.
    pub(crate) async fn assemble(
        options: Options,
        store: SharedStore,
        public_url: String,
        shards: usize,
    ) -> Result<(Node, Unstarted), StartError> {
        let options = Arc::new(options);
        let tls = options.tls.as_ref().map(CertificateReloader::open).transpose()?;
        let tip = store.tip().await?;
        let names = TableNames::new(dialect(&store));
        names.look(&store, Duration::ZERO).await?;
        let pages = Arc::new(Pages::new(options.streams.page_cache_bytes_max));
        let access = Arc::new(AccessControl::new(
            Arc::clone(&options),
            SharedStore::clone(&store),
            names,
            Arc::<Pages>::clone(&pages),
        )?);
        let id = name(&options.node);
        let (hub, unstarted) = Hub::assemble(id, Arc::clone(&access), tip, shards);
        let notes = Arc::clone(&hub.session_notes);
        let hub = Arc::new(hub);
        let signer = Arc::new(Signer::load(&store).await?);
        let live_readers = Arc::new(LiveReaders::new(options.limits.live_readers_max));
        let dispatchers =
            GroupDispatchers::new(Arc::clone(&hub), Arc::clone(&signer), Arc::clone(&live_readers));
        let node = Node {
            hub,
            sessions: Sessions::load_key(&store, &options.sessions, notes).await?,
            groups: Arc::new(dispatchers),
            readiness: Arc::new(Readiness::new(tip)),
            retention: Arc::default(),
            metrics: Metrics::new(&access.counts),
            pages,
            signer,
            live_readers,
            tls,
            public_url,
            access,
            options,
            store,
        };
        Ok((node, unstarted))
    }

    /// Reads the configuration again, where it comes from somewhere.
    pub(crate) fn reload(&self) {
        let Some(reload) = &self.options.reload else { return };
        match (reload.0)() {
            Ok(tunable) => {
                self.access.tune(tunable);
                tracing::info!("read the configuration again");
                self.hub.rules.say_again();
                self.access.names.doubt();
            }
            Err(error) => tracing::warn!(error, "the configuration is wrong; it stays as it was"),
        }
    }
}
