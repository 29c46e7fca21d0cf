//! Long-polls of those who see little of a table that has much.

use std::sync::Arc;
use std::time::Duration;

use axum::http::request::Parts;
use axum::http::{Request, Response};
use tempfile::TempDir;

use super::super::read::get;
use super::*;
use tidewire_access::auth::names::TableNames;
use tidewire_access::auth::scopes::Scopes;
use tidewire_access::auth::{Ended, Who};
use tidewire_access::options::{Access, Options};
use tidewire_fixtures::orders;

const STREAM: &str = "table/orders";

/// A node that reads two events at a time, with a table of twenty rows.
async fn node(long_poll: Duration) -> (Arc<Node>, TempDir) {
    let (store, folder) = orders::watched_orders().await;
    for id in 1..=20 {
        orders::run(&store, &format!("INSERT INTO orders VALUES ({id}, {id})")).await;
    }
    let mut options = Options::new(Access::OpenOnLoopback);
    options.streams.read_events_max = 2;
    options.streams.long_poll = long_poll;
    let assembled = Node::assemble(options, store, String::new(), 1).await.expect("a node");
    (Arc::new(assembled.0), folder)
}

fn identity() -> Identity {
    let scopes =
        Scopes::parse(r#"{"tables": ["orders"]}"#, &(), &TableNames::none()).expect("scopes");
    Identity::new(Who::Key(1), scopes, None)
}

async fn poll(
    node: &Arc<Node>,
    identity: &Identity,
    offset: &str,
    least: u64,
) -> Result<Response<Body>, Problem> {
    let uri = format!("/?live=long-poll&offset={offset}&where=total%20%3E%20{least}");
    let (request, ()): (Parts, ()) = Request::get(uri).body(()).expect("a request").into_parts();
    let name = StreamName::parse(STREAM, &node.options.limits).expect("a name");
    get(node, name, &request, identity).await
}

fn header<'r>(response: &'r Response<Body>, name: &str) -> Option<&'r str> {
    response.headers().get(name).map(|value| value.to_str().expect("text"))
}

#[tokio::test]
async fn a_poll_whose_time_is_up_says_how_far_it_got() {
    let (node, _folder) = node(Duration::ZERO).await;
    let identity = identity();
    let mut offset = "-1".to_owned();
    let mut polls = 0;
    let found = loop {
        let answer = poll(&node, &identity, &offset, 19).await.expect("an answer");
        let next = header(&answer, headers::NEXT_OFFSET).expect("an offset").to_owned();
        if answer.status() == StatusCode::OK {
            break next;
        }
        assert_eq!(answer.status(), StatusCode::NO_CONTENT);
        assert_eq!(header(&answer, headers::UP_TO_DATE), None, "there is more");
        assert!(offset == "-1" || offset < next, "{offset} before {next}");
        offset = next;
        polls += 1;
    };
    assert!(polls > 1, "the twentieth row is not found within one poll");
    let page = lookup::view(&node.hub, STREAM, &Reach::everything()).await.expect("the stream");
    assert_eq!(found, node.hub.offset(page.view.tail).to_string());
}

#[tokio::test]
async fn a_poll_that_sees_nothing_ends_at_the_streams_tail() {
    let (node, _folder) = node(Duration::from_millis(300)).await;
    let tail =
        lookup::view(&node.hub, STREAM, &Reach::everything()).await.expect("the stream").view.tail;
    let tail = node.hub.offset(tail).to_string();
    let (mut offset, mut is_end) = ("-1".to_owned(), false);
    while !is_end {
        let answer = poll(&node, &identity(), &offset, 100).await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::NO_CONTENT);
        offset = header(&answer, headers::NEXT_OFFSET).expect("an offset").to_owned();
        is_end = header(&answer, headers::UP_TO_DATE).is_some();
    }
    assert_eq!(offset, tail);
}

#[tokio::test]
async fn a_poll_that_scans_ends_with_its_credential_and_with_the_server() {
    let (node, _folder) = node(Duration::from_secs(60)).await;
    let revoked = identity();
    revoked.validity().end(Ended::Revoked);
    poll(&node, &revoked, "-1", 19).await.expect_err("the key was revoked");
    node.hub.draining.cancel();
    let answer = poll(&node, &identity(), "-1", 19).await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::NO_CONTENT);
    assert_eq!(header(&answer, "connection"), Some("close"));
}
