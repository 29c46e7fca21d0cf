//! One connection, from the moment it is accepted: TLS, if there is any; then HTTP, until its client or
//! the server is done with it, it does nothing for too long, or it becomes the hub's: a WebSocket, or a
//! response that stays open.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Version};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpStream;

use crate::bad_request;
use crate::carrier::{Carrier, Open};
use crate::node::Node;
use crate::router;
use tidewire_access::options::Limits;
use tidewire_wire::connection_slots::ConnectionSlot;
use tidewire_wire::idle::{HeadTimer, Overdue, Requests, Timeouts};
use tidewire_wire::line::{HttpSide, Line};
use tidewire_wire::peer::Peer;
use tidewire_wire::tls::{Failed, shake_hands};

/// Requests that an HTTP/2 client may have under way at once: those of all tabs of a browser, each with
/// a few live responses.
const HTTP2_STREAMS_MAX: u32 = 200;

/// Requests that were taken back before the server got to them. A client that takes back more at once
/// means to keep the server busy ("rapid reset") and is sent away.
const HTTP2_RESETS_MAX: usize = 20;

/// Requests that the server had to break off because they were not HTTP/2. A client that sends more
/// is sent away.
const HTTP2_ERRORS_MAX: usize = 100;

/// Bytes of one response that wait for an HTTP/2 client's window. Of a large page the rest waits where
/// it is shared.
const HTTP2_SEND_BYTES_MAX: usize = 64 << 10;

/// An HTTP/2 client is asked whether it is there. What has live responses over HTTP/1.1 is asked by
/// writing to it.
const HTTP2_PING: Duration = Duration::from_secs(25);
/// How long it may take to say so.
const HTTP2_PONG: Duration = Duration::from_secs(35);

/// What a client may have sent of one request's body, and of all of a connection's, before the server has
/// looked at it: what HTTP/2 itself begins with, and no more than can be on its way at once. Nobody's body is
/// read before their credential is found good, so this is what someone without one can have kept, and only
/// for as long as that is looked up.
const HTTP2_STREAM_WINDOW_BYTES: u32 = 64 << 10;
const HTTP2_CONNECTION_WINDOW_BYTES: u32 = 128 << 10;

/// How long a client whose connection is over may take to hang up.
const LINGER: Duration = Duration::from_secs(2);

/// Serves one connection. `connected` is at its other end, which may be a proxy.
pub(crate) async fn serve(
    stream: TcpStream,
    connected: IpAddr,
    node: Arc<Node>,
    slot: ConnectionSlot,
) {
    let open = Open::count(&node.metrics.connections);
    // Answers are small and wanted at once.
    let _ = stream.set_nodelay(true);
    let Some(line) = establish(stream, &node).await else { return };
    let line = Arc::new(line);
    let carrier = Carrier::new(Arc::clone(&line), slot, open);
    let requests = Arc::new(Requests::default());
    let service = service_fn(|mut request: Request<Incoming>| {
        let (proxies, is_secure) = (&node.options.trusted_proxies, node.tls.is_some());
        let peer = Peer::of(connected, is_secure, proxies, request.headers());
        tracing::trace!(client = %peer.address, method = %request.method(), "a request");
        request.extensions_mut().insert(peer);
        if router::is_live(&request) {
            request.extensions_mut().insert(carrier.clone());
        }
        let underway = match request.version() {
            Version::HTTP_2 => Some(Requests::begin(&requests)),
            _ => {
                requests.note();
                None
            }
        };
        let answer = router::respond(Arc::clone(&node), request.map(Body::new));
        async {
            let response = answer.await;
            Ok::<_, Infallible>(match underway {
                Some(underway) => response.map(|body| underway.attend(body)),
                None => response,
            })
        }
    });
    let limits = &node.options.limits;
    let timeouts = Timeouts { header: limits.header_timeout, idle: limits.idle_timeout };
    let builder = connection_builder(limits, &line);
    let http = HttpSide::new(Arc::clone(&line), bad_request::answer());
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(http), service);
    tokio::pin!(connection);
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = line.taken() => return line.forget_reader(),
        overdue = requests.overdue(&line, timeouts) => {
            node.metrics.cut(overdue.label());
            if overdue != Overdue::Idle {
                return;
            }
            // A request may be on its way: it is told to go elsewhere, or answered still.
            connection.as_mut().graceful_shutdown();
            let farewell = tokio::time::timeout(limits.header_timeout, connection);
            farewell.await.unwrap_or(Ok(()))
        }
        () = node.hub.draining.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = &result {
        if error.downcast_ref().is_some_and(hyper::Error::is_timeout) {
            let overdue = if line.has_stirred() { Overdue::Header } else { Overdue::Idle };
            node.metrics.cut(overdue.label());
        }
        tracing::debug!(%error, "a connection ended with an error");
    }
    if result.is_ok() && line.is_hypers() && !requests.is_http2() {
        linger(&line, &node).await;
    }
}

