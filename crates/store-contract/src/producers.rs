//! Idempotent producers: retries take effect once, zombies are fenced off.

use futures_util::future::join_all;

use super::Opener;
use super::test_store::{TestStore, refusal};
use tidewire_store::command::{Answer, Append, Refusal};
use tidewire_store::offset::Position;
use tidewire_store::testing::commands::{JSON, append, create, stamped};

/// What is expected of an append.
enum Expected {
    Accepted,
    /// A duplicate; the highest number accepted so far.
    Duplicate(u64),
    Refused(Refusal),
}

/// All rules of one producer's stamps, one after the other.
pub async fn a_producers_stamps_are_checked(data: &dyn Opener) {
    use Expected::{Accepted, Duplicate, Refused};
    let gap = |expected, received| Refused(Refusal::SeqGap { expected, received });
    let stale = |current| Refused(Refusal::StaleEpoch { current });
    let store = TestStore::open(data).await;
    store.create_text("a").await;
    let mut tail = Position::START;
    let mut texts = Vec::new();
    for (step, (epoch, seq, expected)) in [
        (0, 1, gap(0, 1)),
        (0, 0, Accepted),
        (0, 0, Duplicate(0)),
        (0, 2, gap(1, 2)),
        (0, 1, Accepted),
        (0, 2, Accepted),
        (0, 1, Duplicate(2)),
        (1, 1, Refused(Refusal::EpochStartsAtZero)),
        (0, 3, Accepted),
        (7, 0, Accepted),
        (7, 0, Duplicate(0)),
        (0, 4, stale(7)),
        (6, 0, stale(7)),
        (7, 1, Accepted),
        (7, 9, gap(2, 9)),
    ]
    .into_iter()
    .enumerate()
    {
        let body = format!("step {step}");
        let answer = store.appends(stamped("a", &body, "p", epoch, seq)).await;
        match expected {
            Accepted => {
                let Answer::Appended { tail: new, closed: false } = answer else {
                    panic!("{body}: expected an accepted append, got {answer:?}");
                };
                tail = new;
                texts.push(body);
            }
            Duplicate(seq) => {
                assert_eq!(answer, Answer::Duplicate { tail, seq, closed: false }, "{body}");
            }
            Refused(reason) => assert_eq!(refusal(answer), reason, "{body}"),
        }
    }
    assert_eq!(store.texts("a").await, texts);
}

/// Producers are known by stream and id, and each has its own numbers.
pub async fn producers_do_not_know_of_each_other(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    for stream in ["a", "b"] {
        store.create_text(stream).await;
        for id in ["p", "q"] {
            store.append(stamped(stream, id, id, 0, 0)).await;
        }
        assert_eq!(store.texts(stream).await, ["p", "q"]);
    }
}

/// An unknown producer may start at any epoch.
pub async fn a_producer_may_start_at_any_epoch(data: &dyn Opener) {
    const LARGEST: u64 = (1 << 53) - 1;
    let store = TestStore::open(data).await;
    store.create_text("a").await;
    store.append(stamped("a", "x", "p", LARGEST, 0)).await;
    let answer = store.appends(stamped("a", "y", "p", 5, 0)).await;
    assert_eq!(refusal(answer), Refusal::StaleEpoch { current: LARGEST });
}

/// However often an append is sent at once, it takes effect once.
pub async fn racing_retries_take_effect_once(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("a").await;
    let answers = join_all((0..16).map(|_| store.appends(stamped("a", "x", "p", 0, 0)))).await;
    let accepted = answers.iter().filter(|a| matches!(a, Answer::Appended { .. })).count();
    let duplicates = answers.iter().filter(|a| matches!(a, Answer::Duplicate { .. })).count();
    assert_eq!((accepted, duplicates), (1, 15), "{answers:?}");
    assert_eq!(store.texts("a").await, ["x"]);
}

/// A producer may have many appends under way; they arrive in order.
pub async fn a_producer_may_pipeline(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("a").await;
    let bodies: Vec<String> = (0..40).map(|seq: u64| seq.to_string()).collect();
    join_all((0..40).map(|seq| store.append(stamped("a", &seq.to_string(), "p", 0, seq)))).await;
    assert_eq!(store.texts("a").await, bodies);
}

/// A duplicate writes nothing, and is answered before `Stream-Seq` is looked at: a retry carries
/// the same one.
pub async fn a_retry_with_its_stream_seq_is_a_duplicate(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("a").await;
    let command = Append { seq: Some("1".to_owned()), ..stamped("a", "x", "p", 0, 0) };
    let tail = store.append(command.clone()).await;
    store.append_text("a", "another's").await;
    let tip = store.log_tip().await;
    let answer = store.appends(command).await;
    assert_eq!(answer, Answer::Duplicate { tail, seq: 0, closed: false });
    assert_eq!(store.log_tip().await, tip);
}

/// A stamp on a refused append is not used up.
pub async fn a_refused_append_does_not_move_its_producer(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create(create("a")).await;
    store.append(Append { seq: Some("5".to_owned()), ..append("a", "first") }).await;
    let content_type = Some(JSON.to_owned());
    let seq = Some("4".to_owned());
    for refused in [
        Append { content_type, ..stamped("a", "x", "p", 0, 0) },
        Append { seq, ..stamped("a", "x", "p", 0, 0) },
        stamped("a", "x", "p", 0, 1),
    ] {
        refusal(store.appends(refused).await);
    }
    store.append(stamped("a", "second", "p", 0, 0)).await;
    assert_eq!(store.texts("a").await, ["first", "second"]);
}
