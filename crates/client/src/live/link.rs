//! The connection and its reconnects: one address after the other, with waits in between.
//!
//! Attempts in progress are kept here and not in the caller's future: a caller who drops that future every few
//! milliseconds is connected all the same.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::time::{Instant, Sleep, sleep};

use super::handshake::Handshake;
use super::options::LiveOptions;
use super::socket::{Socket, SocketClosed};
use crate::backoff::Backoff;
use crate::client::Client;
use crate::error::{ClientError, Problem};

/// A server that asks for a longer pause than this is asked again all the same.
const ASKED_WAIT_MAX: Duration = Duration::from_secs(60);

/// A connection that lived this long did not end because the server is ill.
const HEALTHY_AFTER: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Link {
    /// The nodes; the connection is to the one at `at`.
    nodes: Vec<Client>,
    at: usize,
    handshake: Handshake,
    backoff: Backoff,
    stage: LinkState,
    /// Why the server goes away, and after which time to come back.
    closing: Option<(String, Duration)>,
    /// What the server said of the connection itself.
    problem: Option<Problem>,
}

enum LinkState {
    Waiting(Pin<Box<Sleep>>),
    Connecting(BoxFuture<'static, Result<Socket, ClientError>>),
    Up { socket: Box<Socket>, since: Instant },
}

/// What happened to the connection.
#[derive(Debug)]
pub(super) enum LinkEvent {
    Up,
    Message(Bytes),
    /// It is gone, or could not be made. Another attempt is made after the wait.
    Down {
        error: ClientError,
        retry_in: Duration,
    },
    /// Another attempt would end the same way.
    Refused(ClientError),
}

impl Link {
    pub(super) fn new(client: &Client, options: LiveOptions) -> Result<Link, ClientError> {
        let LiveOptions { session, addresses, compression, silence_max, backoff } = options;
        let mut nodes = vec![client.clone()];
        for address in &addresses {
            nodes.push(client.at(address)?);
        }
        let handshake = Handshake { session, compression, silence_max };
        let stage = connecting(&handshake, client);
        Ok(Link { nodes, at: 0, handshake, backoff, stage, closing: None, problem: None })
    }

    /// Waits for the next thing to happen. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> LinkEvent {
        loop {
            match &mut self.stage {
                LinkState::Waiting(wait) => {
                    wait.as_mut().await;
                    self.stage = connecting(&self.handshake, &self.nodes[self.at]);
                }
                LinkState::Connecting(attempt) => match attempt.as_mut().await {
                    Ok(socket) => {
                        let since = Instant::now();
                        self.problem = None;
                        self.stage = LinkState::Up { socket: Box::new(socket), since };
                        return LinkEvent::Up;
                    }
                    Err(error) => return self.down(error),
                },
                LinkState::Up { socket, .. } => match socket.receive().await {
                    Ok(message) => return LinkEvent::Message(message),
                    Err(end) => {
                        let error =
                            if end.refused { self.refused(end) } else { self.lost(end.why) };
                        return self.down(error);
                    }
                },
            }
        }
    }

    pub(super) fn socket(&mut self) -> Option<&mut Socket> {
        match &mut self.stage {
            LinkState::Up { socket, .. } => Some(socket),
            _ => None,
        }
    }

    pub(super) fn into_socket(self) -> Option<Socket> {
        match self.stage {
            LinkState::Up { socket, .. } => Some(*socket),
            _ => None,
        }
    }

    /// The node the connection is to.
    pub(super) fn node(&self) -> &Client {
        &self.nodes[self.at]
    }

    /// All of them, beginning with that one.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Client> {
        self.nodes.iter().cycle().skip(self.at).take(self.nodes.len())
    }

    pub(super) fn session(&self) -> Option<&str> {
        self.handshake.session.as_deref()
    }

    /// Something was delivered: the next wait is short again.
    pub(super) fn delivers(&mut self) {
        self.backoff.reset();
    }

    /// The server said that it goes away.
    pub(super) fn closing(&mut self, reason: String, reconnect_in: Duration) {
        self.closing = Some((reason, reconnect_in));
    }

    /// The server said what it has against the connection. It closes it if it does not want it.
    pub(super) fn problem(&mut self, problem: &Problem) {
        self.problem = Some(problem.clone());
    }

    /// As the same refusal is said over HTTP, where a client that sends its token in a header gets
    /// most of them.
    fn refused(&mut self, end: SocketClosed) -> ClientError {
        let said = || Problem { detail: Some(end.why), ..Problem::default() };
        let problem = self.problem.take().unwrap_or_else(said);
        let status = match problem.code.as_deref() {
            Some("unauthorized") => 401,
            Some("session_not_found") => 404,
            _ => 403,
        };
        ClientError::Refused { status, problem: Box::new(problem), retry_after: None }
    }

    pub(super) fn lost(&self, why: String) -> ClientError {
        ClientError::Lost { url: self.node().address().to_string(), why }
    }

    /// The connection could not be made or kept: on to the next node, after a wait.
    fn down(&mut self, error: ClientError) -> LinkEvent {
        if matches!(&self.stage, LinkState::Up { since, .. } if since.elapsed() >= HEALTHY_AFTER) {
            self.backoff.reset();
        }
        let (error, wait) = match self.closing.take() {
            // The server spreads its clients itself.
            Some((reason, reconnect_in)) => {
                self.backoff.reset();
                let error = self.lost(format!("the server closes the connection ({reason})"));
                (error, reconnect_in.min(ASKED_WAIT_MAX))
            }
            None => {
                let wait = self.backoff.next_wait(&mut rand::rng());
                let asked = asked_wait(&error).filter(|_| self.nodes.len() == 1);
                (error, wait.max(asked.unwrap_or_default().min(ASKED_WAIT_MAX)))
            }
        };
        self.at = (self.at + 1) % self.nodes.len();
        self.stage = LinkState::Waiting(Box::pin(sleep(wait)));
        if error.temporary() {
            LinkEvent::Down { error, retry_in: wait }
        } else {
            LinkEvent::Refused(error)
        }
    }
}

/// How long this node wants to be left alone. Others may be asked sooner.
fn asked_wait(error: &ClientError) -> Option<Duration> {
    match error {
        ClientError::Refused { retry_after, .. } => *retry_after,
        _ => None,
    }
}

fn connecting(handshake: &Handshake, node: &Client) -> LinkState {
    LinkState::Connecting(Box::pin(handshake.clone().open(node.clone())))
}

impl fmt::Debug for LinkState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LinkState::Waiting(_) => "Waiting",
            LinkState::Connecting(_) => "Connecting",
            LinkState::Up { .. } => "Up",
        })
    }
}
