//! Forks: streams that begin with another's content, without copying it.

use super::Opener;
use super::test_store::{EVERYTHING, TestStore, refusal, text};
use tidewire_store::command::{Append, Create, Refusal};
use tidewire_store::log::PageLimit;
use tidewire_store::offset::Position;
use tidewire_store::stream::Lifetime;
use tidewire_store::testing::commands::{
    JSON, append, append_json, close, create, create_json, fork, fork_at, stamped,
};

/// A stream with these texts; returns their positions.
async fn source(store: &TestStore, stream: &str, texts: &[&str]) -> Vec<Position> {
    store.create_text(stream).await;
    let mut positions = Vec::new();
    for text in texts {
        positions.push(store.append_text(stream, text).await);
    }
    positions
}

/// A fork shows all that its source held, at the same positions, and grows on its own.
pub async fn a_fork_continues_where_its_source_stood(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let positions = source(&store, "a", &["1", "2"]).await;
    assert_eq!(store.create(fork("a", "b")).await, positions[1], "it ends where its source does");
    store.append_text("b", "b3").await;
    store.append_text("a", "a3").await;
    assert_eq!(store.texts("b").await, ["1", "2", "b3"]);
    assert_eq!(store.texts("a").await, ["1", "2", "a3"], "nor does the source see its fork");
    let shared: Vec<Position> = store.events("b").await.iter().map(|e| e.position).collect();
    assert_eq!(shared[..2], positions);
}

/// A fork at an offset shows its source up to that offset.
pub async fn a_fork_may_start_at_any_offset(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let positions = source(&store, "a", &["1", "2", "3"]).await;
    let starts = [Position::START, positions[0], positions[1], positions[2]];
    for (kept, start) in starts.into_iter().enumerate() {
        let name = format!("fork-{kept}");
        assert_eq!(store.create(fork_at("a", start, 0, &name)).await, start);
        store.append_text(&name, "own").await;
        let expected: Vec<&str> = ["1", "2", "3"].into_iter().take(kept).chain(["own"]).collect();
        assert_eq!(store.texts(&name).await, expected, "{name}");
    }
}

/// What a fork is made with comes after what it inherits; closing it leaves its source open.
pub async fn first_content_of_a_fork_follows_what_it_inherits(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    source(&store, "a", &["1"]).await;
    let messages = vec!["2".to_owned().into()];
    store.create(Create { messages, closed: true, ..fork("a", "b") }).await;
    assert_eq!(store.texts("b").await, ["1", "2"]);
    let tail = store.view("b").await.tail;
    assert_eq!(refusal(store.appends(append("b", "x")).await), Refusal::Closed { tail });
    store.append_text("a", "the source is open").await;
}

/// A fork without content of its own ends, and can be closed, where it left its source.
pub async fn a_fork_can_be_closed_where_it_starts(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let positions = source(&store, "a", &["1", "2"]).await;
    store.create(fork_at("a", positions[0], 0, "b")).await;
    assert_eq!(store.append(close("b")).await, positions[0]);
    assert_eq!(store.texts("b").await, ["1"]);
    let page = store.page("b", Position::START, EVERYTHING).await;
    assert!(page.up_to_date());
}

/// Forks of forks see through all their sources, each up to where it was left.
pub async fn forks_of_forks_see_through_all_their_sources(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let a = source(&store, "a", &["a1", "a2"]).await;
    store.create(fork_at("a", a[0], 0, "b")).await;
    let b2 = store.append_text("b", "b2").await;
    store.append_text("b", "b3").await;
    store.create(fork_at("b", b2, 0, "c")).await;
    store.append_text("c", "c3").await;
    // This one leaves the middle stream before that has anything of its own.
    store.create(fork_at("b", a[0], 0, "d")).await;
    store.append_text("d", "d2").await;
    for stream in ["a", "b"] {
        store.append_text(stream, "later").await;
    }
    assert_eq!(store.texts("c").await, ["a1", "b2", "c3"]);
    assert_eq!(store.texts("d").await, ["a1", "d2"]);
    let (mut after, mut paged) = (Position::START, Vec::new());
    loop {
        let page = store.page("c", after, PageLimit { events: 1, ..EVERYTHING }).await;
        paged.extend(page.events.iter().map(|event| text(&event.payload)));
        if page.up_to_date() {
            break;
        }
        after = page.next(after);
    }
    assert_eq!(paged, ["a1", "b2", "c3"], "pages join across the sources");
}

