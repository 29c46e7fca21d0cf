//! Tests of the protocol's rules: the order of checks, and commands that affect each other within a
//! batch.

mod announcing;
mod model;
mod property;
mod tenants;

use model::Model;

use crate::command::{Answer, Append, Command, Create, Refusal};
use crate::event::Control;
use crate::offset::Position;
use crate::stream::Lifetime;
use crate::testing::commands::{
    JSON, TEXT, append, append_json, close, create, create_json, delete, fork, fork_at, stamped,
    touch,
};

fn made(create: Create) -> Command {
    Command::Create(Box::new(create))
}

fn appended(append: Append) -> Command {
    Command::Append(append)
}

/// What came of commands, in a word each.
fn words(answers: &[Answer]) -> Vec<&'static str> {
    let word = |answer: &Answer| match answer {
        Answer::Created { new: true, .. } => "made",
        Answer::Created { new: false, .. } => "found",
        Answer::Appended { closed: false, .. } => "appended",
        Answer::Appended { closed: true, .. } => "closed",
        Answer::Duplicate { .. } => "duplicate",
        Answer::Done => "done",
        Answer::Refused(Refusal::NotFound) => "not found",
        Answer::Refused(Refusal::Gone) => "gone",
        Answer::Refused(Refusal::Closed { .. }) => "refused: closed",
        Answer::Refused(Refusal::ContentTypeDiffers { .. }) => "refused: type",
        Answer::Refused(Refusal::StaleEpoch { .. }) => "refused: stale",
        Answer::Refused(Refusal::SeqGap { .. }) => "refused: gap",
        Answer::Refused(Refusal::EpochStartsAtZero) => "refused: epoch",
        Answer::Refused(Refusal::SeqNotRising { .. }) => "refused: seq",
        Answer::Refused(Refusal::NameTaken) => "refused: taken",
        Answer::Refused(Refusal::NameHeldByForks) => "refused: held",
        Answer::Refused(Refusal::SourceNotFound) => "refused: no source",
        Answer::Refused(_) => "refused",
    };
    answers.iter().map(word).collect()
}

/// Streams `open` and `closed`, each with the producer `p` at epoch 3, number 1, and the
/// `Stream-Seq` 5; `hidden`, deleted but forked.
fn streams_with_history() -> Model {
    let mut model = Model::at(0);
    for stream in ["open", "closed", "hidden"] {
        let seq = |text: &str| Some(text.to_owned());
        model.batch(&[
            made(create(stream)),
            appended(Append { seq: seq("4"), ..stamped(stream, "x", "p", 3, 0) }),
            appended(Append { seq: seq("5"), ..stamped(stream, "x", "p", 3, 1) }),
        ]);
    }
    model.one(appended(close("closed")));
    model.one(made(fork("hidden", "fork")));
    model.one(delete("hidden"));
    model
}

#[test]
fn an_append_is_checked_in_the_protocols_order() {
    let history = streams_with_history();
    // What is wrong with the append: its type, its stamp, its Stream-Seq.
    for (content_type, (epoch, number), seq, open, closed) in [
        (TEXT, (3, 2), "6", "appended", "refused: closed"),
        (JSON, (2, 0), "1", "refused: type", "refused: stale"),
        (JSON, (3, 9), "1", "refused: type", "refused: closed"),
        (JSON, (3, 1), "1", "refused: type", "refused: closed"),
        (JSON, (3, 2), "6", "refused: type", "refused: closed"),
        (TEXT, (2, 2), "1", "refused: stale", "refused: stale"),
        (TEXT, (3, 9), "1", "refused: gap", "refused: closed"),
        (TEXT, (4, 1), "1", "refused: epoch", "refused: closed"),
        (TEXT, (3, 1), "1", "duplicate", "refused: closed"),
        (TEXT, (3, 2), "5", "refused: seq", "refused: closed"),
        (TEXT, (4, 0), "1", "refused: seq", "refused: closed"),
    ] {
        for (stream, expected) in
            [("open", open), ("closed", closed), ("hidden", "gone"), ("missing", "not found")]
        {
            let command = Append {
                content_type: Some(content_type.to_owned()),
                seq: Some(seq.to_owned()),
                ..stamped(stream, "y", "p", epoch, number)
            };
            let about = format!("{stream}, {content_type}, {epoch}/{number}, seq {seq}");
            let mut model = history.clone();
            let answer = model.one(appended(command));
            assert_eq!(words(&[answer]), [expected], "{about}");
            let wrote = model.events.len() > history.events.len();
            assert_eq!(wrote, expected == "appended", "{about}: only an accepted append writes");
            let producers_moved = model.producers != history.producers;
            assert_eq!(producers_moved, expected == "appended", "{about}: or moves the producer");
        }
    }
}

