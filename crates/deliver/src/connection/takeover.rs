//! What taking a socket from hyper in mid-response relies upon, held against the hyper that is built in:
//! once it has a response's head it asks for the body, writes the head, flushes, and then writes nothing
//! until the body ends, whatever else happens to the connection. And what becomes of a connection with
//! which it does not get that far.

use std::fmt::Debug;
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::{Mutex, mpsc};
use std::task::Poll;
use std::thread::JoinHandle;

use futures_util::stream;
use hyper::Response;
use hyper::service::Service;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{Notify, oneshot};

use super::*;
use crate::testing::{ADMIN_KEY, Bench};
use tidewire_fixtures::tls::configs;
use tidewire_wire::connection_slots::{ConnectionSlots, SlotLimits};
use tidewire_wire::line::TakenOverBody;

/// How long a client waits for bytes; waited out only by a failing test.
const PATIENCE: Duration = Duration::from_secs(60);

const HUBS_CHUNK: &[u8] = b"6\r\nevent\n\r\n";
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

const LIVE: &str = "GET /live HTTP/1.1\r\nhost: a\r\n\r\n";

/// What clients send at first, and what in mid-response.
const CLIENTS: &[(&str, &str)] = &[
    (LIVE, "GET /next HTTP/1.1\r\nhost: a\r\n\r\n"),
    (LIVE, "this is not HTTP\r\n\r\n"),
    ("GET /live HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\n", "body"),
    ("GET /live HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\r\n", "body"),
];

#[derive(Debug, Clone, Copy, PartialEq)]
enum TestTransport {
    Plain,
    Tls,
}

/// A client in a thread of its own. It sends what it is given, and when it is given nothing more it reads
/// to the end.
struct Client {
    sends: mpsc::Sender<&'static str>,
    thread: JoinHandle<Vec<u8>>,
}

impl Client {
    fn say(&self, text: &'static str) {
        self.sends.send(text).expect("it listens");
    }

    /// All that it was sent, once it has been told everything.
    async fn received(self) -> String {
        drop(self.sends);
        let thread = self.thread;
        let ended = tokio::task::spawn_blocking(|| thread.join()).await.expect("a thread");
        String::from_utf8(ended.expect("a client")).expect("text")
    }
}

fn converse(mut wire: impl Read + Write, told: &mpsc::Receiver<&str>) -> io::Result<Vec<u8>> {
    // With TLS this shakes hands.
    wire.flush()?;
    for text in told {
        wire.write_all(text.as_bytes())?;
        wire.flush()?;
    }
    let mut received = Vec::new();
    wire.read_to_end(&mut received)?;
    Ok(received)
}

/// A connection, of which the server has the line.
async fn connect(over: TestTransport) -> (Arc<Line>, Client) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (at_server, at_client) = configs();
    let (sends, told) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let socket = std::net::TcpStream::connect(address).expect("a connection");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let received = match over {
            TestTransport::Plain => converse(socket, &told),
            TestTransport::Tls => {
                let name = ServerName::try_from("localhost").expect("a name");
                let tls = ClientConnection::new(at_client, name).expect("a client");
                converse(StreamOwned::new(tls, socket), &told)
            }
        };
        received.expect("all, and an end")
    });
    let (stream, _) = listener.accept().await.expect("a connection");
    let line = match over {
        TestTransport::Plain => Line::plain(stream),
        TestTransport::Tls => {
            Line::secure(shake_hands(stream, at_server).await.expect("a handshake"))
        }
    };
    (Arc::new(line), Client { sends, thread })
}

type Answer = std::future::Ready<Result<Response<Body>, Infallible>>;

/// Answers the one request there is with this body.
fn answer(
    body: Body,
) -> impl Service<Request<Incoming>, Response = Response<Body>, Error = Infallible, Future = Answer>
{
    let body = Mutex::new(Some(body));
    service_fn(move |_| {
        let body = body.lock().expect("nobody panicked").take().expect("one request only");
        std::future::ready(Ok(Response::new(body)))
    })
}

/// Lets hyper do what there is for it to do. The connection goes on.
async fn goes_on(mut connection: Pin<&mut impl Future<Output: Debug>>) {
    std::future::poll_fn(|cx| match connection.as_mut().poll(cx) {
        Poll::Pending => Poll::Ready(()),
        Poll::Ready(ended) => panic!("the connection is over: {ended:?}"),
    })
    .await;
}

/// The hub writes in the middle of hyper's response, and nobody else does.
async fn takes_over(over: TestTransport, first: &'static str, later: &'static str) {
    let (line, client) = connect(over).await;
    let (writer, body) = oneshot::channel();
    let service = answer(Body::from_stream(TakenOverBody::new(Arc::clone(&line), body)));
    let builder = connection_builder(&Limits::default(), &line);
    let io = TokioIo::new(HttpSide::new(Arc::clone(&line), b""));
    let mut connection = Box::pin(builder.serve_connection_with_upgrades(io, service));

    client.say(first);
    tokio::select! {
        ended = connection.as_mut() => panic!("the connection is over: {ended:?}"),
        in_time = line.cleared() => assert!(in_time, "hyper asks for the body, and flushes"),
    }
    // Whatever happens between the head and the takeover, hyper has nothing to write.
    client.say(later);
    line.readable().await.expect("it has arrived");
    goes_on(connection.as_mut()).await;
    connection.as_mut().graceful_shutdown();
    goes_on(connection.as_mut()).await;
    tokio::time::pause();
    tokio::time::advance(Limits::default().idle_timeout * 2).await;
    goes_on(connection.as_mut()).await;
    tokio::time::resume();
    assert_eq!(line.try_write(HUBS_CHUNK).expect("room for it"), HUBS_CHUNK.len());
    goes_on(connection.as_mut()).await;

    assert!(line.take());
    line.taken().await;
    drop((connection, writer));
    line.forget_reader();
    line.finish(LAST_CHUNK).await.expect("room for it");
    let received = client.received().await;
    line.hung_up().await;
    let (head, body) = received.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("transfer-encoding: chunked"), "{head}");
    assert_eq!(body.as_bytes(), [HUBS_CHUNK, LAST_CHUNK].concat(), "{over:?}, {later:?}");
}