/// In byte mode a sub-offset counts bytes of the append after the offset.
pub async fn a_sub_offset_cuts_bytes(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let positions = source(&store, "a", &["first", "second"]).await;
    store.create(fork_at("a", positions[0], 3, "b")).await;
    assert_eq!(store.texts("b").await.concat(), "firstsec");
    store.create(fork_at("a", positions[0], 6, "whole")).await;
    assert_eq!(store.texts("whole").await.concat(), "firstsecond");
    store.create(fork_at("b", Position::START, 2, "c")).await;
    assert_eq!(store.texts("c").await.concat(), "fi", "a fork of a fork, cut in what it inherits");
    for (offset, sub_offset, max) in [(positions[0], 7, 6), (positions[1], 1, 0)] {
        let answer = store.creates(fork_at("a", offset, sub_offset, "no")).await;
        assert_eq!(refusal(answer), Refusal::SubOffsetTooLarge { max }, "{offset:?}+{sub_offset}");
    }
}

/// In JSON mode a sub-offset counts messages of the append after the offset.
pub async fn a_sub_offset_counts_json_messages(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create(create_json("a")).await;
    let first = store.append(append_json("a", &["1", "2", "3"])).await;
    store.append(append_json("a", &["4", "5"])).await;
    for (offset, sub_offset, expected) in [
        (Position::START, 2, &["1", "2"][..]),
        (Position::START, 3, &["1", "2", "3"]),
        (first, 1, &["1", "2", "3", "4"]),
    ] {
        let name = format!("{}+{sub_offset}", offset.number());
        store.create(fork_at("a", offset, sub_offset, &name)).await;
        assert_eq!(store.texts(&name).await, expected, "{name}");
    }
    for (offset, sub_offset, max) in [(Position::START, 4, 3), (first, 3, 2)] {
        let answer = store.creates(fork_at("a", offset, sub_offset, "no")).await;
        assert_eq!(refusal(answer), Refusal::SubOffsetTooLarge { max }, "{offset:?}+{sub_offset}");
    }
    store.create(fork_at("a", Position::START, 2, "b")).await;
    store.append(append_json("b", &["own"])).await;
    assert_eq!(store.texts("b").await, ["1", "2", "own"]);
}

/// A fork takes its source's content type and lifetime unless it has its own; producers,
/// `Stream-Seq` and closing stay behind.
pub async fn a_fork_inherits_type_and_lifetime_only(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let lifetime = Some(Lifetime::Sliding { ttl_s: 3600 });
    store.create(Create { lifetime, ..create("a") }).await;
    store.append(stamped("a", "1", "p", 5, 0)).await;
    store.append(Append { seq: Some("9".to_owned()), close: true, ..append("a", "2") }).await;
    store.create(fork("a", "b")).await;
    let state = store.view("b").await.state;
    assert_eq!(state.content_type, "text/plain");
    assert_eq!((Some(state.lifetime), state.closed, state.last_seq), (lifetime, None, None));
    store.append(Append { seq: Some("1".to_owned()), ..stamped("b", "3", "p", 0, 0) }).await;
    assert_eq!(store.texts("b").await, ["1", "2", "3"]);

    let lifetime = Some(Lifetime::Forever);
    store.create(Create { lifetime, ..fork("a", "c") }).await;
    assert_eq!(store.view("c").await.state.lifetime, Lifetime::Forever);
}

/// Forks that cannot be made are refused, each for its own reason, and leave no trace.
pub async fn an_impossible_fork_is_refused(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let tail = source(&store, "a", &["1"]).await[0];
    store.create_text("later").await;
    let content_type = Some(JSON.to_owned());
    let expected = "text/plain".to_owned();
    for (create, reason) in [
        (fork("missing", "b"), Refusal::SourceNotFound),
        (fork("b", "b"), Refusal::SourceNotFound),
        (fork_at("a", tail.next(), 0, "b"), Refusal::ForkBeyondTail { tail }),
        (Create { content_type, ..fork("a", "b") }, Refusal::SourceContentTypeDiffers { expected }),
    ] {
        assert_eq!(refusal(store.creates(create.clone()).await), reason, "{create:?}");
    }
    assert!(!store.is_found("b").await);
    assert_eq!(store.view("a").await.state.forks, 0);
}

/// Reading a fork walks its chain, so the chain has a limit.
pub async fn a_chain_of_forks_has_a_limit(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    source(&store, "0", &["root"]).await;
    let mut last = 0;
    let refused = loop {
        let (from, to) = (last.to_string(), (last + 1).to_string());
        match store.creates(fork(&from, &to)).await {
            tidewire_store::Answer::Created { .. } => last += 1,
            answer => break refusal(answer),
        }
        assert!(last < 1_000, "there is no limit");
    };
    let max = last;
    assert_eq!(refused, Refusal::ForkTooDeep { max });
    assert_eq!(store.texts(&max.to_string()).await, ["root"], "the longest chain can be read");
}
