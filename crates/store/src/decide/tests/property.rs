//! Random commands: a batch is worth as much as its commands one by one, and whatever is decided,
//! the books balance.

use proptest::prelude::*;

use super::model::Model;
use crate::command::{Answer, Append, Command, Create, ForkFrom};
use crate::contract::commands::{JSON, TEXT, append, append_json, create};
use crate::offset::Position;
use crate::stream::{Lifetime, ProducerStamp};

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c"]).prop_map(str::to_owned)
}

fn content_type() -> impl Strategy<Value = Option<String>> {
    prop::sample::select(vec![None, Some(JSON), Some(JSON), Some(JSON), Some(TEXT)])
        .prop_map(|content_type| content_type.map(str::to_owned))
}

fn lifetime() -> impl Strategy<Value = Option<Lifetime>> {
    prop_oneof![
        4 => Just(None),
        1 => (0..3u64).prop_map(|ttl_s| Some(Lifetime::Sliding { ttl_s })),
        1 => (0..6_000i64).prop_map(|at_ms| Some(Lifetime::Until { at_ms })),
    ]
}

fn messages() -> impl Strategy<Value = Vec<bytes::Bytes>> {
    prop::collection::vec("[0-9]{1,3}".prop_map(bytes::Bytes::from), 0..3)
}

fn fork() -> impl Strategy<Value = Option<ForkFrom>> {
    let offset = prop::option::of((0..20u64).prop_map(Position::new));
    let from = (name(), offset, 0..3u64).prop_map(|(source, offset, sub_offset)| ForkFrom {
        source,
        offset,
        sub_offset,
    });
    prop::option::weighted(0.2, from)
}

fn creation() -> impl Strategy<Value = Command> {
    (name(), content_type(), lifetime(), messages(), prop::bool::weighted(0.1), fork()).prop_map(
        |(stream, content_type, lifetime, messages, closed, fork)| {
            let create =
                Create { content_type, lifetime, messages, closed, fork, ..create(&stream) };
            Command::Create(Box::new(create))
        },
    )
}

fn appending() -> impl Strategy<Value = Command> {
    let id = prop::sample::select(vec!["p", "q"]).prop_map(str::to_owned);
    let stamp =
        (id, 0..2u64, 0..2u64).prop_map(|(id, epoch, seq)| ProducerStamp { id, epoch, seq });
    let seq = prop::option::weighted(0.2, "[1-9]");
    let closes = prop::bool::weighted(0.1);
    (name(), content_type(), messages(), closes, prop::option::of(stamp), seq).prop_map(
        |(stream, content_type, messages, closes, producer, seq)| {
            // Only a close may come without content.
            let close = closes || messages.is_empty();
            Command::Append(Append {
                content_type,
                messages,
                close,
                producer,
                seq,
                ..append(&stream, "")
            })
        },
    )
}

fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        4 => creation(),
        6 => appending(),
        // So that there is often something to close, fork and delete.
        3 => name().prop_map(|stream| Command::Append(append_json(&stream, &["1", "2"]))),
        4 => name().prop_map(|stream| Command::Delete { stream }),
        1 => name().prop_map(|stream| Command::Touch { stream }),
        1 => name().prop_map(|stream| Command::Expire { stream }),
    ]
}

/// Commands of one moment, and how much later the next moment is.
fn moments() -> impl Strategy<Value = Vec<(Vec<Command>, i64)>> {
    prop::collection::vec((prop::collection::vec(command(), 1..20), 0..1_500i64), 1..8)
}

/// Commands as the queue would batch them.
fn batches(commands: &[Command]) -> impl Iterator<Item = &[Command]> {
    commands.chunk_by(|a, b| !a.stands_alone() && !b.stands_alone())
}

fn books_balance(model: &Model) -> Result<(), TestCaseError> {
    for (index, event) in model.events.iter().enumerate() {
        prop_assert_eq!(event.position.number(), index as u64 + 1, "positions are gapless");
    }
    for (name, state) in &model.streams {
        let forks = model.streams.values().filter_map(|other| other.fork.as_ref());
        let forks = forks.filter(|fork| fork.source == *name).count();
        prop_assert_eq!(usize::try_from(state.forks), Ok(forks), "forks of {}", name);
        prop_assert!(!state.soft_deleted || forks > 0, "{} is kept for nobody", name);
        let last = model.shown(name).last().map_or(Position::START, |event| event.position);
        if let Some(closed) = &state.closed {
            // A fork may start at any place up to its source's end, not only at an event.
            let end = last.max(state.inherited_tail());
            prop_assert_eq!(closed.position, end, "{} ends with its last event", name);
        }
        for event in model.shown(name) {
            let purge = model.purges.iter().find(|purge| {
                purge.stream == event.stream
                    && (purge.after < event.position && event.position <= purge.up_to)
            });
            prop_assert!(purge.is_none(), "{} shows what is purged: {:?}", name, purge);
        }
    }
    for (stream, _) in model.producers.keys() {
        prop_assert!(model.streams.contains_key(stream), "a producer of no stream {}", stream);
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_batch_is_worth_its_commands_one_by_one(moments in moments()) {
        let (mut batched, mut single) = (Model::default(), Model::default());
        for (commands, later_ms) in &moments {
            let together: Vec<Answer> =
                batches(commands).flat_map(|batch| batched.batch(batch)).collect();
            let one_by_one: Vec<Answer> =
                commands.iter().map(|command| single.one(command.clone())).collect();
            prop_assert_eq!(together, one_by_one);
            prop_assert_eq!(format!("{batched:#?}"), format!("{single:#?}"));
            books_balance(&batched)?;
            batched.now_ms += later_ms;
            single.now_ms += later_ms;
        }
    }
}
