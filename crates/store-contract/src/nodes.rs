//! Several nodes on one store, for stores that can be opened more than once at a time.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::Opener;
use super::control::{key_changed, said};
use super::keys::new_key;
use super::pointers::acknowledge;
use super::sessions::{LONG_MS, RULES, at, connect, disconnect, subscribe, subscribe_as};
use super::subscriptions::{grown, pull};
use super::test_store::{EVERYTHING, TestStore, text};
use tidewire_store::command::Answer;
use tidewire_store::offset::Position;
use tidewire_store::session::{SessionOutcome, SessionSignal, SweptSessions};
use tidewire_store::subscription::{Op, Reply};
use tidewire_store::testing::commands::stamped;

/// How long something may take that must happen; waited out only by a failing test.
const PATIENCE: Duration = Duration::from_secs(30);

/// Invariant 2, over several nodes: all of them give positions in one gapless order, and what a
/// follower on any of them sees is a prefix.
pub async fn nodes_give_offsets_in_one_order(data: &dyn Opener) {
    const NODES: usize = 3;
    const APPENDERS: usize = 8;
    const APPENDS: usize = 10;
    const EVENTS: u64 = 1 + (NODES * APPENDERS * APPENDS) as u64;
    let nodes = join_all((0..NODES).map(|_| TestStore::open(data))).await;
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
    let (here, there) = (TestStore::open(data).await, TestStore::open(data).await);
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
    let (here, there) = (TestStore::open(data).await, TestStore::open(data).await);
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
    let nodes = join_all((0..3).map(|_| TestStore::open(data))).await;
    nodes[0].create_text("a").await;
    for seq in 0..5 {
        let retry = |node: &TestStore| {
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
    let nodes = join_all((0..3).map(|_| TestStore::open(data))).await;
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
    let nodes = join_all((0..3).map(|_| TestStore::open(data))).await;
    let ask = |(number, node): (u8, &TestStore)| {
        let node = node.clone();
        async move { node.secret("key", vec![number]).await.expect("a secret") }
    };
    let secrets = join_all((0..).zip(&nodes).map(ask)).await;
    assert!(secrets.iter().all(|secret| *secret == secrets[0]), "{secrets:?}");
}

/// Whose subscriptions change on one node is heard on the others.
pub async fn changed_subscriptions_are_signalled_to_all_nodes(data: &dyn Opener) {
    let nodes = join_all((0..3).map(|_| TestStore::open(data))).await;
    nodes[0].opens("s").await;
    for (round, changer) in nodes.iter().enumerate() {
        let mut signals: Vec<_> = nodes.iter().map(|node| node.session_signals()).collect();
        // A node that does not listen yet says so when it does; then it has to look for itself.
        changer.follows("s", &format!("a{round}"), at(0)).await;
        for signals in &mut signals {
            let heard = async {
                loop {
                    match signals.recv().await.expect("the store is open") {
                        SessionSignal::Changed(session) => break assert_eq!(session, "s"),
                        SessionSignal::Missed if round == 0 => break,
                        SessionSignal::Missed => {}
                    }
                }
            };
            tokio::time::timeout(PATIENCE, heard).await.expect("a signal");
        }
    }
}

/// Nodes that change the same sessions at once, and sweep meanwhile, do so one after the other:
/// every subscription has an epoch of its own, and the counts are exact.
pub async fn nodes_change_sessions_one_after_the_other(data: &dyn Opener) {
    const NODES: usize = 3;
    const CLIENTS: usize = 4;
    const ROUNDS: usize = 5;
    let nodes = join_all((0..NODES).map(|_| TestStore::open(data))).await;
    nodes[0].opens("s").await;
    nodes[0].opens("t").await;
    let mut clients = tokio::task::JoinSet::new();
    for (number, node) in nodes.iter().enumerate() {
        for client in 0..CLIENTS {
            let node = node.clone();
            clients.spawn(async move {
                let mut epochs = Vec::new();
                for _ in 0..ROUNDS {
                    let stream = format!("a{client}");
                    // Half of them name the sessions in the other order.
                    let mut changes =
                        vec![subscribe("s", &stream, at(0)), subscribe("t", &stream, at(0))];
                    if number % 2 == 0 {
                        changes.reverse();
                    }
                    for outcome in node.do_all(changes).await {
                        let SessionOutcome::Subscribed(made) = outcome else {
                            panic!("not subscribed: {outcome:?}")
                        };
                        epochs.push(made.epoch);
                    }
                    assert_eq!(node.sweeps_sessions(RULES).await, SweptSessions::default());
                }
                epochs
            });
        }
    }
    let mut epochs: Vec<u64> = clients.join_all().await.into_iter().flatten().collect();
    epochs.sort_unstable();
    let each = 1..=(NODES * CLIENTS * ROUNDS) as u64;
    let twice: Vec<u64> = each.flat_map(|epoch| [epoch, epoch]).collect();
    assert_eq!(epochs, twice, "one after the other, in each of the two sessions");
    assert_eq!(nodes[1].count("a0").await, 2);
}

/// Of nodes that give a name to different streams at once, one does, and the others hear whose it is.
pub async fn a_name_is_given_by_one_node(data: &dyn Opener) {
    const NODES: usize = 2;
    const ROUNDS: usize = 20;
    let nodes = join_all((0..NODES).map(|_| TestStore::open(data))).await;
    nodes[0].opens("s").await;
    for round in 0..ROUNDS {
        let streams: Vec<String> = (0..NODES).map(|node| format!("{round}-{node}")).collect();
        let names = nodes
            .iter()
            .zip(&streams)
            .map(|(node, stream)| node.does(subscribe_as(&round.to_string(), "s", stream, at(0))));
        let outcomes = join_all(names).await;
        let given = outcomes.iter().filter_map(|outcome| match outcome {
            SessionOutcome::Subscribed(made) => Some(made.stream.clone()),
            _ => None,
        });
        let given: Vec<String> = given.collect();
        let [stream] = &given[..] else { panic!("one gets the name: {outcomes:?}") };
        assert!(outcomes.contains(&SessionOutcome::NameTaken(stream.clone())), "{outcomes:?}");
        let session = nodes[round % NODES].has_session("s").await;
        let named = session.subscriptions.iter().filter(|s| s.query_id == round.to_string());
        assert_eq!(named.map(|s| &s.stream).collect::<Vec<_>>(), [stream]);
    }
}

/// A session goes from node to node: the one it left late does not take it from the other.
pub async fn a_session_goes_from_node_to_node(data: &dyn Opener) {
    let (here, there) = (TestStore::open(data).await, TestStore::open(data).await);
    here.renews_node("here", LONG_MS).await;
    there.renews_node("there", LONG_MS).await;
    assert_eq!(here.lists_nodes().await.len(), 2, "they know of each other");
    here.opens("s").await;
    here.follows("s", "a", at(1)).await;
    here.does(connect("s", "here")).await;
    there.does(connect("s", "there")).await;
    there.does(acknowledge("s", "a", 1, 5)).await;
    here.does(disconnect("s", "here", 0)).await;
    let session = here.has_session("s").await;
    assert_eq!(session.subscriptions[0].pointer, Position::new(5));
    there.does(disconnect("s", "there", 0)).await;
    assert_eq!(here.find_session("s").await, None);
}

/// What one node says, and what it does to a key, every node hears once.
pub async fn control_messages_are_heard_on_all_nodes(data: &dyn Opener) {
    let nodes = join_all((0..3).map(|_| TestStore::open(data))).await;
    let mut cursors = join_all(nodes.iter().map(|node| node.listens())).await;
    for (round, sender) in nodes.iter().enumerate() {
        let letter = ['a', 'b', 'c'][round];
        let id = sender.makes(new_key(letter)).await.id;
        let signals: Vec<_> = nodes.iter().map(|node| node.control_signals()).collect();
        let body = round.to_string();
        sender.sends("round", &body).await;
        sender.revokes(id).await;
        let expected = [said("round", &body), key_changed(id)];
        for ((node, mut signals), cursor) in nodes.iter().zip(signals).zip(&mut cursors) {
            let mut heard = Vec::new();
            let hear = async {
                while heard.len() < expected.len() {
                    signals.changed().await.expect("the store is open");
                    heard.extend(node.is_told(cursor).await);
                }
            };
            tokio::time::timeout(PATIENCE, hear).await.expect("signals");
            assert_eq!(heard, expected);
            assert_eq!(node.is_told(cursor).await, []);
        }
    }
}

/// A ticket that one node gave is good on another, and on one only.
pub async fn a_ticket_is_taken_on_one_node(data: &dyn Opener) {
    let nodes = join_all((0..3).map(|_| TestStore::open(data))).await;
    nodes[0].puts_ticket('a', "{}", LONG_MS).await;
    let takes = (0..50).map(|number| nodes[number % 3].takes_ticket('a'));
    let taken = join_all(takes).await.into_iter().flatten().count();
    assert_eq!(taken, 1);
}

/// A node that closes leaves the others at work.
pub async fn a_node_that_closes_leaves_the_others_at_work(data: &dyn Opener) {
    let (leaving, staying) = (TestStore::open(data).await, TestStore::open(data).await);
    leaving.create_text("a").await;
    leaving.close().await;
    staying.append_text("a", "x").await;
    assert_eq!(staying.texts("a").await, ["x"]);
}
