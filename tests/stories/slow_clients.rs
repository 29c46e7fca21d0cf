//! Clients that take their time with everything, to keep what they hold: a handshake, a request's head,
//! its body, a connection over which nothing is asked.

use std::time::Duration;

use tidewire_stories::http2::dripping;
use tidewire_stories::wait::within_patience;
use tidewire_stories::{Authority, Files, Http2, Launch, Metrics, Raw, Server, Store, eventually};

/// The pace at which bytes drip; whatever it is, the server must put an end to it.
const DRIP: Duration = Duration::from_millis(50);

/// What HTTP/2 begins with (RFC 9113, section 3.4), and a client's settings, which are none.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

const REQUEST: &str = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// Little patience, but for connections that rest.
fn impatient(store: &Store) -> Launch {
    Launch::dev(store)
        .set("TIDEWIRE_LIMITS_TLS_HANDSHAKE_TIMEOUT_MS", "500")
        .set("TIDEWIRE_LIMITS_HEADER_TIMEOUT_MS", "500")
        .set("TIDEWIRE_LIMITS_BODY_TIMEOUT_MS", "500")
}

/// Sends a byte now and then, until the server takes no more.
async fn drips_until_cut_off(client: &mut Raw, bytes: &[u8], what: &str) {
    let mut drops = bytes.iter().cycle();
    eventually(&format!("the server cuts off {what}"), async || {
        let drop = *drops.next().expect("bytes without end");
        let cut_off = !client.send([drop]).await;
        tokio::time::sleep(DRIP).await;
        cut_off.then_some(())
    })
    .await;
}

async fn counts(server: &Server, sample: &str, value: f64) {
    let http = server.http();
    eventually(&format!("{sample} is {value}"), async || {
        (Metrics::read(http).await.all(sample) == [value]).then_some(())
    })
    .await;
}

/// Whoever does not get on with TLS is cut off, whether it says something or nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_handshake_that_drips_or_never_begins_is_cut_off() {
    let (store, authority) = (Store::sqlite(), Authority::new());
    let files = Files::new(&authority.issue());
    let launch = impatient(&store).secured(&files, &authority);
    let server = launch.start().await;
    let mut silent = Raw::connect(launch.port()).await;
    silent.hung_up("the connection of one who says nothing").await;
    let mut dripping = Raw::connect(launch.port()).await;
    // The header of a record with a long ClientHello, which then comes byte by byte.
    dripping.send(b"\x16\x03\x01\x20\x00\x01\x00\x1f\xfc\x03\x03").await;
    drips_until_cut_off(&mut dripping, b"\0", "a handshake").await;
    counts(&server, "connections_refused_total{reason=\"tls_handshake_timeout\"}", 2.0).await;
}

/// After the handshake the same holds for the request.
#[tokio::test(flavor = "multi_thread")]
async fn an_encrypted_head_that_drips_is_cut_off() {
    let (store, authority) = (Store::sqlite(), Authority::new());
    let files = Files::new(&authority.issue());
    let launch = impatient(&store).secured(&files, &authority);
    let server = launch.start().await;
    let mut client = Raw::connect_secure(launch.port(), &authority).await;
    client.send("GET /healthz HTTP/1.1\r\n").await;
    drips_until_cut_off(&mut client, b"x-drip: 1\r\n", "a head").await;
    let mut silent = Raw::connect_secure(launch.port(), &authority).await;
    silent.hung_up("the connection of one who asks nothing").await;
    counts(&server, "connections_cut_total{reason=\"header_timeout\"}", 2.0).await;
}

/// A connection that has made a request has no licence to take its time with the second.
#[tokio::test(flavor = "multi_thread")]
async fn the_second_head_that_drips_is_cut_off_too() {
    let store = Store::sqlite();
    let launch = impatient(&store);
    let server = launch.start().await;
    let mut client = Raw::connect(launch.port()).await;
    client.send(REQUEST).await;
    client.hears("alive").await;
    client.send("GET /heal").await;
    drips_until_cut_off(&mut client, b"thz", "the second head").await;
    counts(&server, "connections_cut_total{reason=\"header_timeout\"}", 1.0).await;
}

/// Between two requests a connection may rest for longer than a head may take.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_may_rest_between_two_requests() {
    let store = Store::sqlite();
    let launch = impatient(&store);
    let _server = launch.start().await;
    let mut client = Raw::connect(launch.port()).await;
    client.send(REQUEST).await;
    client.hears("alive").await;
    // When one who came after is cut off, more time has passed than a head may take.
    let mut silent = Raw::connect(launch.port()).await;
    silent.hung_up("the connection of one who says nothing").await;
    assert!(client.send(REQUEST).await, "it is open");
    let heard = client.hears_times("alive", 2).await;
    assert_eq!(heard.matches("HTTP/1.1 200").count(), 2, "{heard}");
}

