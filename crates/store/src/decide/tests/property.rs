//! Random commands: a batch is worth as much as its commands one by one, whatever is decided, the
//! books balance, and no tenant gets at another's streams.

use proptest::prelude::*;

use super::model::Model;
use crate::command::{Actor, Answer, Append, Command, Create, ForkFrom, Reach, Refusal};
use crate::offset::Position;
use crate::stream::{Closed, Lifetime, ProducerStamp, StreamState};
use crate::testing::commands::{JSON, TEXT, append, append_json, create, delete_by, tenant};

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

/// Mostly someone who may use everything, so that there is often something to refuse to others.
fn actor() -> impl Strategy<Value = Actor> {
    let of = |host: &'static str| prop::bool::ANY.prop_map(move |shared| tenant(host, shared));
    prop_oneof![4 => Just(Actor::default()), 2 => of("t"), 2 => of("u")]
}

fn creation() -> impl Strategy<Value = Command> {
    let closed = prop::bool::weighted(0.1);
    (name(), content_type(), lifetime(), messages(), closed, fork(), actor()).prop_map(
        |(stream, content_type, lifetime, messages, closed, fork, actor)| {
            let create =
                Create { content_type, lifetime, messages, closed, fork, actor, ..create(&stream) };
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
    (name(), content_type(), messages(), closes, prop::option::of(stamp), seq, actor()).prop_map(
        |(stream, content_type, messages, closes, producer, seq, actor)| {
            // Only a close may come without content.
            let close = closes || messages.is_empty();
            Command::Append(Append {
                content_type,
                messages,
                close,
                producer,
                seq,
                actor,
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
        4 => (actor(), name()).prop_map(|(actor, stream)| delete_by(actor, &stream)),
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

/// Who gives a command. Touching and expiring are nobody's.
fn actor_of(command: &Command) -> Option<&Actor> {
    match command {
        Command::Create(create) => Some(&create.actor),
        Command::Append(append) => Some(&append.actor),
        Command::Delete { actor, .. } => Some(actor),
        Command::Touch { .. } | Command::Expire { .. } => None,
    }
}

/// Names of the streams that someone must not know of.
fn out_of_reach(model: &Model, reach: &Reach) -> Vec<String> {
    let hidden = model.streams.values().filter(|state| !reach.covers(state.host_id.as_deref()));
    hidden.map(|state| state.name.clone()).collect()
}

/// The same with other things in streams: another type, closed, of no producer.
fn otherwise(model: &Model, streams: &[String]) -> Model {
    let mut other = model.clone();
    for name in streams {
        let state = other.streams.get_mut(name).expect("it is there");
        state.content_type = "image/png".to_owned();
        state.last_seq = Some("~".to_owned());
        state.closed = Some(Closed { position: Position::START, by: None });
    }
    other.producers.retain(|(stream, _), _| !streams.contains(stream));
    other
}

/// What of a stream is only its tenant's to change. Others may come to fork what they see, and let go
/// of it.
fn own(state: &StreamState) -> StreamState {
    StreamState { forks: 0, ..state.clone() }
}

/// Decides a command, and checks that it finds out nothing about what is out of its actor's reach,
/// and changes nothing there.
fn stays_within_reach(model: &mut Model, command: &Command) -> Result<(), TestCaseError> {
    let before = model.clone();
    let answer = model.one(command.clone());
    let Some(actor) = actor_of(command) else { return Ok(()) };
    let hidden = out_of_reach(&before, &actor.reach);
    let told = otherwise(&before, &hidden).one(command.clone());
    prop_assert_eq!(&told, &answer, "the answer depends on what is out of reach");

    let target = before.streams.get(command.stream());
    let target_hidden = target.is_some_and(|state| hidden.contains(&state.name));
    let target_expired = target.is_some_and(|state| state.expired(before.now_ms));
    let source = match command {
        Command::Create(create) => create.fork.as_ref().map(|from| &from.source),
        _ => None,
    };
    let expected = match command {
        Command::Create(_) if target_hidden && !target_expired => Some(Refusal::NameTaken),
        Command::Create(_) if target.is_none() && source.is_some_and(|s| hidden.contains(s)) => {
            Some(Refusal::SourceNotFound)
        }
        Command::Append(_) | Command::Delete { .. } if target_hidden => Some(Refusal::NotFound),
        _ => None,
    };
    if let Some(refusal) = expected {
        prop_assert_eq!(&answer, &Answer::Refused(refusal));
        prop_assert_eq!(format!("{model:?}"), format!("{before:?}"), "nothing changes");
    }
    for name in &hidden {
        let was = &before.streams[name];
        match model.streams.get(name) {
            Some(is) if is.created == was.created && !was.expired(before.now_ms) => {
                prop_assert_eq!(own(is), own(was));
                prop_assert_eq!(model.texts(name), before.texts(name));
            }
            // Only what was over already may go, or make room.
            _ => prop_assert!(was.soft_deleted || was.expired(before.now_ms), "{} is gone", name),
        }
    }
    if let Answer::Created { new: true, state, .. } = &answer {
        prop_assert_eq!(&state.host_id, &actor.host_id);
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

    #[test]
    fn no_tenant_gets_at_anothers_streams(moments in moments()) {
        let mut model = Model::default();
        for (commands, later_ms) in &moments {
            for command in commands {
                stays_within_reach(&mut model, command)?;
            }
            model.now_ms += later_ms;
        }
    }
}
