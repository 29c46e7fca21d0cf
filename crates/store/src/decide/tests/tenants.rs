//! Tests of whose streams are whose: what is out of reach is not there, and stays as it is.

use std::sync::Arc;

use super::*;
use crate::command::{Actor, Reach};
use crate::testing::commands::{LONG_AGO, delete_by, tenant};

/// Commands by someone, about a stream and a free name.
fn attempts(actor: &Actor, stream: &str) -> Vec<Command> {
    let by = |append: Append| appended(Append { actor: actor.clone(), ..append });
    let make = |create: Create| made(Create { actor: actor.clone(), ..create });
    vec![
        by(append(stream, "x")),
        by(append_json(stream, &["1"])),
        by(stamped(stream, "x", "p", 3, 1)),
        by(stamped(stream, "x", "p", 2, 0)),
        by(Append { seq: Some("1".to_owned()), ..append(stream, "x") }),
        by(close(stream)),
        delete_by(actor.clone(), stream),
        make(create(stream)),
        make(create_json(stream)),
        make(fork("open", stream)),
        make(fork(stream, "free")),
        make(fork_at(stream, Position::new(1), 1, "free")),
    ]
}

/// The streams of [`streams_with_history`], all of tenant `a`.
fn streams_of_a() -> Model {
    let mut model = streams_with_history();
    for state in model.streams.values_mut() {
        state.host_id = Some("a".to_owned());
    }
    model
}

#[test]
fn a_stream_out_of_reach_is_as_good_as_none() {
    let history = streams_of_a();
    let nobody =
        Actor { reach: Reach::Of { hosts: Arc::new([]), shared: true }, ..Actor::default() };
    for actor in [tenant("b", true), tenant("b", false), nobody] {
        for stream in ["open", "closed", "hidden", "missing"] {
            for command in attempts(&actor, stream) {
                let mut model = history.clone();
                let answer = model.one(command.clone());
                let about = format!("{stream}, {command:?}");
                let there = stream != "missing";
                match &command {
                    Command::Create(create) if create.stream == stream && there => {
                        assert_eq!(words(&[answer]), ["refused: taken"], "{about}");
                    }
                    Command::Create(create) if create.fork.is_some() => {
                        assert_eq!(words(&[answer]), ["refused: no source"], "{about}");
                    }
                    Command::Create(_) => {
                        assert_eq!(words(&[answer]), ["made"], "{about}");
                        continue;
                    }
                    _ => assert_eq!(words(&[answer]), ["not found"], "{about}"),
                }
                assert_eq!(
                    format!("{model:?}"),
                    format!("{history:?}"),
                    "{about}: nothing changes"
                );
            }
        }
    }
}

#[test]
fn within_reach_a_tenant_is_answered_as_anyone() {
    let history = streams_of_a();
    for stream in ["open", "closed", "hidden", "missing"] {
        let anyone = attempts(&Actor::default(), stream);
        for (by_a, by_anyone) in attempts(&tenant("a", false), stream).into_iter().zip(anyone) {
            let answer = |command: &Command| words(&[history.clone().one(command.clone())]);
            assert_eq!(answer(&by_a), answer(&by_anyone), "{by_a:?}");
        }
    }
}

#[test]
fn a_stream_belongs_to_its_makers_tenant() {
    let mut model = Model::at(0);
    let make = |actor: &Actor, create: Create| made(Create { actor: actor.clone(), ..create });
    let (a, b) = (tenant("a", true), tenant("b", true));
    model.batch(&[make(&a, create("of a")), make(&b, create("of b")), made(create("of none"))]);
    model.one(made(fork("of a", "fork by none")));
    model.one(make(&b, fork("of none", "fork by b")));
    let host = |name: &str| model.streams[name].host_id.as_deref();
    assert_eq!([host("of a"), host("of b"), host("of none")], [Some("a"), Some("b"), None]);
    assert_eq!([host("fork by none"), host("fork by b")], [None, Some("b")], "not to the source's");
    let shared_too = appended(Append { actor: b, ..append("of none", "x") });
    let alone = appended(Append { actor: tenant("b", false), ..append("of none", "x") });
    assert_eq!(words(&model.batch(&[shared_too, alone])), ["appended", "not found"]);
}

#[test]
fn an_expired_streams_name_is_free_for_all() {
    let mut model = Model::at(0);
    let make = |host: &str, create: Create| made(Create { actor: tenant(host, false), ..create });
    let long_ago = Create { lifetime: Some(LONG_AGO), ..create("x") };
    model.one(make("a", long_ago));
    model.now_ms = 10;
    let before = format!("{model:?}");
    let by_b = appended(Append { actor: tenant("b", false), ..append("x", "x") });
    let answers = [model.one(by_b), model.one(delete_by(tenant("b", false), "x"))];
    assert_eq!(words(&answers), ["not found", "not found"]);
    assert_eq!(format!("{model:?}"), before, "that is for others to clear up");
    assert_eq!(words(&[model.one(make("b", create("x")))]), ["made"]);
    assert_eq!(model.streams["x"].host_id.as_deref(), Some("b"));
}

#[test]
fn commands_of_several_tenants_share_a_batch() {
    let mut model = Model::at(0);
    let (a, b) = (tenant("a", false), tenant("b", false));
    let by =
        |actor: &Actor, text: &str| appended(Append { actor: actor.clone(), ..append("x", text) });
    let make = |actor: &Actor| made(Create { actor: actor.clone(), ..create("x") });
    let answers = model.batch(&[
        make(&a),
        make(&b),
        by(&b, "no"),
        by(&a, "1"),
        delete_by(b.clone(), "x"),
        delete_by(a.clone(), "x"),
        make(&b),
        by(&a, "no"),
        by(&b, "2"),
        make(&a),
    ]);
    assert_eq!(
        words(&answers),
        [
            "made",
            "refused: taken",
            "not found",
            "appended",
            "not found",
            "done",
            "made",
            "not found",
            "appended",
            "refused: taken"
        ]
    );
    assert_eq!(model.texts("x"), ["2"]);
    assert_eq!(model.streams["x"].host_id.as_deref(), Some("b"));
}

#[test]
fn touching_and_expiring_are_nobodys() {
    let mut model = Model::at(0);
    let lifetime = Some(Lifetime::Sliding { ttl_s: 16 });
    model.one(made(Create { actor: tenant("a", false), lifetime, ..create("x") }));
    model.now_ms = 15_000;
    model.one(touch("x"));
    assert_eq!(model.streams["x"].expires_at_ms, Some(31_000));
    model.now_ms = 31_000;
    model.one(Command::Expire { stream: "x".to_owned() });
    assert!(model.streams.is_empty());
}