/// But not for ever, over either version of HTTP.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_rests_for_too_long_is_closed() {
    let store = Store::sqlite();
    let launch = impatient(&store).set("TIDEWIRE_LIMITS_IDLE_TIMEOUT_MS", "600");
    let server = launch.start().await;
    let mut client = Raw::connect(launch.port()).await;
    client.send(REQUEST).await;
    client.hung_up("a connection over which nothing more is asked").await;
    let mut http2 = Http2::connect(server.http()).await;
    http2.ask("GET", "/healthz", "", 200).await;
    http2.hung_up().await;
    let cut = Metrics::read(server.http()).await.all("connections_cut_total{reason=\"idle_timeout");
    // The one that asked for the metrics may have rested too.
    assert!(cut[0] >= 2.0, "{cut:?}");
}

/// Waiting for an answer is no rest.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_for_an_answer_does_not_rest() {
    let store = Store::sqlite();
    let launch = impatient(&store)
        .set("TIDEWIRE_LIMITS_IDLE_TIMEOUT_MS", "200")
        .set("TIDEWIRE_STREAMS_LONG_POLL_MS", "2000");
    let server = launch.start().await;
    server.http().create("doc").await;
    let path = "/v1/stream/doc?offset=now&live=long-poll";
    let mut http2 = Http2::connect(server.http()).await;
    http2.ask("GET", path, "", 204).await;
    let mut client = Raw::connect(launch.port()).await;
    client.send(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")).await;
    client.hears("HTTP/1.1 204").await;
}

/// An answer that is not read is not kept for ever.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_takes_nothing_of_an_answer_is_cut_off() {
    let store = Store::sqlite();
    let launch = impatient(&store).set("TIDEWIRE_LIMITS_IDLE_TIMEOUT_MS", "600");
    let server = launch.start().await;
    let http = server.http();
    http.create("doc").await;
    // More than two sockets hold.
    for _ in 0..3 {
        http.append("doc", &"x".repeat(4 << 20).into()).await;
    }
    let mut client = Raw::connect(launch.port()).await;
    // Three pages, asked for at once.
    let request = "GET /v1/stream/doc?offset=-1 HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(3);
    client.send(request).await;
    counts(&server, "connections_cut_total{reason=\"stalled\"}", 1.0).await;
}

/// HTTP/2: neither a beginning without a request, nor a request that drips.
#[tokio::test(flavor = "multi_thread")]
async fn http_2_without_a_request_is_cut_off() {
    let store = Store::sqlite();
    let launch = impatient(&store);
    let server = launch.start().await;
    let mut client = Raw::connect(launch.port()).await;
    client.send(PREFACE).await;
    client.hung_up("the connection of one who only agrees on settings").await;
    let mut client = Raw::connect(launch.port()).await;
    client.send(PREFACE).await;
    // HEADERS of 1,000 bytes, of stream 1.
    client.send(b"\0\x03\xe8\x01\x04\0\0\0\x01").await;
    drips_until_cut_off(&mut client, b"\x82", "the head of an HTTP/2 request").await;
    let mut client = Raw::connect(launch.port()).await;
    drips_until_cut_off(&mut client, PREFACE, "the beginning of HTTP/2").await;
    counts(&server, "connections_cut_total{reason=\"header_timeout\"}", 3.0).await;
}

/// A body that drips is given up by name.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_drips_is_given_up() {
    let store = Store::sqlite();
    let launch = impatient(&store);
    let server = launch.start().await;
    server.http().create("doc").await;
    let mut client = Raw::connect(launch.port()).await;
    client
        .send(
            "POST /v1/stream/doc HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: 1000000\r\n\r\n",
        )
        .await;
    drips_until_cut_off(&mut client, b"1", "a body").await;
    let answer = client.hung_up("the connection of one whose body drips").await;
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("body_timeout"), "{answer}");

    let mut http2 = Http2::connect(server.http()).await;
    let answer = http2.send("POST", "/v1/stream/doc", dripping(DRIP)).await.expect("an answer");
    assert_eq!(answer.status(), 408);
    assert!(answer.ended().await.contains("body_timeout"));
    within_patience("another request", http2.ask("GET", "/healthz", "", 200)).await;
}

/// A body that nobody reads, because the request was refused before, is not waited for either.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_body_is_not_waited_for() {
    let store = Store::sqlite();
    let launch = Launch::serve(&store, "correct-horse-battery");
    let _server = launch.start().await;
    let mut client = Raw::connect(launch.port()).await;
    client
        .send("POST /v1/stream/doc HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n")
        .await;
    let answer = client.hung_up("the connection of one who was refused").await;
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
}
