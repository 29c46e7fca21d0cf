//! A WebSocket's incoming side: one task that reads what the client says and tells the hub.
//!
//! It never writes: everything that is sent goes through the connection's shard, so that it has one
//! order. Between two messages it holds no buffer.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::Response;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto::upgrade::downcast;

use tidewire_hub::messages::AsMessage as _;
use tidewire_store::SessionChange;

use super::greeting::{self, Serving};
use super::message::{self, Message};
use super::subscribe::{SubscribeContext, WantedSubscription};
use crate::authenticate::Admission;
use crate::carrier::{Carrier, connection_id};
use crate::node::Node;
use tidewire_access::auth::connection_permits::ConnectionPermit;
use tidewire_access::auth::{Act, Ended, Identity, audit};
use tidewire_access::budget::{MemoryLease, Purpose};
use tidewire_access::problem::Problem;
use tidewire_hub::directory::{NamedConnection, Registered};
use tidewire_hub::kinds::entities::kept::Entities;
use tidewire_hub::messages::{Pong, ServerMessage as _};
use tidewire_hub::{Command, ConnectionInfo, Handle, Key, Socket, Transport};
use tidewire_wire::clock::clock_ms;
use tidewire_wire::line::{HttpSide, Line};
use tidewire_wire::websocket::reader::{Incoming, Reader};
use tidewire_wire::websocket::{CloseCode, frame, handshake};

/// Read from the socket at once.
const READ_BYTES: usize = 8 << 10;

/// What a connection may keep of a message that is not whole without taking it from the node's budget: what
/// is read at once, and a little.
const UNCOUNTED_BYTES: usize = 2 * READ_BYTES;

/// How long a client that is being closed may take to agree.
const FAREWELL: Duration = Duration::from_secs(2);

/// Answers a request for a WebSocket and serves it.
pub(super) fn upgrade(
    node: &Arc<Node>,
    mut request: Request,
    admission: Admission,
    session: Option<String>,
) -> Result<Response<Body>, Problem> {
    let agreement = handshake::agree(request.headers())?;
    super::make_room(node)?;
    let response = agreement.response();
    let address = crate::authenticate::address(&request);
    let connection_info =
        Arc::new(ConnectionInfo::new(connection_id(), address, request.headers()));
    let carrier = request.extensions_mut().remove::<Carrier>();
    if let Some(carrier) = &carrier {
        carrier.line.upgrade();
    }
    let upgraded = hyper::upgrade::on(request);
    let client = ClientState { admission, session, deflate: agreement.deflate, connection_info };
    let node = Arc::clone(node);
    let tasks = node.hub.tasks.clone();
    tasks.spawn(async move {
        match upgraded.await.map(downcast::<TokioIo<HttpSide>>) {
            Ok(Ok(parts)) => {
                // Copied, because the little that was read would keep all of hyper's buffer.
                let first = parts.read_buf.to_vec();
                drop(parts.read_buf);
                let line = parts.io.into_inner().line;
                serve(node, line, first, client).await;
            }
            Ok(Err(_)) => tracing::warn!("an upgraded connection has no socket"),
            Err(error) => tracing::debug!(%error, "the WebSocket upgrade failed"),
        }
        // The connection had its place until here.
        drop(carrier);
    });
    Ok(response)
}

/// Who has come, as far as is known.
struct ClientState {
    admission: Admission,
    session: Option<String>,
    deflate: bool,
    connection_info: Arc<ConnectionInfo>,
}

async fn serve(node: Arc<Node>, line: Arc<Line>, first: Vec<u8>, client: ClientState) {
    let ClientState { admission, session, deflate, connection_info } = client;
    let identity = admission.identity().ok();
    let socket = Arc::new(Socket::new(line, clock_ms()));
    let tenant = identity.as_ref().map(Identity::tenant).unwrap_or_default();
    let shard =
        node.hub.shards.shard_of(tenant, session.as_deref().unwrap_or(&connection_info.id)).clone();
    let transport = Transport::WebSocket { socket: Arc::clone(&socket), deflate };
    let Ok(presence) = shard.attach(transport, Arc::clone(&connection_info)).await else { return };
    let key = presence.key();
    let reader = Reader::new(deflate, node.options.live.message_bytes_max);
    let mut client = Client {
        connection_info,
        shard,
        key,
        socket,
        reader,
        held: None,
        identity: None,
        place: None,
        registered: None,
        session,
        serving: None,
        node,
    };
    if let Some(identity) = identity {
        client.admit(identity).await;
    }
    client.listen(first).await;
}

/// A client that is connected.
struct Client {
    node: Arc<Node>,
    connection_info: Arc<ConnectionInfo>,
    shard: Handle,
    key: Key,
    socket: Arc<Socket>,
    reader: Reader,
    /// What the reader takes of the node's budget, while that is much.
    held: Option<MemoryLease>,
    /// Known at once, or when it presents its token.
    identity: Option<Identity>,
    place: Option<ConnectionPermit>,
    /// Its entry among the connections of the node, once it is known who it is.
    registered: Option<Registered>,
    /// The session it names.
    session: Option<String>,
    serving: Option<(Arc<str>, Serving)>,
}

