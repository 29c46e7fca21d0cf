//! The life of a server: check, listen, open the store, serve, drain, close. After a failover of its
//! database it opens the store again and serves on, at the same address.
//!
//! What can be refused is refused in [`Plan::new`], before anything is touched. The address is taken
//! before the store is opened, so that a second server on a port never migrates a database.
//!
//! - `banner`: what a person sees when the server is up
//! - `listen`: taking the address
//! - `signals`: SIGINT and SIGTERM, which end a server, and SIGHUP, on which it reads its
//!   configuration again
//! - `store`: opening the store that the configuration names

mod banner;
mod listen;
pub(crate) mod signals;
pub(crate) mod store;

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tidewire_capture::{Capture, CaptureOptions};
use tidewire_deliver::{Access, Options, Reload, Server, TlsOptions, Trust};
use tidewire_store::SharedStore;
use tidewire_store_postgres::{PostgresStore, Replaced};

use crate::config::secret::{AdminKey, NoAdminKey};
use crate::config::{Config, StoreOptions, listen_address};
use signals::{Signals, StopSignal};
use store::Opened;

/// How long the store may take to close. Its work is durable before it is acknowledged, so that one
/// which cannot finish (a database that is gone) loses nothing.
const STORE_CLOSE_MAX: Duration = Duration::from_secs(10);

/// How long capture may take to finish the commit in hand. What is not committed by then is not lost:
/// it stays where it was staged.
const CAPTURE_STOP_MAX: Duration = Duration::from_secs(5);

/// For whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Open, on this machine only.
    Dev,
    /// For those who have the key.
    Serve,
}

/// How long a node whose database failed over waits for it to be there again. As long as one waits
/// whose database is away: until it is told to stop.
const REOPEN_WAIT: Duration = Duration::from_secs(365 * 24 * 3_600);

/// A server that could be started.
pub(crate) struct Plan {
    mode: Mode,
    address: SocketAddr,
    store: StoreOptions,
    capture: CaptureOptions,
    options: Options,
    database_wait: Duration,
    grace: Duration,
}

/// A server that runs, and what it stands on.
struct Running {
    server: Server,
    capture: Option<Capture>,
    store: SharedStore,
    shared: Option<Arc<PostgresStore>>,
}

impl Running {
    /// Returns when the store cannot go on with its database, and why.
    async fn replaced(&self) -> Replaced {
        match &self.shared {
            Some(store) => store.replaced().await,
            None => std::future::pending().await,
        }
    }
}

/// Why a server that runs is to end.
enum StopCause {
    Signal(StopSignal),
    Replaced(Replaced),
}

impl Plan {
    /// Refuses what would be unsafe: a development server that others can reach, and a public one
    /// with a key that can be guessed.
    pub(crate) fn new(mode: Mode, config: &Config, reload: Reload) -> anyhow::Result<Plan> {
        let settings = &config.settings;
        let address = listen_address(&settings.listen).context("listen was checked")?;
        let access = match mode {
            Mode::Dev if !address.ip().is_loopback() => bail!(
                "dev is open to everyone who can reach it, so it listens on this machine only, and \
                 {address} is not a loopback address. Use --listen 127.0.0.1:{}, or run `tidewire \
                 serve`, which asks for a key",
                address.port()
            ),
            Mode::Dev => Access::OpenOnLoopback,
            Mode::Serve => match AdminKey::check(config.admin_key.as_deref()) {
                Ok(key) => Access::Guarded { admin_key: Some(key.reveal()) },
                // There may be others who can come in: `start` looks.
                Err(NoAdminKey::Missing) => Access::Guarded { admin_key: None },
                Err(bad) => return Err(bad.into()),
            },
        };
        let (certificate, key) = (&settings.tls.certificate, &settings.tls.key);
        if certificate.as_os_str().is_empty() != key.as_os_str().is_empty() {
            bail!(
                "tls.certificate and tls.key belong together, and only one of them is set. Set both, \
                 or none for connections without encryption"
            );
        }
        let options = settings.deliver(access, config.jwt_secret.clone());
        let options = Options { reload: Some(reload), ..options };
        options.tls.as_ref().map_or(Ok(()), TlsOptions::check).context("cannot speak TLS")?;
        let store = settings.store();
        if is_closed(&options) && is_yet_to_be(&store) {
            return Err(NoAdminKey::Missing.into());
        }
        Ok(Plan {
            mode,
            address,
            store,
            capture: settings.capture(""),
            options,
            // A developer wants to know at once; a service may be started before its database.
            database_wait: match mode {
                Mode::Dev => Duration::ZERO,
                Mode::Serve => settings.database_wait_ms,
            },
            grace: settings.shutdown.grace_ms,
        })
    }
}

