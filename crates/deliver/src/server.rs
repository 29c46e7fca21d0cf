//! Starting and stopping the server: the listener, its connections, and the tasks beside them.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use tidewire_store::{SharedStore, StoreError};

use crate::hub::{Dormant, Hub};
use crate::line::{HttpSide, Line};
use crate::memory::{self, Memory};
use crate::metrics::Metrics;
use crate::node::Node;
use crate::nodes;
use crate::options::{Limits, Options};
use crate::router;
use crate::sessions::{self, Sessions};
use crate::streams::Pages;
use crate::subscriptions::{Dispatcher, Signer};
use crate::tail::{Sinks, Tail};
use crate::tls::{Keeper, TlsError, shake_hands};

/// The server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The listening socket is of no use.
    #[error("cannot listen: {0}")]
    Listen(#[from] std::io::Error),
    /// The store does not answer.
    #[error("cannot read the store: {0}")]
    Store(#[from] StoreError),
    /// The certificate is of no use.
    #[error("{0}")]
    Tls(#[from] TlsError),
    /// The keys in the store are of no use.
    #[error("cannot use the signing key in the store: {0}")]
    SigningKey(String),
}

/// A running server. Stop it with [`Server::shutdown`]; dropping it cuts everything off.
#[derive(Debug)]
pub struct Server {
    node: Arc<Node>,
    local_addr: SocketAddr,
    /// Stops accepting connections.
    accepting: CancellationToken,
    /// Ends the tasks that work beside the connections.
    background: CancellationToken,
    connections: TaskTracker,
    tasks: TaskTracker,
}

impl Server {
    /// Starts serving. Returns once connections are accepted.
    pub async fn start(
        options: Options,
        store: SharedStore,
        listener: TcpListener,
    ) -> Result<Server, StartError> {
        let local_addr = listener.local_addr()?;
        let public_url = match &options.public_url {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => format!("{}://{}", options.scheme(), reachable(local_addr)),
        };
        let tls = options.tls.as_ref().map(Keeper::open).transpose()?;
        let tip = store.tip().await?;
        let (hub, shards, sinks) = Hub::new(shard_count(&options), tip);
        let node = Arc::new(Node {
            id: nodes::name(&options.node),
            tail: Tail::new(tip),
            hub,
            sessions: Sessions::load_key(&store, &options.sessions).await?,
            memory: Memory::new(options.live.memory_bytes_max),
            metrics: Metrics::new(),
            pages: Pages::new(options.streams.page_cache_bytes_max),
            signer: Signer::load(&store).await?,
            live_readers: Arc::new(Semaphore::new(options.limits.live_readers_max)),
            draining: CancellationToken::new(),
            tls,
            public_url,
            options,
            store,
        });
        let server = Server {
            node,
            local_addr,
            accepting: CancellationToken::new(),
            background: CancellationToken::new(),
            connections: TaskTracker::new(),
            tasks: TaskTracker::new(),
        };
        if let Err(error) = nodes::renew(&server.node).await {
            // A disk may be too full to write to, and still be read from.
            tracing::warn!(%error, "this node could not be made known; trying again");
        }
        server.start_tasks(shards, sinks);
        server.tasks.spawn(accept(
            listener,
            Arc::clone(&server.node),
            server.accepting.clone(),
            server.connections.clone(),
        ));
        Ok(server)
    }

    fn start_tasks(&self, shards: Vec<Dormant>, sinks: Sinks) {
        let stop = || self.background.clone();
        let node = || Arc::clone(&self.node);
        Hub::start(&self.node, shards, &self.tasks, &self.background);
        let (follower, stop_following) = (node(), stop());
        self.tasks.spawn(async move {
            let fallback_poll = follower.options.log.fallback_poll;
            let store = Arc::clone(&follower.store);
            follower.tail.follow(store, fallback_poll, sinks, stop_following).await;
        });
        self.tasks.spawn(sweep(node(), stop()));
        self.tasks.spawn(Dispatcher::run(node(), stop()));
        self.tasks.spawn(Sessions::run(node(), stop()));
        self.tasks.spawn(sessions::watch(node(), stop()));
        self.tasks.spawn(nodes::keep(node(), stop()));
        self.tasks.spawn(memory::keep(node(), stop()));
        self.tasks.spawn(Keeper::watch(node(), stop()));
    }

    /// The address it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Stops accepting, ends live readers with a hint to come back, and lets requests in flight
    /// finish, for at most `grace`.
    pub async fn shutdown(self, grace: Duration) {
        self.accepting.cancel();
        self.node.draining.cancel();
        self.connections.close();
        self.node.hub.tasks.close();
        let gone = async {
            self.connections.wait().await;
            self.node.hub.tasks.wait().await;
        };
        if tokio::time::timeout(grace, gone).await.is_err() {
            let connections = self.connections.len() + self.node.hub.tasks.len();
            tracing::warn!(connections, "closed before they were done");
        }
        nodes::leave(&self.node).await;
        self.background.cancel();
        self.tasks.close();
        if tokio::time::timeout(grace, self.tasks.wait()).await.is_err() {
            tracing::warn!("background tasks did not end in time");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.cancel();
        self.background.cancel();
        self.node.draining.cancel();
    }
}

/// How many shards the hub has: one for each core, unless the options say otherwise.
fn shard_count(options: &Options) -> usize {
    match options.live.shards {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        count => count,
    }
}

/// An address of this machine that stands for all of them, where the server listens on all.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// How long to pause when the system has no file descriptor for a new connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

async fn accept(
    listener: TcpListener,
    node: Arc<Node>,
    stop: CancellationToken,
    connections: TaskTracker,
) {
    let places = Arc::new(Semaphore::new(node.options.limits.connections_max));
    loop {
        // A connection past the limit waits in the kernel's queue until another one ends.
        let place = tokio::select! {
            () = stop.cancelled() => return,
            place = Arc::clone(&places).acquire_owned() => place,
        };
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let Ok(place) = place else { return };
                connections.spawn(serve(stream, Arc::clone(&node), place));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// What a request for a live connection comes over.
#[derive(Debug, Clone)]
pub(crate) struct Carrier {
    pub(crate) line: Arc<Line>,
    /// A place among the connections there may be. A WebSocket takes it along when it leaves HTTP.
    _place: Arc<OwnedSemaphorePermit>,
}

/// Serves one connection until its client, or the server, is done with it, or it becomes a
/// WebSocket.
async fn serve(stream: TcpStream, node: Arc<Node>, place: OwnedSemaphorePermit) {
    // Answers are small and wanted at once.
    let _ = stream.set_nodelay(true);
    let line = match &node.tls {
        None => Line::plain(stream),
        Some(keeper) => match shake_hands(stream, keeper.config()).await {
            Ok(secure) => Line::secure(secure),
            Err(error) => {
                tracing::debug!(%error, "no secure connection came about");
                return;
            }
        },
    };
    let line = Arc::new(line);
    let carrier = Carrier { line: Arc::clone(&line), _place: Arc::new(place) };
    let builder = connection_builder(&node.options.limits);
    let spoken = CancellationToken::new();
    let service = service_fn(|mut request: Request<Incoming>| {
        spoken.cancel();
        if router::is_live(&request) {
            request.extensions_mut().insert(carrier.clone());
        }
        let answer = router::respond(Arc::clone(&node), request.map(Body::new));
        async { Ok::<_, Infallible>(answer.await) }
    });
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(HttpSide(line)), service);
    tokio::pin!(connection);
    node.metrics.connections.inc();
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = silence(&spoken, node.options.limits.header_timeout) => Ok(()),
        () = node.draining.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    node.metrics.connections.dec();
    if let Err(error) = result {
        tracing::debug!(%error, "a connection ended badly");
    }
}

/// Ends when a client has not sent a request in time. The builder's own timeout begins only when it
/// knows which version of HTTP the client speaks, and one that says nothing never tells.
async fn silence(spoken: &CancellationToken, header_timeout: Duration) {
    if tokio::time::timeout(header_timeout, spoken.cancelled()).await.is_ok() {
        std::future::pending::<()>().await;
    }
}

fn connection_builder(limits: &Limits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(limits.header_bytes_max.max(8 << 10))
        .half_close(false);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(limits.header_bytes_max).unwrap_or(u32::MAX))
        .keep_alive_interval(Some(Duration::from_secs(25)))
        .keep_alive_timeout(Duration::from_secs(35));
    builder
}

/// Removes what has expired or was deleted, a piece at a time.
async fn sweep(node: Arc<Node>, stop: CancellationToken) {
    let mut round = tokio::time::interval(node.options.log.sweep_interval);
    round.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = round.tick() => {}
        }
        match node.store.sweep().await {
            Ok(swept) => {
                node.metrics.streams_expired.inc_by(swept.streams_expired as u64);
                node.metrics.events_purged.inc_by(swept.events_purged as u64);
            }
            Err(error) => tracing::warn!(%error, "sweeping failed; trying again next round"),
        }
    }
}
