//! Starting and stopping the server: the listener, its connections, and the tasks beside them. What
//! becomes of one connection is in `connection`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use tidewire_store::SharedStore;

use crate::connection;
use crate::control;
use crate::groups;
use crate::node::Node;
use crate::nodes;
use crate::readiness;
use crate::retention;
use crate::session_requests;
use crate::subscriptions::Dispatcher;
use tidewire_access::options::{Access, Options};
use tidewire_access::start_error::StartError;
use tidewire_hub::kinds::entities::kept::Entities;
use tidewire_hub::kinds::query::engine::{QueryEngineTask, Registry};
use tidewire_hub::row_filter;
use tidewire_hub::{Hub, Unstarted};
use tidewire_wire::connection_slots::{ConnectionSlots, SlotLimits};
use tidewire_wire::tls::Outcome;

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
        let shards = shard_count(&options);
        let assembled = Box::pin(Node::assemble(options, store, public_url, shards));
        let (node, unstarted) = assembled.await?;
        let node = Arc::new(node);
        node.hub.note_rules_without_table();
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
            tracing::warn!(%error, "could not register this node; trying again");
        }
        // Before anyone is let in: what is said from here on is heard.
        let heard = control::begin(&server.node).await?;
        server.tasks.spawn(control::follow(
            Arc::clone(&server.node),
            heard,
            server.background.clone(),
        ));
        server.start_tasks(unstarted);
        server.tasks.spawn(accept(
            listener,
            Arc::clone(&server.node),
            server.accepting.clone(),
            server.connections.clone(),
        ));
        Ok(server)
    }

    fn start_tasks(&self, unstarted: Unstarted) {
        let Unstarted { shards, sinks, query_engine } = unstarted;
        let stop = || self.background.clone();
        let node = || Arc::clone(&self.node);
        let hub = || Arc::clone(&self.node.hub);
        self.node.hub.start(shards, &self.tasks, &self.background);
        self.tasks.spawn(keep_queries(query_engine, hub(), stop(), self.accepting.clone()));
        let (follower, stop_following) = (hub(), stop());
        self.tasks.spawn(async move {
            let fallback_poll = follower.options.log.fallback_poll;
            let store = Arc::clone(&follower.store);
            follower.tail.follow(store, fallback_poll, sinks, stop_following).await;
        });
        let access = || Arc::clone(&self.node.access);
        let (verifying, stop_verifying) = (access(), stop());
        self.tasks.spawn(async move { verifying.credentials.keep(stop_verifying).await });
        let (weighing, stop_weighing) = (access(), stop());
        self.tasks.spawn(async move { weighing.memory.keep(stop_weighing).await });
        let (certified, stop_certifying) = (node(), stop());
        self.tasks.spawn(async move {
            let Some(keeper) = &certified.tls else { return };
            let note = |outcome: Outcome| certified.metrics.certificate(outcome.label());
            keeper.watch(stop_certifying, note).await;
        });
        self.tasks.spawn(sweep(node(), stop()));
        let retention = Arc::clone(&self.node.retention);
        self.tasks.spawn(retention::keep(hub(), retention, stop()));
        self.tasks.spawn(Dispatcher::run(node(), stop()));
        self.tasks.spawn(self.node.sessions.run(stop()));
        self.tasks.spawn(session_requests::watch(node(), stop()));
        self.tasks.spawn(Entities::run(hub(), stop()));
        self.tasks.spawn(Entities::sweep(hub(), stop()));
        self.tasks.spawn(Registry::run(hub(), stop()));
        let groups = Arc::clone(&self.node.groups);
        self.tasks.spawn(groups::keep(groups, stop()));
        self.tasks.spawn(nodes::keep(node(), stop()));
        self.tasks.spawn(row_filter::report::keep(hub(), stop()));
        let (store, readiness) = (Arc::clone(&self.node.store), Arc::clone(&self.node.readiness));
        self.tasks.spawn(readiness::keep(store, readiness, stop()));
    }

    /// Reads again what can change while it runs.
    pub fn reload(&self) {
        self.node.reload();
    }

    /// What its handlers share.
    #[cfg(test)]
    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// The name by which other nodes know it.
    pub fn node_id(&self) -> &str {
        &self.node.hub.id
    }

    /// The address it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Stops accepting, ends live readers with a hint to come back, and lets requests in flight
    /// finish, for at most `grace`.
    pub async fn shutdown(self, grace: Duration) {
        self.accepting.cancel();
        self.node.hub.draining.cancel();
        self.connections.close();
        self.node.hub.tasks.close();
        self.node.groups.tasks.close();
        let gone = async {
            self.connections.wait().await;
            self.node.hub.tasks.wait().await;
            self.node.groups.tasks.wait().await;
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
        self.node.hub.draining.cancel();
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

/// Keeps live queries. Without them clients would wait for what never comes: a server that cannot keep
/// them takes nobody in any more, and sends those who are there elsewhere.
async fn keep_queries(
    query_engine: QueryEngineTask,
    hub: Arc<Hub>,
    stop: CancellationToken,
    accepting: CancellationToken,
) {
    let kept =
        AssertUnwindSafe(query_engine.run(Arc::clone(&hub), stop.clone())).catch_unwind().await;
    if stop.is_cancelled() && kept.is_ok() {
        return;
    }
    tracing::error!("the live query engine panicked; this server drains: restart it");
    accepting.cancel();
    hub.draining.cancel();
}

/// How many connections there may be.
fn slot_limits(options: &Options) -> SlotLimits {
    SlotLimits {
        all_max: options.limits.connections_max,
        per_address_max: match options.access {
            // There is one address, and the developer's tools share it.
            Access::OpenOnLoopback => 0,
            Access::Guarded { .. } => options.limits.connections_per_address_max,
        },
        exempt: options.trusted_proxies.clone(),
    }
}

/// How long to pause when the system has no file descriptor for a new connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

async fn accept(
    listener: TcpListener,
    node: Arc<Node>,
    stop: CancellationToken,
    connections: TaskTracker,
) {
    let slots = ConnectionSlots::new(slot_limits(&node.options));
    loop {
        // A connection past the limit waits in the kernel's queue until another one ends.
        let vacant = tokio::select! {
            () = stop.cancelled() => return,
            vacant = slots.vacant() => vacant,
        };
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => {
                let Ok(vacant) = vacant else { return };
                let address = address.ip().to_canonical();
                match slots.take(vacant, address) {
                    Some(slot) => {
                        let node = Arc::clone(&node);
                        connections.spawn(connection::serve(stream, address, node, slot));
                    }
                    None => node.metrics.refused("connections_per_address"),
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_access::options::Limits;

    #[test]
    fn an_address_has_no_cap_where_developers_share_one() {
        let capped = |access: Access| {
            let limits = Limits { connections_per_address_max: 3, ..Limits::default() };
            slot_limits(&Options { limits, ..Options::new(access) }).per_address_max
        };
        assert_eq!(capped(Access::Guarded { admin_key: None }), 3);
        assert_eq!(capped(Access::OpenOnLoopback), 0);
    }
}
