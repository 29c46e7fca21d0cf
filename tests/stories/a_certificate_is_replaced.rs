//! Certificates are renewed by programs that tell nobody. The server notices; its connections do not.

use std::net::Ipv4Addr;

use rustls::pki_types::CertificateDer;
use serde_json::json;
use tidewire_stories::{Authority, Files, Http, Launch, Metrics, Store, WebSocket, eventually};
use tokio::net::TcpStream;

/// The certificate that a new connection gets to see.
async fn shown(http: &Http) -> CertificateDer<'static> {
    let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, http.port())).await;
    let authority = http.authority().expect("a server with a certificate");
    let secure =
        authority.secure(socket.expect("a connection"), rustls::ALL_VERSIONS, &["http/1.1"]).await;
    let secure = secure.expect("TLS");
    let chain = secure.get_ref().1.peer_certificates().expect("a chain");
    chain.first().expect("a certificate").clone().into_owned()
}

async fn comes_to_be_shown(http: &Http, expected: &CertificateDer<'static>) {
    eventually("new connections get the new certificate", async || {
        (shown(http).await == *expected).then_some(())
    })
    .await;
}

/// Live connections stay as they are, over either version of HTTP; new ones get the new certificate.
#[tokio::test(flavor = "multi_thread")]
async fn live_connections_stay_and_new_ones_get_the_new_certificate() {
    let (store, authority) = (Store::sqlite(), Authority::new());
    let (first, second) = (authority.issue(), authority.issue());
    let files = Files::new(&first);
    let server = Launch::dev(&store).secured(&files, &authority).start().await;
    let http = server.http();
    http.create("doc").await;
    let mut websocket = WebSocket::connect(http, "/v1/ws").await;
    websocket.hears("hello").await;
    websocket.subscribe(&json!({ "query_id": "q", "stream": "doc", "offset": "now" })).await;
    let mut http2 = tidewire_stories::Http2::connect(http).await;
    let mut sse = http2.follow("/v1/stream/doc?offset=now&live=sse").await;
    assert_eq!(shown(http).await, first.der);

    files.replace(&second);
    comes_to_be_shown(http, &second.der).await;
    http.append("doc", &json!("after")).await;
    assert_eq!(websocket.hears("event").await["payload"], "after");
    sse.hears("after").await;
    http2.ask("POST", "/v1/stream/doc", "[1]", 204).await;
    let metrics = Metrics::read(http).await;
    assert_eq!(metrics.get("tls_certificates_total{reason=\"swapped\"}"), 1.0);
}

/// What is of no use is reported, once and with the file's name, and changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_replacement_changes_nothing_and_is_reported() {
    let (store, authority) = (Store::sqlite(), Authority::new());
    let (first, second) = (authority.issue(), authority.issue());
    let files = Files::new(&first);
    let mut server = Launch::dev(&store).secured(&files, &authority).start().await;
    let http = server.http().clone();
    let refused = "tls_certificates_total{reason=\"refused\"}";
    let broken = "-----BEGIN CERTIFICATE-----\nnothing\n-----END CERTIFICATE-----\n";
    // Garbage; a certificate whose key does not come with it; none at all.
    for (times, pem) in [(1.0, Some(broken)), (2.0, Some(second.certificate_pem())), (3.0, None)] {
        match pem {
            Some(pem) => files.replace_certificate(pem),
            None => std::fs::remove_file(files.certificate()).expect("a file to remove"),
        }
        eventually("it is reported", async || {
            let all = Metrics::read(&http).await.all(refused);
            (all == [times]).then_some(())
        })
        .await;
        assert_eq!(shown(&http).await, first.der, "the one that was in force");
    }
    let said = server.process().said();
    let warnings = said.lines().filter(|line| line.contains("the old one stays in use"));
    let warnings: Vec<&str> = warnings.collect();
    assert_eq!(warnings.len(), 3, "{said}");
    let named = files.certificate().to_string_lossy().into_owned();
    assert!(warnings.iter().all(|warning| warning.contains(&named)), "{warnings:?}");

    files.replace(&second);
    comes_to_be_shown(&http, &second.der).await;
}

/// What cannot work is refused before anything is touched, and named.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_does_not_start_with_files_that_are_of_no_use() {
    let (store, authority) = (Store::sqlite(), Authority::new());
    let (first, second) = (authority.issue(), authority.issue());
    let files = Files::new(&first);
    let launch = Launch::dev(&store).secured(&files, &authority);
    let certificate = files.certificate().to_string_lossy().into_owned();
    let key = files.key().to_string_lossy().into_owned();

    let refused = async |launch: &Launch, names: &[&str]| {
        let ended = launch.run().await;
        assert_eq!(ended.code, Some(1), "{}", ended.said);
        assert!(names.iter().all(|name| ended.said.contains(name)), "{names:?}: {}", ended.said);
    };
    files.replace_certificate(second.certificate_pem());
    refused(&launch, &[&certificate, &key, "is not the key of"]).await;
    files.replace_certificate("no PEM at all");
    refused(&launch, &[&certificate, "holds no certificate"]).await;
    std::fs::remove_file(files.certificate()).expect("a file to remove");
    refused(&launch, &[&certificate, "cannot read"]).await;
    files.replace_certificate(first.certificate_pem());
    std::fs::write(files.key(), first.certificate_pem()).expect("a file to write");
    refused(&launch, &[&key, "holds no private key"]).await;
    refused(&launch.set("TIDEWIRE_TLS_KEY", ""), &["tls.certificate and tls.key"]).await;
    let Store::Sqlite { folder, .. } = &store else { panic!("SQLite") };
    assert!(!folder.exists(), "the store was opened");
}
