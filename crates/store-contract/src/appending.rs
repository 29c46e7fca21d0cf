//! Appends: their order, their atomicity, and what they are checked for.

use std::collections::HashSet;

use bytes::Bytes;
use futures_util::future::join_all;

use super::Opener;
use super::test_store::{TestStore, refusal, text};
use tidewire_store::command::{Answer, Append, Refusal};
use tidewire_store::offset::Position;
use tidewire_store::testing::commands::{JSON, append, append_json, close, create};

/// Invariant 2: positions are gapless when given and totally ordered, whoever appends at once.
pub async fn offsets_are_gapless_under_many_appenders(data: &dyn Opener) {
    const APPENDERS: usize = 32;
    const STREAMS: usize = 8;
    const ROUNDS: usize = 8;
    let store = TestStore::open(data).await;
    for stream in 0..STREAMS {
        store.create_text(&format!("s{stream}")).await;
    }
    let mut appenders = tokio::task::JoinSet::new();
    for appender in 0..APPENDERS {
        let store = store.clone();
        appenders.spawn(async move {
            let mut given = Vec::new();
            for round in 0..ROUNDS {
                let stream = format!("s{}", (appender + round) % STREAMS);
                let body = format!("{appender}:{round}");
                given.push((store.append_text(&stream, &body).await, stream, body));
            }
            given
        });
    }
    let answers = appenders.join_all().await;

    let log = store.log_after(Position::START).await;
    let positions: Vec<u64> = log.iter().map(|event| event.position.number()).collect();
    let expected: Vec<u64> = (1..=(STREAMS + APPENDERS * ROUNDS) as u64).collect();
    assert_eq!(positions, expected, "every position exactly once, in order");
    for given in answers {
        assert!(given.is_sorted_by(|a, b| a.0 < b.0), "an appender's own appends keep their order");
        for (position, stream, body) in given {
            let event = &log[usize::try_from(position.number()).expect("small") - 1];
            let payload = text(event.payload.as_deref().unwrap_or_default());
            assert_eq!((&event.stream, payload), (&stream, body), "what is at {position:?}");
        }
    }
}

/// Read your own writes: when the answer is there, so is the event, for every kind of reader.
pub async fn an_acknowledged_append_is_visible_at_once(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("a").await;
    for round in 0..20 {
        let body = format!("round {round}");
        let before = store.log_tip().await;
        let tail = store.append_text("a", &body).await;
        assert_eq!(store.log_tip().await, tail);
        assert_eq!(store.view("a").await.tail, tail);
        assert_eq!(store.texts("a").await.last(), Some(&body));
        let followed = store.log_after(before).await;
        assert_eq!(followed.last().map(|event| event.position), Some(tail));
    }
}

/// Commands that wait together are committed together.
pub async fn appends_that_wait_together_share_commits(data: &dyn Opener) {
    const APPENDS: u64 = 200;
    let store = TestStore::open(data).await;
    store.create_text("a").await;
    let before = store.commit_stats();
    // All of them are in the queue before the first answer is looked at.
    join_all((0..APPENDS).map(|_| store.append_text("a", "12345"))).await;
    let after = store.commit_stats();
    assert_eq!(after.commands - before.commands, APPENDS);
    assert_eq!(after.events - before.events, APPENDS);
    assert_eq!(after.bytes - before.bytes, APPENDS * 5);
    assert_eq!(after.failures, 0);
    let commits = after.commits - before.commits;
    assert!((1..APPENDS / 2).contains(&commits), "{APPENDS} appends took {commits} commits");
}

/// Commands are decided in the order of their arrival.
pub async fn appends_that_wait_together_keep_their_order(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("a").await;
    let bodies: Vec<String> = (0..50).map(|number| number.to_string()).collect();
    let tails = join_all(bodies.iter().map(|body| store.append_text("a", body))).await;
    assert!(tails.is_sorted_by(|a, b| a < b), "{tails:?}");
    assert_eq!(store.texts("a").await, bodies);
}