#[test]
fn commands_of_a_batch_see_the_earlier_ones() {
    let mut model = Model::at(0);
    let answers = model.batch(&[
        appended(append("a", "too early")),
        made(create("a")),
        made(create("a")),
        made(create_json("a")),
        appended(append("a", "1")),
        appended(stamped("a", "2", "p", 0, 0)),
        appended(stamped("a", "2", "p", 0, 0)),
        appended(close("a")),
        appended(close("a")),
        appended(append("a", "too late")),
        delete("a"),
        delete("a"),
    ]);
    assert_eq!(
        words(&answers),
        [
            "not found",
            "made",
            "found",
            "refused",
            "appended",
            "appended",
            "duplicate",
            "closed",
            "closed",
            "refused: closed",
            "done",
            "not found"
        ]
    );
    let controls: Vec<Option<Control>> = model.events.iter().map(|event| event.control).collect();
    let (create, close, delete) = (Control::Create, Control::Close, Control::Delete);
    assert_eq!(controls, [Some(create), None, None, Some(close), Some(delete)]);
    assert!(model.streams.is_empty() && model.producers.is_empty());
}

#[test]
fn a_stream_made_anew_in_the_same_batch_forgets_its_producers() {
    let mut model = Model::at(0);
    model.batch(&[
        made(create("a")),
        appended(stamped("a", "old", "p", 5, 0)),
        appended(stamped("a", "old", "q", 5, 0)),
    ]);
    let answers = model.batch(&[
        appended(stamped("a", "old", "p", 5, 1)),
        delete("a"),
        made(create("a")),
        appended(stamped("a", "new", "p", 0, 0)),
        appended(close("a")),
    ]);
    assert_eq!(words(&answers), ["appended", "done", "made", "appended", "closed"]);
    assert_eq!(model.texts("a"), ["new"]);
    let producers: Vec<(&str, u64)> =
        model.producers.iter().map(|((_, id), state)| (id.as_str(), state.epoch)).collect();
    assert_eq!(producers, [("p", 0)], "q is forgotten though no command names it");
    assert_eq!(answers[4], Answer::Appended { tail: Position::new(7), closed: true });
}

#[test]
fn a_stream_made_anew_in_the_same_batch_is_empty() {
    let mut model = Model::at(0);
    let answers = model.batch(&[
        made(create("a")),
        appended(append("a", "old")),
        delete("a"),
        made(create("a")),
        made(create("a")),
        appended(close("a")),
    ]);
    assert_eq!(words(&answers), ["made", "appended", "done", "made", "found", "closed"]);
    for answer in &answers[3..] {
        let (Answer::Created { tail, .. } | Answer::Appended { tail, .. }) = answer else {
            panic!("{answer:?} has no end");
        };
        assert_eq!(*tail, Position::START);
    }
    let purge = &model.purges[0];
    let range = (purge.after.number(), purge.up_to.number());
    assert_eq!((purge.stream.as_str(), range), ("a", (1, 3)), "the old events, and no others");
}

#[test]
fn forks_are_counted_within_a_batch() {
    for order in [["a", "b"], ["b", "a"]] {
        let mut model = Model::at(0);
        model.one(made(create("a")));
        model.one(made(fork("a", "b")));
        assert_eq!(model.streams["a"].forks, 1);
        let answers = model.batch(&order.map(delete));
        assert_eq!(words(&answers), ["done", "done"], "{order:?}");
        assert!(model.streams.is_empty(), "{order:?}: {:?}", model.streams);
        assert_eq!(model.purges.len(), 2, "{order:?}: the events of both are given up");
    }
}

#[test]
fn a_fork_that_cannot_be_made_is_not_counted() {
    let mut model = Model::at(0);
    model.batch(&[made(create_json("a")), appended(append_json("a", &["1", "2"]))]);
    for refused in [fork_at("a", Position::new(9), 0, "b"), fork_at("a", Position::START, 3, "b")] {
        assert_eq!(words(&[model.one(made(refused))]), ["refused"]);
    }
    assert_eq!(model.streams["a"].forks, 0);
    model.one(made(fork_at("a", Position::START, 1, "b")));
    assert_eq!((model.streams["a"].forks, model.texts("b")), (1, vec!["1".to_owned()]));
}

#[test]
fn a_stream_expires_inside_a_batch() {
    let mut model = Model::at(100);
    let until = Some(Lifetime::Until { at_ms: 200 });
    model.one(made(Create { lifetime: until, messages: vec!["old".into()], ..create("a") }));
    model.now_ms = 200;
    let answers = model.batch(&[
        touch("a"),
        appended(append("a", "x")),
        made(create("a")),
        appended(append("a", "new")),
        Command::Expire { stream: "a".to_owned() },
    ]);
    assert_eq!(words(&answers), ["done", "not found", "made", "appended", "done"]);
    assert_eq!(model.texts("a"), ["new"]);
    let expired = model.events.iter().filter(|e| e.control == Some(Control::Expire)).count();
    assert_eq!(expired, 1);
}

#[test]
fn a_sliding_lifetime_is_renewed_when_that_moves_it_by_a_sixteenth() {
    let mut model = Model::at(0);
    let lifetime = Some(Lifetime::Sliding { ttl_s: 16 });
    model.one(made(Create { lifetime, ..create("a") }));
    for (now_ms, expires_at_ms) in
        [(1_000, 16_000), (1_001, 17_001), (2_001, 17_001), (17_000, 33_000), (33_000, 33_000)]
    {
        model.now_ms = now_ms;
        model.one(touch("a"));
        assert_eq!(model.streams["a"].expires_at_ms, Some(expires_at_ms), "at {now_ms}");
    }
    let answer = model.one(appended(append("a", "x")));
    assert_eq!(words(&[answer]), ["not found"], "its last moment is over at that moment");
}
