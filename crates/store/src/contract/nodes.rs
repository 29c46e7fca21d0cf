//! Several nodes on one store, for stores that can be opened more than once at a time.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::Opener;
use super::commands::stamped;
use super::subject::{EVERYTHING, Subject, text};
use super::subscriptions::{grown, pull};
use crate::command::Answer;
use crate::offset::Position;
use crate::subscription::{Op, Reply};

/// Invariant 2, over several nodes: all of them give positions in one gapless order, and what a
/// follower on any of them sees is a prefix.
pub async fn nodes_give_offsets_in_one_order(data: &dyn Opener) {
    const NODES: usize = 3;
    const APPENDERS: usize = 8;
    const APPENDS: usize = 10;
    const EVENTS: u64 = 1 + (NODES * APPENDERS * APPENDS) as u64;
    let nodes = join_all((0..NODES).map(|_| Subject::open(data))).await;
    nodes[0].create_text("a").await;
    let mut appenders = tokio::task::JoinSet::new();
    for (number, node) in nodes.iter().enumerate() {
        for appender in 0..APPENDERS {
            let node = node.clone();
            appenders.spawn(async move {
                let mut given = Vec::new();
                for round in 0..APPENDS {
                    let body = format!("{number}:{appender}:{round}");
                    given.push((node.append_text("a", &body).await, body));
                }
                given
            });
        }
    }
    let mut followers = tokio::task::JoinSet::new();
    for node in nodes.clone() {
        followers.spawn(async move {
            let mut last = Position::START;
            while last.number() < EVENTS {
                let none = Arc::new(|_: &str| false);
                for event in node.follow(last, EVERYTHING, none).await.expect("followed") {
                    assert_eq!(event.position, last.next(), "an event was missed");
                    last = event.position;
                }
            }
        });
    }
    let given = appenders.join_all().await;
    followers.join_all().await;
    let log = nodes[1].log_after(Position::START).await;
    assert_eq!(log.len() as u64, EVENTS);
    for (position, body) in given.into_iter().flatten() {
        let event = &log[usize::try_from(position.number()).expect("small") - 1];
        assert_eq!(text(event.payload.as_deref().unwrap_or_default()), body, "at {position:?}");
    }
}

/// What one node has acknowledged, every node shows.
pub async fn an_append_on_one_node_is_visible_on_the_others(data: &dyn Opener) {
    let (here, there) = (Subject::open(data).await, Subject::open(data).await);
    here.create_text("a").await;
    for round in 0..10 {
        let (writer, reader) = if round % 2 == 0 { (&here, &there) } else { (&there, &here) };
        let tail = writer.append_text("a", &round.to_string()).await;
        assert_eq!(reader.log_tip().await, tail);
        assert_eq!(reader.texts("a").await.last(), Some(&round.to_string()));
    }
}

/// A commit on one node wakes those who wait on another.
pub async fn a_commit_on_one_node_wakes_the_others(data: &dyn Opener) {
    const PATIENCE: Duration = Duration::from_secs(30);
    let (here, there) = (Subject::open(data).await, Subject::open(data).await);
    let mut grown = there.grown();
    for round in 0..3 {
        grown.mark_unchanged();
        here.create_text(&format!("s{round}")).await;
        let woken = tokio::time::timeout(PATIENCE, grown.changed()).await;
        assert!(matches!(woken, Ok(Ok(()))), "round {round}: {woken:?}");
    }
}

/// A producer that retries on another node is known there.
pub async fn retries_on_other_nodes_take_effect_once(data: &dyn Opener) {
    let nodes = join_all((0..3).map(|_| Subject::open(data))).await;
    nodes[0].create_text("a").await;
    for seq in 0..5 {
        let retry = |node: &Subject| {
            let node = node.clone();
            async move { node.appends(stamped("a", &seq.to_string(), "p", 0, seq)).await }
        };
        let answers = join_all(nodes.iter().map(retry)).await;
        let accepted = answers.iter().filter(|a| matches!(a, Answer::Appended { .. })).count();
        assert_eq!(accepted, 1, "number {seq}: {answers:?}");
    }
    assert_eq!(nodes[2].texts("a").await, ["0", "1", "2", "3", "4"]);
}

/// However many nodes see a stream grow, one wake begins and is announced.
pub async fn nodes_announce_a_wake_once(data: &dyn Opener) {
    let nodes = join_all((0..3).map(|_| Subject::open(data))).await;
    nodes[0].create_text("a").await;
    nodes[0].create_text("wakes").await;
    nodes[0].change("s", Op::Create(pull(None, &["a"]))).await;
    nodes[0].append_text("a", "x").await;
    let replies = join_all(nodes.iter().map(|node| node.change("s", grown("a")))).await;
    let began = replies.iter().filter(|r| **r == Reply::Done { next_wake: true }).count();
    assert_eq!((began, nodes[1].texts("wakes").await.len()), (1, 1), "{replies:?}");
}

/// The first node to ask for a secret decides it for all.
pub async fn nodes_share_their_secrets(data: &dyn Opener) {
    let nodes = join_all((0..3).map(|_| Subject::open(data))).await;
    let ask = |(number, node): (u8, &Subject)| {
        let node = node.clone();
        async move { node.secret("key", vec![number]).await.expect("a secret") }
    };
    let secrets = join_all((0..).zip(&nodes).map(ask)).await;
    assert!(secrets.iter().all(|secret| *secret == secrets[0]), "{secrets:?}");
}

/// A node that closes leaves the others at work.
pub async fn a_node_that_closes_leaves_the_others_at_work(data: &dyn Opener) {
    let (leaving, staying) = (Subject::open(data).await, Subject::open(data).await);
    leaving.create_text("a").await;
    leaving.close().await;
    staying.append_text("a", "x").await;
    assert_eq!(staying.texts("a").await, ["x"]);
}