/// A command refused by the protocol does not disturb those it shares a commit with.
pub async fn a_refused_append_leaves_its_neighbours_alone(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("a").await;
    store.create_text("closed").await;
    store.append(close("closed")).await;
    let wrong_type = Append { content_type: Some(JSON.to_owned()), ..append("a", "wrong type") };
    let commands = [
        append("a", "first"),
        append("missing", "?"),
        append("a", "second"),
        append("closed", "?"),
        wrong_type,
        append("a", "third"),
    ];
    let answers = join_all(commands.map(|command| store.appends(command))).await;
    let refused: Vec<bool> =
        answers.iter().map(|answer| matches!(answer, Answer::Refused(_))).collect();
    assert_eq!(refused, [false, true, false, true, true, false], "{answers:?}");
    assert_eq!(store.texts("a").await, ["first", "second", "third"]);
    let positions: HashSet<u64> =
        store.events("a").await.iter().map(|event| event.position.number()).collect();
    assert_eq!(positions, HashSet::from([4, 5, 6]), "a refused append takes no offset");
}

/// In JSON mode each message has its own offset, and all know the append that brought them.
pub async fn json_messages_have_an_offset_each_and_share_their_append(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create(tidewire_store::testing::commands::create_json("j")).await;
    store.append(append_json("j", &[r#"{"n":1}"#, "2", r#""three""#])).await;
    let tail = store.append(append_json("j", &["4"])).await;
    let events: Vec<(u64, u64, String)> = store
        .events("j")
        .await
        .iter()
        .map(|e| (e.position.number(), e.append_id.number(), text(&e.payload)))
        .collect();
    let expected = [(2, 2, r#"{"n":1}"#), (3, 2, "2"), (4, 2, r#""three""#), (5, 5, "4")];
    assert_eq!(events, expected.map(|(p, a, t)| (p, a, t.to_owned())));
    assert_eq!(tail, Position::new(5));
}

/// In byte mode an append is one event, and its bytes come back as they went in.
pub async fn bytes_come_back_as_they_went_in(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create(tidewire_store::Create { content_type: None, ..create("b") }).await;
    let bodies: [Bytes; 3] = [
        Bytes::from_static(b"\0\xff\xfe not text \0"),
        (0..=255u8).collect(),
        Bytes::from(vec![7; 1 << 20]),
    ];
    for body in &bodies {
        let content_type = Some("application/octet-stream".to_owned());
        store
            .append(Append { content_type, messages: vec![body.clone()], ..append("b", "") })
            .await;
    }
    let events = store.events("b").await;
    assert_eq!(events.len(), bodies.len());
    for (event, body) in events.iter().zip(&bodies) {
        assert!(event.payload == body, "{} bytes came back changed", body.len());
        assert_eq!(event.append_id, event.position);
    }
}

/// Content types are compared by media type, without parameters and regardless of case.
pub async fn the_content_type_must_be_the_streams(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("a").await;
    for (content_type, accepted) in [
        (Some("text/plain"), true),
        (Some("TEXT/Plain; charset=utf-8"), true),
        (Some("text/html"), false),
        (Some("application/json"), false),
        (Some(""), false),
        (None, false),
    ] {
        let content_type = content_type.map(str::to_owned);
        let given = content_type.clone();
        match store.appends(Append { content_type, ..append("a", "x") }).await {
            Answer::Appended { .. } => assert!(accepted, "{given:?} was accepted"),
            answer => {
                let expected = Refusal::ContentTypeDiffers { expected: "text/plain".to_owned() };
                assert_eq!((refusal(answer), accepted), (expected, false), "{given:?}");
            }
        }
    }
    assert_eq!(store.texts("a").await.len(), 2);
}

/// `Stream-Seq` rises strictly, compared bytewise; appends without one do not take part.
pub async fn stream_seq_must_rise_bytewise(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("a").await;
    let mut last = String::new();
    for (seq, accepted) in [
        ("1", true),
        ("2", true),
        ("2", false),
        ("10", false),
        ("20", true),
        ("B", true),
        ("a", true),
        ("Z", false),
        ("é", true),
    ] {
        let answer = store.appends(Append { seq: Some(seq.to_owned()), ..append("a", seq) }).await;
        if accepted {
            assert!(matches!(answer, Answer::Appended { .. }), "{seq}: {answer:?}");
            seq.clone_into(&mut last);
        } else {
            assert_eq!(refusal(answer), Refusal::SeqNotRising { last: last.clone() }, "{seq}");
        }
        store.append_text("a", "without").await;
    }
    assert_eq!(store.view("a").await.state.last_seq.as_deref(), Some("é"));
}

/// There is nothing to append to, and nothing is made of it.
pub async fn an_append_to_no_stream_is_refused(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    for command in [append("a", "x"), close("a")] {
        assert_eq!(refusal(store.appends(command).await), Refusal::NotFound);
    }
    assert_eq!(store.log_tip().await, Position::START);
    assert!(!store.is_found("a").await);
}
