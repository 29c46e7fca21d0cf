//! Creating and deleting streams, and using a name again.

use futures_util::future::join_all;

use super::Opener;
use super::test_store::{TestStore, refusal, text};
use tidewire_store::command::{Answer, Append, Create, Refusal};
use tidewire_store::offset::Position;
use tidewire_store::stream::Lifetime;
use tidewire_store::testing::commands::{
    JSON, append, close, create, create_json, delete, fork, stamped,
};

/// A stream made without a content type holds bytes; an empty one is at the start, however far the
/// log has come.
pub async fn an_empty_stream_is_at_the_start(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("other").await;
    store.append_text("other", "x").await;
    let tail = store.create(Create { content_type: None, ..create("a") }).await;
    assert_eq!(tail, Position::START);
    let view = store.view("a").await;
    assert_eq!(view.tail, Position::START);
    assert_eq!(view.state.content_type, "application/octet-stream");
    assert_eq!(view.state.lifetime, Lifetime::Forever);
    assert!(store.events("a").await.is_empty());
}

/// The first content is there as soon as the stream is.
pub async fn first_content_arrives_with_its_stream(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let messages = ["1", "2"].map(|text| text.to_owned().into()).to_vec();
    let tail = store.create(Create { messages, ..create_json("a") }).await;
    let events = store.events("a").await;
    let payloads: Vec<String> = events.iter().map(|event| text(&event.payload)).collect();
    assert_eq!(payloads, ["1", "2"]);
    assert_eq!(events[0].append_id, events[1].append_id);
    assert_eq!((tail, store.view("a").await.tail), (events[1].position, events[1].position));
}

/// A repeated creation with the same configuration confirms the stream and changes nothing.
pub async fn creating_the_same_again_confirms_it(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let lifetime = Some(Lifetime::Sliding { ttl_s: 3600 });
    let until = Some(Lifetime::Until { at_ms: 4_000_000_000_000 });
    let content_type = Some("TEXT/plain; charset=utf-8".to_owned());
    for (first, again) in [
        (create("plain"), create("plain")),
        (create("case"), Create { content_type, ..create("case") }),
        (Create { lifetime, ..create("ttl") }, Create { lifetime, ..create("ttl") }),
        (
            Create { lifetime: until, ..create("until") },
            Create { lifetime: until, ..create("until") },
        ),
        (create("forever"), Create { lifetime: Some(Lifetime::Forever), ..create("forever") }),
        (Create { closed: true, ..create("closed") }, Create { closed: true, ..create("closed") }),
        (fork("plain", "fork"), fork("plain", "fork")),
        (fork("ttl", "inherits"), fork("ttl", "inherits")),
    ] {
        let name = first.stream.clone();
        let Answer::Created { new: true, state, tail } = store.creates(first).await else {
            panic!("{name} was not made");
        };
        let tip = store.log_tip().await;
        // The content of a repeated creation is not appended: the stream was there.
        let again = Create { messages: vec!["more".to_owned().into()], ..again };
        let answer = store.creates(again).await;
        assert_eq!(answer, Answer::Created { new: false, state, tail }, "{name}");
        assert_eq!(store.log_tip().await, tip, "{name}: confirming writes nothing");
    }
}

/// A repeated creation with another configuration is refused and says what differs.
pub async fn creating_with_another_configuration_is_refused(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("a").await;
    store.create_text("source").await;
    store.create(fork("source", "forked")).await;
    let lifetime = Some(Lifetime::Sliding { ttl_s: 60 });
    for (again, what) in [
        (create_json("a"), "content type"),
        (Create { content_type: None, ..create("a") }, "content type"),
        (Create { lifetime, ..create("a") }, "time to live"),
        (Create { closed: true, ..create("a") }, "closed state"),
        (fork("source", "a"), "fork"),
        (create("forked"), "fork"),
        (fork("a", "forked"), "fork"),
    ] {
        let answer = store.creates(again.clone()).await;
        assert_eq!(refusal(answer), Refusal::ConfigurationDiffers { what }, "{again:?}");
    }
    store.append(close("a")).await;
    let expected = Refusal::ConfigurationDiffers { what: "closed state" };
    assert_eq!(refusal(store.creates(create("a")).await), expected);
}

/// Of creations that race, one makes the stream and the others find it.
pub async fn racing_creations_make_one_stream(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let answers = join_all((0..16).map(|_| store.creates(create("a")))).await;
    let made = answers.iter().filter(|a| matches!(a, Answer::Created { new: true, .. })).count();
    let found = answers.iter().filter(|a| matches!(a, Answer::Created { new: false, .. })).count();
    assert_eq!((made, found), (1, 15));
    assert_eq!(store.log_tip().await, Position::new(1));
}

/// Deleting takes the stream away for readers and writers alike.
pub async fn a_deleted_stream_is_gone(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("a").await;
    store.append_text("a", "x").await;
    store.delete("a").await;
    assert!(!store.is_found("a").await);
    assert_eq!(refusal(store.appends(append("a", "y")).await), Refusal::NotFound);
    assert_eq!(refusal(store.ask(delete("a")).await), Refusal::NotFound);
    assert_eq!(refusal(store.ask(delete("never")).await), Refusal::NotFound);
}

/// A stream made under a name that was used before starts from nothing: no events, no producers,
/// no `Stream-Seq`, not closed.
pub async fn a_recreated_stream_does_not_show_its_predecessor(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("a").await;
    store.append(stamped("a", "old", "p", 3, 0)).await;
    store.append(Append { seq: Some("9".to_owned()), ..append("a", "old") }).await;
    let old_tail = store.append(Append { close: true, ..append("a", "old end") }).await;
    store.delete("a").await;

    assert_eq!(store.create(create_json("a")).await, Position::START);
    assert!(store.events("a").await.is_empty());
    assert_eq!(store.view("a").await.tail, Position::START);
    let producer = stamped("a", "1", "p", 0, 0);
    let content_type = Some(JSON.to_owned());
    let seq = Some("1".to_owned());
    let tail = store.append(Append { content_type, seq, ..producer }).await;
    assert!(tail > old_tail, "positions are never used again");
    assert_eq!(store.texts("a").await, ["1"]);
}

/// Nor does one whose predecessor went in the same commit.
pub async fn a_stream_may_be_deleted_and_made_anew_in_one_commit(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("a").await;
    store.create_text("b").await;
    store.append(stamped("a", "old", "p", 5, 0)).await;
    // While the first append is being committed the others wait, so they share a commit.
    let (_, deleted, made, tail) = tokio::join!(
        biased;
        store.append_text("b", "x"),
        store.ask(delete("a")),
        store.creates(create("a")),
        store.append_text("a", "new"),
    );
    assert_eq!(deleted, Answer::Done);
    assert!(matches!(made, Answer::Created { new: true, tail: Position::START, .. }), "{made:?}");
    assert_eq!(store.view("a").await.tail, tail);
    assert_eq!(store.texts("a").await, ["new"]);
    store.append(stamped("a", "from a new producer", "p", 0, 0)).await;
}

/// Purging a deleted stream's events never takes the tip back, so positions keep rising.
pub async fn positions_keep_rising_after_everything_is_deleted(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let mut highest = Position::START;
    for round in 0..3 {
        store.create_text("a").await;
        let tail = store.append_text("a", "x").await;
        assert!(tail > highest, "round {round}: {tail:?} after {highest:?}");
        store.delete("a").await;
        highest = store.log_tip().await;
        assert!(highest > tail, "deletion has a place in the log");
        store.sweep().await.expect("the sweep runs");
        assert_eq!(store.log_tip().await, highest, "the sweep takes nothing off the tip");
    }
}