impl Client {
    /// Reads until the client is gone, or is to go.
    async fn listen(&mut self, first: Vec<u8>) {
        let deadline = tokio::time::Instant::now() + self.node.options.limits.header_timeout;
        self.reader.take(&first);
        drop(first);
        loop {
            match self.reader.take_next() {
                Ok(None) => {}
                Ok(Some(said)) => {
                    let socket = Arc::clone(&self.socket);
                    tokio::select! {
                        () = socket.paid() => {}
                        () = socket.released.notified() => return self.farewell(false).await,
                    }
                    let agreed = said == Incoming::Close;
                    if !self.hear(said).await {
                        return self.farewell(agreed).await;
                    }
                    // There may be more in what has come already.
                    continue;
                }
                Err(violation) => {
                    self.close(violation.code, violation.why).await;
                    self.reader.forget();
                    return self.farewell(false).await;
                }
            }
            if let Err(problem) = self.hold() {
                self.reader.forget();
                self.turn_away(&problem).await;
                return self.farewell(false).await;
            }
            let socket = Arc::clone(&self.socket);
            tokio::select! {
                ready = socket.stream().readable() => {
                    if ready.is_err() {
                        return;
                    }
                }
                () = socket.released.notified() => return self.farewell(false).await,
                ended = over(self.identity.as_ref()) => {
                    let (key, reason) = (self.key, ended.reason());
                    self.ask(Command::Expire { key, reason }).await;
                    return self.farewell(false).await;
                }
                () = tokio::time::sleep_until(deadline), if self.identity.is_none() => {
                    self.say(unauthorized("no auth message came in time").message(None)).await;
                    self.close(CloseCode::POLICY, "unauthorized").await;
                    return self.farewell(false).await;
                }
            }
            match receive(&socket, &mut self.reader) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return,
                Ok(()) | Err(_) => {}
            }
        }
    }

    /// Holds what the reader keeps of a message that is not whole. Who has not said who they are has too
    /// little to count.
    fn hold(&mut self) -> Result<(), Problem> {
        let bytes = self.reader.held_bytes();
        let Some(identity) = self.identity.as_ref().filter(|_| bytes > UNCOUNTED_BYTES) else {
            self.held = None;
            return Ok(());
        };
        let budget = &self.node.access.budget;
        let open = || budget.open(Purpose::Message, identity.account());
        let held = self.held.get_or_insert_with(open);
        self.node.access.hold(held, bytes)
    }

    /// Waits a little until both have said that this is the end, so that what was sent last reaches
    /// the client: closing a socket with something unread in it would take that back.
    async fn farewell(&mut self, agreed: bool) {
        self.serving = None;
        self.registered = None;
        self.held = None;
        let goodbye = async {
            if agreed {
                return self.socket.released.notified().await;
            }
            loop {
                if self.socket.stream().readable().await.is_err() {
                    return;
                }
                match receive(&self.socket, &mut self.reader) {
                    Err(error) if error.kind() != io::ErrorKind::WouldBlock => return,
                    Ok(()) | Err(_) => {}
                }
                loop {
                    match self.reader.take_next() {
                        Ok(Some(Incoming::Close)) => return,
                        Ok(Some(_)) => {}
                        Ok(None) => break,
                        // Someone who goes on to break rules fills no memory by it.
                        Err(_) => {
                            self.reader.forget();
                            break;
                        }
                    }
                }
            }
        };
        let _ = tokio::time::timeout(FAREWELL, goodbye).await;
    }

    /// Acts on what the client said. Returns whether there can be more.
    async fn hear(&mut self, said: Incoming) -> bool {
        match said {
            Incoming::Pong => true,
            Incoming::Ping(payload) => {
                self.ask(Command::Send { key: self.key, frame: frame::pong(&payload) }).await;
                true
            }
            Incoming::Close => {
                self.close(CloseCode::NORMAL, "").await;
                false
            }
            Incoming::Text(text) => {
                let message = message::parse(&self.node, &text);
                match message {
                    Ok(message) => Box::pin(self.act(message)).await,
                    Err(problem) => {
                        self.say(problem.message(None)).await;
                        true
                    }
                }
            }
        }
    }

    async fn act(&mut self, message: Message) -> bool {
        // A message is a request, and counts as one.
        if let Some(identity) = &self.identity
            && let Err(problem) = self.node.access.rates.identity(identity)
        {
            audit::turned_away(&self.node.access, Some(identity), Act::AsksItself, &problem);
            self.say(problem.message(None)).await;
            return true;
        }
        match message {
            Message::Ping => self.say(Pong {}.text()).await,
            Message::Auth { token } => return self.authenticate(&token).await,
            _ if self.identity.is_none() => {
                self.say(unauthorized("the first message must be auth").message(None)).await;
                self.close(CloseCode::POLICY, "unauthorized").await;
                return false;
            }
            Message::Subscribe(wishes) => {
                if let Some(context) = self.context() {
                    context.subscribe(wishes).await;
                }
            }
            Message::Unsubscribe(query_ids) => self.unsubscribe(query_ids).await,
            Message::SubscribeEntities(wanted) => {
                if let Some(context) = self.context() {
                    context.subscribe(vec![wanted.map(WantedSubscription::Entities)]).await;
                }
            }
            Message::UnsubscribeEntities(farewell) => {
                if let Some(context) = self.context() {
                    context.leave_entities(farewell).await;
                }
            }
            Message::Ack(acks) => self.ask(Command::Acknowledge { key: self.key, acks }).await,
        }
        true
    }

    async fn authenticate(&mut self, token: &str) -> bool {
        if self.identity.is_some() {
            // Saying it again is harmless.
            return true;
        }
        match self.node.authenticate(token, self.connection_info.address).await {
            Ok(identity) => self.admit(identity).await,
            Err(problem) => {
                audit::turned_away(&self.node.access, None, Act::AsksItself, &problem);
                self.say(problem.message(None)).await;
                self.close(CloseCode::POLICY, "unauthorized").await;
                false
            }
        }
    }

    /// Greets one who may come in, and takes up their session.
    async fn admit(&mut self, identity: Identity) -> bool {
        let session = match &self.session {
            None => None,
            Some(session) => match greeting::check(&self.node, session, &identity).await {
                Ok(session) => Some(session),
                Err(problem) => return self.turn_away(&problem).await,
            },
        };
        match self.node.access.place(&identity) {
            Ok(place) => self.place = place,
            Err(problem) => return self.turn_away(&problem).await,
        }
        self.identity = Some(identity.clone());
        self.reader.admit();
        self.connection_info.admit(identity.clone());
        let present = NamedConnection {
            shard: self.shard.clone(),
            key: self.key,
            identity: identity.clone(),
        };
        self.registered = Some(Entities::enter(&self.node.hub, &self.connection_info.id, present));
        self.say(super::hello(&self.node, &self.connection_info.id, session.as_deref())).await;
        self.node.claim_alone(&self.connection_info.id, identity.who()).await;
        if let Some(session) = session {
            let begun = Serving::begin(
                &self.node,
                &self.shard,
                self.key,
                Arc::clone(&session),
                &identity,
                None,
            );
            match begun.await {
                Ok(serving) => self.serving = Some((session, serving)),
                Err(problem) => return self.turn_away(&problem).await,
            }
        }
        true
    }

    /// Says why a session cannot be taken up, and whether it is worth trying again.
    async fn turn_away(&self, problem: &Problem) -> bool {
        self.say(problem.message(None)).await;
        if problem.is_temporary() {
            self.close(CloseCode::TRY_AGAIN, "try again").await;
        } else {
            self.close(CloseCode::POLICY, problem.code()).await;
        }
        false
    }

    fn context(&self) -> Option<SubscribeContext<'_>> {
        let identity = self.identity.as_ref()?;
        let session = self.serving.as_ref().map(|(session, _)| session);
        Some(SubscribeContext {
            node: &self.node,
            shard: &self.shard,
            key: self.key,
            identity,
            session,
        })
    }

    async fn unsubscribe(&mut self, query_ids: Vec<String>) {
        // The connection first: what the store's change then signals is done already.
        let ended = query_ids.clone();
        self.ask(Command::Unsubscribe { key: self.key, query_ids }).await;
        let Some((session, _)) = &self.serving else { return };
        let known = match self.node.sessions.load(session).await {
            Ok(known) => known,
            Err(problem) => return self.say(problem.message(None)).await,
        };
        for subscription in known.subscriptions.into_iter().filter(|s| ended.contains(&s.query_id))
        {
            let (session, stream) = (session.to_string(), subscription.stream);
            let change = SessionChange::Unsubscribe { session, stream };
            if let Err(problem) = self.node.sessions.change(change).await {
                self.say(problem.message(Some(&subscription.query_id))).await;
            }
        }
    }

    async fn ask(&self, command: Command) {
        self.shard.ask(command).await;
    }

    async fn say(&self, message: String) {
        self.ask(Command::Say { key: self.key, message }).await;
    }

    async fn close(&self, code: CloseCode, reason: &'static str) {
        self.ask(Command::Close { key: self.key, code, reason }).await;
    }
}

/// Reads what is there. Fails when the client is gone.
fn receive(socket: &Socket, reader: &mut Reader) -> io::Result<()> {
    let mut buffer = [0; READ_BYTES];
    match socket.stream().try_read(&mut buffer)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        count => {
            socket.heard_ms.store(clock_ms(), Ordering::Relaxed);
            reader.take(&buffer[..count]);
            Ok(())
        }
    }
}

/// Waits until a client's credential holds no longer.
async fn over(identity: Option<&Identity>) -> Ended {
    match identity {
        Some(identity) => identity.validity().over().await,
        None => std::future::pending().await,
    }
}

fn unauthorized(detail: &str) -> Problem {
    tidewire_access::auth::unauthorized(detail)
}