/// Runs until a signal, then drains. A second signal ends the process at once. A database that failed
/// over is opened anew, by a server that begins anew: nothing outlasts an epoch.
pub(crate) async fn run(mut plan: Plan) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::listen()?;
    let grace = plan.grace;
    let listener = listen::bind(plan.address)?.into_std().context("cannot listen")?;
    let mut listener = Some(listener);
    let mut first = true;
    while let Some(socket) = &listener {
        let running = tokio::select! {
            running = Box::pin(start(&plan, socket, first)) => running?,
            signal = signals.next(|| {}) => return Ok(ExitCode::from(signal.exit_code())),
        };
        first = false;
        let cue = tokio::select! {
            signal = signals.next(|| running.server.reload()) => StopCause::Signal(signal),
            why = running.replaced() => StopCause::Replaced(why),
        };
        match &cue {
            StopCause::Signal(signal) => tracing::info!(
                ?grace,
                "{signal}: finishing requests under way; a second one ends at once"
            ),
            StopCause::Replaced(Replaced::Reopen(why)) => tracing::error!(
                why,
                "the database was replaced (a failover); this node opens it again"
            ),
            StopCause::Replaced(Replaced::Stop(why)) => tracing::error!("stopping: {why}"),
        }
        if !matches!(cue, StopCause::Replaced(Replaced::Reopen(_))) {
            // Whoever wants to connect meanwhile goes elsewhere.
            listener = None;
        }
        tokio::select! {
            () = Box::pin(drain(running, grace)) => {}
            signal = signals.next(|| {}) => {
                tracing::warn!("{signal}: ending at once");
                std::process::exit(signal.exit_code().into())
            }
        }
        match cue {
            StopCause::Signal(_) => {}
            StopCause::Replaced(Replaced::Stop(why)) => bail!("{why}"),
            StopCause::Replaced(Replaced::Reopen(_)) => plan.database_wait = REOPEN_WAIT,
        }
    }
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

async fn start(
    plan: &Plan,
    listener: &std::net::TcpListener,
    first: bool,
) -> anyhow::Result<Running> {
    let Opened { store, capture, shared } = store::open(&plan.store, plan.database_wait).await?;
    let listener = listen::again(listener).context("cannot listen")?;
    let backend = store.backend();
    let encrypted = plan.options.tls.is_some();
    someone_may_come_in(&plan.options, &store).await?;
    // Before anyone is served: from then on a signal to stop begins the drain.
    if plan.options.queries.enabled {
        say_what_live_queries_need(&store).await;
    }
    let server = Server::start(plan.options.clone(), SharedStore::clone(&store), listener).await;
    let server = server.context("cannot start the server")?;
    let options = CaptureOptions { node: server.node_id().to_owned(), ..plan.capture.clone() };
    let capture = capture.map(|link| tidewire_capture::start(options, link));
    let address = server.local_addr();
    let place = store::place(&plan.store);
    if first {
        let reached = banner::LocalAddress::at(address, &plan.options);
        let banner = banner::text(plan.mode, &banner::program(), &reached, backend, &place);
        // Whoever started us may not be listening to our output; that is no reason to stop.
        let _ = std::io::stdout().lock().write_all(banner.as_bytes());
    }
    tracing::info!(%address, backend, %place, "serving");
    if first && plan.options.tls.as_ref().is_some_and(|tls| tls.trust() == Trust::OfAuthority) {
        tracing::warn!(
            "the certificate is an authority's own (CA:TRUE), as openssl req -x509 makes it unless it is told \
             otherwise: tidewire's commands and other clients do not take it for a server's. Make it with \
             -addext basicConstraints=critical,CA:FALSE"
        );
    }
    if plan.mode == Mode::Serve && !encrypted && !address.ip().is_loopback() {
        tracing::warn!(
            %address,
            "connections are not encrypted: set tls.certificate and tls.key, or put a TLS proxy in front"
        );
    }
    Ok(Running { server, capture, store, shared })
}

/// Tells the operator what to run where the database does not let us read for live queries. All else works without.
async fn say_what_live_queries_need(store: &SharedStore) {
    match store.live_query_needs(None).await {
        Ok(needs) if needs.is_empty() => {}
        Ok(needs) => tracing::warn!(
            // As it is, so that it can be copied.
            run = %format_args!("{};", needs.join("; ")),
            "live queries do not work yet: let a superuser, or the owner of what is named, run this in the database"
        ),
        Err(error) => tracing::debug!(%error, "it is not known whether live queries can be read"),
    }
}

/// Whether nobody comes in but with a key that is in the store.
fn is_closed(options: &Options) -> bool {
    matches!(options.access, Access::Guarded { admin_key: None })
        && !options.auth.jwt.takes_tokens()
}

/// Whether the store would be made, and so has no keys.
fn is_yet_to_be(store: &StoreOptions) -> bool {
    matches!(store, StoreOptions::Sqlite(sqlite) if !sqlite.folder.exists())
}

/// Refuses to serve nobody: without the admin key, there must be tokens or keys that are good.
async fn someone_may_come_in(options: &Options, store: &SharedStore) -> anyhow::Result<()> {
    if !is_closed(options) {
        return Ok(());
    }
    let keys = store.keys().await.context("cannot read the keys")?;
    if keys.iter().any(tidewire_store::KeyView::is_valid) {
        return Ok(());
    }
    Err(NoAdminKey::Missing.into())
}

async fn drain(running: Running, grace: Duration) {
    running.server.shutdown(grace).await;
    if let Some(capture) = running.capture
        && tokio::time::timeout(CAPTURE_STOP_MAX, capture.stop()).await.is_err()
    {
        tracing::warn!("capture did not stop in time; another node continues from its position");
    }
    if tokio::time::timeout(STORE_CLOSE_MAX, running.store.close()).await.is_err() {
        tracing::warn!("the store did not close in time; what was acknowledged is durable");
    }
}
