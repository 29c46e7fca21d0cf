//! Tests of what a change to a subscription puts into the log.

use std::collections::BTreeMap;

use super::made;
use super::model::Model;
use crate::command::Create;
use crate::decide::{announcement, decide_change};
use crate::event::Control;
use crate::offset::Position;
use crate::subscription::{Change, Config, Context, Kind, Op, apply};
use crate::testing::commands::{create, create_json};

/// A change that wakes a subscription through the stream `wakes`, and concerns the nodes too.
fn waking() -> Change {
    let context = |tail: u64| Context {
        now_ms: 0,
        wake_id: "w".to_owned(),
        tails: BTreeMap::from([("a".to_owned(), Position::new(tail))]),
        starts: BTreeMap::new(),
    };
    let config = Config {
        kind: Kind::PullWake { wake_stream: "wakes".to_owned() },
        pattern: None,
        streams: vec!["a".to_owned()],
        lease_ttl_ms: 1_000,
        description: None,
    };
    let subscription = apply("s", None, &Op::Create(config), &context(1)).save.flatten();
    let grown = apply("s", subscription, &Op::Grown { stream: "a".to_owned() }, &context(2));
    Change { interest_changed: true, ..grown }
}

fn decide_waking(model: &mut Model) {
    let change = waking();
    let commands = announcement(&change);
    assert_eq!(commands.len(), 1);
    let plan = decide_change(model.loaded(&commands), "s", &change, commands);
    model.save(plan);
}

#[test]
fn a_wake_is_announced_in_a_stream_of_any_type() {
    for wakes in
        [create("wakes"), create_json("wakes"), Create { content_type: None, ..create("wakes") }]
    {
        let mut model = Model::at(0);
        model.one(made(wakes));
        decide_waking(&mut model);
        let announced = model.texts("wakes");
        assert!(announced.concat().contains(r#""subscription_id":"s""#), "{announced:?}");
        assert_eq!(model.events[1].stream, "__ds/subscriptions/s");
        assert_eq!(model.events[1].control, Some(Control::Subscription));
    }
}

#[test]
fn a_wake_without_its_stream_still_tells_the_nodes() {
    let mut model = Model::at(0);
    decide_waking(&mut model);
    let controls: Vec<Option<Control>> = model.events.iter().map(|event| event.control).collect();
    assert_eq!(controls, [Some(Control::Subscription)]);
    assert!(model.streams.is_empty());
}