#[tokio::test]
async fn from_its_flush_to_the_end_of_the_body_hyper_writes_nothing() {
    for (first, later) in CLIENTS {
        takes_over(TestTransport::Plain, first, later).await;
    }
}

#[tokio::test]
async fn with_tls_too_hyper_writes_nothing_from_its_flush_to_the_end_of_the_body() {
    for (first, later) in CLIENTS {
        takes_over(TestTransport::Tls, first, later).await;
    }
}

#[tokio::test]
async fn a_line_of_which_hyper_does_not_ask_for_the_body_is_closed_in_time() {
    let (line, client) = connect(TestTransport::Plain).await;
    // Asked for, but the line is not told.
    let asked = Arc::new(Notify::new());
    let asks = Arc::clone(&asked);
    let never = stream::poll_fn(move |_| {
        asks.notify_one();
        Poll::<Option<Result<Vec<u8>, Infallible>>>::Pending
    });
    let service = answer(Body::from_stream(never));
    let builder = connection_builder(&Limits::default(), &line);
    let io = TokioIo::new(HttpSide::new(Arc::clone(&line), b""));
    let mut connection = Box::pin(builder.serve_connection_with_upgrades(io, service));
    client.say(LIVE);
    tokio::select! {
        ended = connection.as_mut() => panic!("the connection is over: {ended:?}"),
        () = asked.notified() => goes_on(connection.as_mut()).await,
    }
    tokio::time::pause();
    tokio::select! {
        ended = connection.as_mut() => panic!("the connection is over: {ended:?}"),
        in_time = line.cleared() => assert!(!in_time),
    }
    line.taken().await;
    drop(connection);
    // The builder knows the line, too.
    drop((builder, line));
    let received = client.received().await;
    assert!(received.ends_with("\r\n\r\n"), "a head, and then the end: {received}");
}

#[tokio::test(start_paused = true)]
async fn a_line_that_hyper_does_not_flush_is_nobodys_any_more() {
    let (line, _client) = connect(TestTransport::Plain).await;
    line.asked();
    assert!(!line.cleared().await);
    line.give_back();
    assert!(!line.is_hypers());
    assert!(!line.take());
    line.taken().await;
}

/// Small, so that a socket is soon full.
const BUFFER_BYTES: u32 = 2 << 10;

/// For how long a socket that is full takes nothing.
const SETTLED: Duration = Duration::from_millis(200);

/// A connection with room for little, and its client.
async fn cramped() -> (TcpStream, TcpStream) {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_send_buffer_size(BUFFER_BYTES).expect("a small buffer");
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a port");
    let listener = socket.listen(1).expect("a listener");
    let client = TcpSocket::new_v4().expect("a socket");
    client.set_recv_buffer_size(BUFFER_BYTES).expect("a small buffer");
    let address = listener.local_addr().expect("an address");
    let client = client.connect(address).await.expect("a connection");
    (listener.accept().await.expect("a connection").0, client)
}

/// A client that leaves what it was sent lying has a response's head wait behind it.
#[tokio::test]
async fn a_live_response_whose_head_is_not_taken_is_closed_and_counted() {
    let bench = tokio::task::spawn_blocking(Bench::start).await.expect("a node");
    let node = Arc::clone(bench.node());
    let stream = format!("http://{}/v1/stream/news", bench.address());
    let made = reqwest::Client::new().put(stream).bearer_auth(ADMIN_KEY).send().await;
    made.and_then(reqwest::Response::error_for_status).expect("a stream");

    let (stream, mut client) = cramped().await;
    let from = stream.peer_addr().expect("an address");
    // Full is what still takes nothing once the system has passed on what it could.
    while tokio::time::timeout(SETTLED, stream.writable()).await.is_ok() {
        while stream.try_write(&[0; 1 << 10]).is_ok() {}
    }
    let limits = SlotLimits { all_max: 1, per_address_max: 0, exempt: Vec::new() };
    let slots = ConnectionSlots::new(limits);
    let vacant = slots.vacant().await.expect("a place");
    let slot = slots.take(vacant, from.ip()).expect("a place");
    let request = format!(
        "GET /v1/stream/news?offset=-1&live=sse HTTP/1.1\r\n\
         host: a\r\nauthorization: Bearer {ADMIN_KEY}\r\n\r\n"
    );
    client.write_all(request.as_bytes()).await.expect("it listens");
    stream.readable().await.expect("it has arrived");
    // Nothing is left to happen but that the time is up.
    tokio::time::pause();
    serve(stream, from.ip(), Arc::clone(&node), slot).await;
    let counted = "tidewire_connections_cut_total{reason=\"response_head\"} 1";
    let metrics = crate::scrape::render(&node);
    assert!(metrics.lines().any(|line| line == counted), "{metrics}");
    drop(client);
    tokio::task::spawn_blocking(move || drop((node, bench))).await.expect("an end");
}
