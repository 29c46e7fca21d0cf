//! Closing streams: atomic with the last append, for ever, and forgiving of retries.

use futures_util::future::join_all;

use super::Opener;
use super::test_store::{TestStore, refusal};
use tidewire_store::command::{Answer, Append, Create, Refusal};
use tidewire_store::offset::Position;
use tidewire_store::stream::{Closed, ProducerStamp};
use tidewire_store::testing::commands::{append, close, create, stamped};

/// A closed stream takes nothing more and says where it ended.
pub async fn a_closed_stream_takes_nothing_more(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("a").await;
    store.append_text("a", "x").await;
    let answer = store.appends(Append { close: true, ..append("a", "end") }).await;
    let Answer::Appended { tail, closed: true } = answer else {
        panic!("expected the stream to close, got {answer:?}");
    };
    for late in [append("a", "late"), Append { close: true, ..append("a", "late") }] {
        assert_eq!(refusal(store.appends(late).await), Refusal::Closed { tail });
    }
    assert_eq!(store.texts("a").await, ["x", "end"]);
    let view = store.view("a").await;
    assert_eq!(view.tail, tail);
    assert_eq!(view.state.closed, Some(Closed { position: tail, by: None }));
}

/// Closing without content is done once, needs no content type, and may be said again.
pub async fn closing_twice_is_as_good_as_once(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("a").await;
    let tail = store.append_text("a", "x").await;
    let first = store.appends(close("a")).await;
    let tip = store.log_tip().await;
    let second = store.appends(close("a")).await;
    assert_eq!(first, Answer::Appended { tail, closed: true });
    assert_eq!(second, first);
    assert_eq!(store.log_tip().await, tip, "the second one writes nothing");
}

/// A stream without content ends where it began.
pub async fn an_empty_stream_can_be_closed(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("later").await;
    let closed = Answer::Appended { tail: Position::START, closed: true };
    assert_eq!(store.appends(close("later")).await, closed);
    store.create(Create { closed: true, ..create("at-once") }).await;
    for stream in ["later", "at-once"] {
        let expected = Refusal::Closed { tail: Position::START };
        assert_eq!(refusal(store.appends(append(stream, "x")).await), expected, "{stream}");
    }
}

/// A stream can be made whole: with its content and closed.
pub async fn a_stream_may_be_closed_from_the_start(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let messages = vec!["all there is".to_owned().into()];
    let tail = store.create(Create { messages, closed: true, ..create("a") }).await;
    assert_eq!(store.texts("a").await, ["all there is"]);
    assert_eq!(refusal(store.appends(append("a", "x")).await), Refusal::Closed { tail });
}

/// The producer that closed a stream may retry; it gets its success again. Another stamp, even of
/// the same producer, is late.
pub async fn the_closing_producers_retry_succeeds(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("a").await;
    store.append(stamped("a", "x", "p", 1, 0)).await;
    let closing = Append { close: true, ..stamped("a", "end", "p", 1, 1) };
    let tail = store.append(closing.clone()).await;
    let by = Some(ProducerStamp { id: "p".to_owned(), epoch: 1, seq: 1 });
    assert_eq!(store.view("a").await.state.closed, Some(Closed { position: tail, by }));

    let again = Answer::Duplicate { tail, seq: 1, closed: true };
    assert_eq!(store.appends(closing).await, again);
    let closed = Refusal::Closed { tail };
    assert_eq!(refusal(store.appends(stamped("a", "x", "p", 1, 0)).await), closed);
    assert_eq!(refusal(store.appends(stamped("a", "y", "p", 1, 2)).await), closed);
    assert_eq!(refusal(store.appends(stamped("a", "y", "q", 0, 0)).await), closed);
    assert_eq!(store.texts("a").await, ["x", "end"]);
}

/// A producer may close without content; its retry is known, and any other stamp is late.
pub async fn a_producer_may_close_without_content(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("a").await;
    let tail = store.append(stamped("a", "x", "p", 0, 0)).await;
    let closing = |id: &str, seq: u64| Append {
        producer: stamped("a", "", id, 0, seq).producer,
        ..close("a")
    };
    let closed = Answer::Appended { tail, closed: true };
    assert_eq!(store.appends(closing("p", 1)).await, closed);
    let (seq, closed) = (1, true);
    let again = Answer::Duplicate { tail, seq, closed };
    assert_eq!(store.appends(closing("p", 1)).await, again);
    for late in [closing("p", 2), closing("q", 0)] {
        assert_eq!(refusal(store.appends(late).await), Refusal::Closed { tail });
    }
}

/// A zombie learns that it is one, even from a closed stream.
pub async fn a_stale_epoch_is_told_apart_from_a_closed_stream(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("a").await;
    store.append(Append { close: true, ..stamped("a", "end", "p", 2, 0) }).await;
    let answer = store.appends(stamped("a", "x", "p", 1, 0)).await;
    assert_eq!(refusal(answer), Refusal::StaleEpoch { current: 2 });
}

/// Of appends that race to close a stream, one gets in and the others learn where it ended.
pub async fn one_of_racing_closers_wins(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("a").await;
    let closing = |body: usize| Append { close: true, ..append("a", &body.to_string()) };
    let answers = join_all((0..8).map(|body| store.appends(closing(body)))).await;
    let tail = store.view("a").await.tail;
    let won = answers.iter().filter(|a| **a == Answer::Appended { tail, closed: true }).count();
    let late = answers.iter().filter(|a| **a == Answer::Refused(Refusal::Closed { tail })).count();
    assert_eq!((won, late), (1, 7), "{answers:?}");
    assert_eq!(store.texts("a").await.len(), 1);
}
