//! One address opens connection after connection. It gets its share, and everyone else theirs.

use std::net::Ipv4Addr;

use tidewire_stories::{Authority, Files, Http, Launch, Raw, Store, WebSocket, eventually};
use tokio::net::TcpStream;

const KEY: &str = "correct-horse-battery";

const REQUEST: &str = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// So many connections, and little patience with handshakes.
fn launch(store: &Store, cap: usize) -> Launch {
    Launch::serve(store, KEY)
        .set("TIDEWIRE_LIMITS_CONNECTIONS_PER_ADDRESS_MAX", &cap.to_string())
        .set("TIDEWIRE_LIMITS_TLS_HANDSHAKE_TIMEOUT_MS", "1000")
}

/// How many were refused for their address. Whoever asks may be refused too, and asks again.
async fn refused(http: &Http) -> u64 {
    let name = "tidewire_connections_refused_total{reason=\"connections_per_address\"} ";
    eventually("the metrics are told", async || {
        let metrics = http.try_get("/metrics").await.ok().filter(|answer| answer.status == 200)?;
        let text = metrics.text();
        let number = text.lines().find_map(|line| line.strip_prefix(name));
        Some(number.map_or(0, |number| number.parse().expect("a number")))
    })
    .await
}

/// Whether a connection is served; else it is closed without a word.
async fn is_served(client: &mut Raw) -> bool {
    client.send(REQUEST).await;
    client.hears_or_hung_up("alive").await.contains("alive")
}

/// A connection past the last is closed at once; there is a place when another one ends, and a
/// WebSocket takes its place along.
#[tokio::test(flavor = "multi_thread")]
async fn one_connection_too_many_is_closed_at_once() {
    const CAP: usize = 6;
    let store = Store::sqlite();
    let launch = launch(&store, CAP);
    let server = launch.start().await;
    let http = server.http();
    let websocket = WebSocket::connect(http, "/v1/ws").await;
    let mut served = Vec::new();
    loop {
        let mut client = Raw::connect(launch.port()).await;
        if !is_served(&mut client).await {
            break;
        }
        served.push(client);
        assert!(served.len() < CAP, "the WebSocket has no place, or there is no cap");
    }
    assert!(refused(http).await >= 1, "it is counted");
    for client in &mut served {
        client.send(REQUEST).await;
        client.hears_times("alive", 2).await;
    }

    drop(websocket);
    eventually("there is a place when the WebSocket has left", async || {
        let mut client = Raw::connect(launch.port()).await;
        is_served(&mut client).await.then_some(())
    })
    .await;
}

/// Those who open connections and never agree on keys hold their places for a while only.
#[tokio::test(flavor = "multi_thread")]
async fn half_finished_handshakes_do_not_count_for_ever() {
    const CAP: usize = 5;
    let (store, authority) = (Store::sqlite(), Authority::new());
    let files = Files::new(&authority.issue());
    let launch = launch(&store, CAP).secured(&files, &authority);
    let server = launch.start().await;
    let mut half = Vec::new();
    for _ in 0..2 * CAP {
        let mut client = Raw::connect(launch.port()).await;
        client.send(b"\x16\x03\x01\x02\x00\x01").await;
        half.push(client);
    }
    let mut whole = Vec::new();
    // Two places are the metrics' reader's, who may have as many connections.
    while whole.len() < CAP - 2 {
        let agreed = eventually("there is a place when handshakes were given up", async || {
            let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, launch.port())).await.ok()?;
            authority.secure(socket, rustls::ALL_VERSIONS, &["http/1.1"]).await.ok()
        });
        whole.push(agreed.await);
    }
    assert!(refused(server.http()).await >= 1, "not all had a place");
}

/// A proxy speaks for many, and has no cap if the configuration names it.
#[tokio::test(flavor = "multi_thread")]
async fn a_trusted_proxy_has_no_cap() {
    let store = Store::sqlite();
    let launch = launch(&store, 1).set("TIDEWIRE_TRUSTED_PROXIES", "10.0.0.0/8, 127.0.0.1");
    let server = launch.start().await;
    let mut connections = Vec::new();
    for _ in 0..5 {
        let mut connection = Raw::connect(launch.port()).await;
        assert!(is_served(&mut connection).await);
        connections.push(connection);
    }
    assert_eq!(refused(server.http()).await, 0);
}
