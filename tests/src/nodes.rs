//! Several servers on one PostgreSQL database: the nodes of one system, each to be killed, stopped
//! and started again where it was.

use tidewire_client::{LiveOptions, ReadFrom};

use crate::follower::Follower;
use crate::http::Http;
use crate::launch::{Launch, Server};
use crate::process::{Ended, Resources};
use crate::store::Store;

/// What clients of these nodes show.
const KEY: &str = "a-key-that-only-these-nodes-know";

/// The nodes. Killed when dropped.
#[derive(Debug)]
pub struct Nodes {
    launches: Vec<Launch>,
    servers: Vec<Option<Server>>,
    https: Vec<Http>,
}

impl Nodes {
    /// Starts `count` nodes of `tidewire serve` with the same settings, one after the other. A setting
    /// that is called `tidewire.toml` is the text of that file; all others are variables.
    pub async fn start(count: usize, store: &Store, settings: &[(&str, &str)]) -> Nodes {
        let mut nodes = Nodes { launches: Vec::new(), servers: Vec::new(), https: Vec::new() };
        for _ in 0..count {
            let launch = Launch::serve(store, KEY);
            let set = |launch: Launch, (name, value): &(&str, &str)| match *name {
                "tidewire.toml" => launch.configured(value),
                name => launch.set(name, value),
            };
            let launch = settings.iter().fold(launch, set);
            let server = launch.start().await;
            nodes.https.push(server.http().clone());
            nodes.launches.push(launch);
            nodes.servers.push(Some(server));
        }
        nodes
    }

    /// Starts as many nodes as the store can have, up to three.
    pub async fn of(store: &Store, settings: &[(&str, &str)]) -> Nodes {
        let count = match store {
            Store::Sqlite { .. } => 1,
            Store::Postgres { .. } => 3,
        };
        Nodes::start(count, store, settings).await
    }

    /// A client of each node, whether it runs or not.
    pub fn https(&self) -> &[Http] {
        &self.https
    }

    /// A client of one node.
    pub fn http(&self, index: usize) -> &Http {
        &self.https[index]
    }

    /// A command of the binary that talks to one node as its administrator.
    pub fn command(&self, index: usize, name: &str) -> Launch {
        let server = self.https[index].base();
        Launch::command(name).set("TIDEWIRE_URL", server).set("TIDEWIRE_TOKEN", KEY)
    }

    /// How a client that begins at one node goes on to the others.
    pub fn from(&self, index: usize) -> LiveOptions {
        let others = self.https.iter().cycle().skip(index + 1).take(self.https.len() - 1);
        let addresses = others.map(|http| http.base().to_owned()).collect();
        LiveOptions { addresses, ..LiveOptions::default() }
    }

    /// Two followers that begin at each node, one of the two with a session, of all these streams
    /// from the start.
    pub async fn followers(&self, streams: &[&str]) -> Vec<Follower> {
        let from: Vec<_> = streams.iter().map(|stream| (*stream, ReadFrom::Start)).collect();
        let mut followers = Vec::new();
        for has_session in [false, true] {
            for (index, http) in self.https.iter().enumerate() {
                let mut options = self.from(index);
                if has_session {
                    options.session = Some(http.open_session().await);
                }
                let follower = Follower::start(&http.client(), options, &from);
                follower.stands(streams.len()).await;
                followers.push(follower);
            }
        }
        followers
    }

    /// What each node that runs has of the system.
    pub fn resources(&self) -> Vec<Resources> {
        self.servers.iter().flatten().map(Server::resources).collect()
    }

    /// Sends a signal to a node by name, such as `STOP`.
    pub fn signal(&mut self, index: usize, name: &str) {
        self.servers[index].as_mut().expect("a node that runs").process().signal(name);
    }

    /// `kill -9`.
    pub fn kill(&mut self, index: usize) {
        self.servers[index].take().expect("a node that runs").kill();
    }

    /// SIGTERM, and waits for the end, which must be a success.
    pub async fn stop(&mut self, index: usize) -> Ended {
        self.servers[index].take().expect("a node that runs").stop().await
    }

    /// Starts a node again, on the same port, and waits until it is ready.
    pub async fn start_again(&mut self, index: usize) {
        self.servers[index] = Some(self.launches[index].start().await);
    }
}