/// Waits a little until the client has hung up. A socket that is closed with something unread in it takes
/// back what was written last, and a client that is sending a body would not learn why it was refused.
/// What it sends until then is kept nowhere.
async fn linger(line: &Line, node: &Node) {
    tokio::select! {
        () = node.hub.draining.cancelled() => {}
        _ = tokio::time::timeout(LINGER, line.hung_up()) => {}
    }
}

/// The line that HTTP is spoken over. None if it does not come about in time.
async fn establish(stream: TcpStream, node: &Node) -> Option<Line> {
    let Some(keeper) = &node.tls else { return Some(Line::plain(stream)) };
    let handshake = shake_hands(stream, keeper.config());
    let limit = node.options.limits.tls_handshake_timeout;
    let reason = tokio::select! {
        () = node.hub.draining.cancelled() => return None,
        secured = tokio::time::timeout(limit, handshake) => match secured {
            Ok(Ok(secure)) => return Some(Line::secure(secure)),
            Ok(Err(failed)) => {
                tracing::debug!(%failed, "the TLS handshake failed");
                match failed {
                    Failed::NotTls => "not_tls",
                    Failed::Refused(_) => "tls_handshake",
                    // Whoever only looks whether the port is open was refused nothing.
                    Failed::Lost(_) => return None,
                }
            }
            Err(_) => "tls_handshake_timeout",
        },
    };
    node.metrics.refused(reason);
    None
}

fn connection_builder(limits: &Limits, line: &Arc<Line>) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    let (line, header_timeout) = (Arc::clone(line), limits.header_timeout);
    builder
        .http1()
        .timer(HeadTimer { line, header_timeout })
        .header_read_timeout(limits.idle_timeout)
        .max_buf_size(limits.header_bytes_max.max(8 << 10))
        .half_close(false);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(limits.header_bytes_max).unwrap_or(u32::MAX))
        .max_concurrent_streams(HTTP2_STREAMS_MAX)
        .initial_stream_window_size(HTTP2_STREAM_WINDOW_BYTES)
        .initial_connection_window_size(HTTP2_CONNECTION_WINDOW_BYTES)
        .max_pending_accept_reset_streams(HTTP2_RESETS_MAX)
        .max_local_error_reset_streams(HTTP2_ERRORS_MAX)
        .max_send_buf_size(HTTP2_SEND_BYTES_MAX)
        .keep_alive_interval(Some(HTTP2_PING))
        .keep_alive_timeout(HTTP2_PONG);
    builder
}

#[cfg(test)]
mod takeover;

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::testing::Bench;

    const SETTINGS: u8 = 4;
    const INITIAL_WINDOW_SIZE: u16 = 4;
    const WINDOW_UPDATE: u8 = 8;
    /// What HTTP/2 begins with, if nobody says otherwise.
    const USUAL_WINDOW_BYTES: u32 = (64 << 10) - 1;

    /// How long the server may take to say something; waited out only by a failing test.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// The kind of the next frame, and what is in it.
    async fn frame(stream: &mut TcpStream) -> (u8, Vec<u8>) {
        let [a, b, c, kind, ..] = {
            let mut head = [0; 9];
            let heard = tokio::time::timeout(PATIENCE, stream.read_exact(&mut head)).await;
            heard.expect("in time").expect("a frame");
            head
        };
        let mut content = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        stream.read_exact(&mut content).await.expect("what is in it");
        (kind, content)
    }

    fn number(bytes: &[u8]) -> u32 {
        u32::from_be_bytes(bytes.try_into().expect("four bytes"))
    }

    /// How much a client may send before anyone has looked at it stands in the server's first words: of one
    /// request, and of all of a connection together.
    #[test]
    fn what_a_client_of_http2_may_send_unasked_is_little() {
        let bench = Bench::start();
        let (of_request, of_connection) = bench.wait(async {
            let mut stream = TcpStream::connect(bench.address()).await.expect("a connection");
            let hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
            stream.write_all(hello).await.expect("it listens");
            let (kind, settings) = frame(&mut stream).await;
            assert_eq!(kind, SETTINGS);
            let mut settings = settings.chunks_exact(6);
            let window = settings.find(|it| it[..2] == INITIAL_WINDOW_SIZE.to_be_bytes());
            let of_request = window.map_or(USUAL_WINDOW_BYTES, |it| number(&it[2..]));
            // What it says of the whole connection comes in a frame of its own.
            loop {
                let (kind, content) = frame(&mut stream).await;
                if kind == WINDOW_UPDATE {
                    break (of_request, USUAL_WINDOW_BYTES + number(&content));
                }
            }
        });
        assert_eq!(of_request, HTTP2_STREAM_WINDOW_BYTES);
        assert_eq!(of_connection, HTTP2_CONNECTION_WINDOW_BYTES);
        assert!(of_connection <= 128 << 10, "{of_connection} bytes of one who has shown nothing");
    }
}
