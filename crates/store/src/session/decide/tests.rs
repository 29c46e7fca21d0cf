//! What is better tested without a store: time that passes, and what is not written.

mod property;

use super::*;

const NOW_MS: i64 = 1_000_000_000;

fn session(expires_at_ms: i64) -> SessionRow {
    SessionRow {
        owner: Owner { user_id: "ann".to_owned(), host_id: None },
        revision: 4,
        created_at_ms: 0,
        expires_at_ms,
        node: None,
        served_until_ms: None,
    }
}

/// A session `s` that follows `a` from position 7, which was acknowledged a while ago.
fn loaded(acknowledged_ms_ago: i64) -> LoadedSessions {
    let mut loaded = LoadedSessions::new(NOW_MS);
    loaded.put("s".to_owned(), session(NOW_MS + 1), 1, false);
    let subscription = SessionSubscription {
        stream: "a".to_owned(),
        query_id: "q".to_owned(),
        epoch: 4,
        pointer: Position::new(7),
        live_since: None,
    };
    let updated_at_ms = NOW_MS - acknowledged_ms_ago;
    loaded.put_followed("s", FollowedStream { subscription, updated_at_ms });
    loaded
}

fn acknowledge(number: u64) -> SessionChange {
    let (session, stream) = ("s".to_owned(), "a".to_owned());
    SessionChange::Acknowledge { session, stream, epoch: 4, position: Position::new(number) }
}

fn subscribe(start: Start) -> SessionChange {
    let [session, stream, query_id] = ["s", "a", "q"].map(str::to_owned);
    SessionChange::Subscribe { session, stream, query_id, start, ttl_ms: 10 }
}

/// What a plan writes: sessions, subscriptions, pointers.
fn written(plan: &SessionPlan) -> (usize, usize, usize) {
    (plan.sessions.len(), plan.subscriptions.len(), plan.pointers.len())
}

#[test]
fn an_acknowledgement_writes_a_pointer_and_nothing_else() {
    let (_, plan) = decide(loaded(0), &[acknowledge(8), acknowledge(9), acknowledge(8)]);
    assert_eq!(written(&plan), (0, 0, 1));
    assert_eq!(plan.pointers[0].followed.subscription.pointer, Position::new(9));
    assert!(plan.renewed.is_empty() && plan.counts.is_empty() && plan.changed.is_empty());
}

#[test]
fn a_repeated_acknowledgement_is_written_now_and_then() {
    let (_, plan) = decide(loaded(REPEATED_MS - 1), &[acknowledge(7)]);
    assert!(plan.is_empty(), "{plan:?}");
    let (_, plan) = decide(loaded(REPEATED_MS), &[acknowledge(3)]);
    let followed = &plan.pointers[0].followed;
    assert_eq!((followed.updated_at_ms, followed.subscription.pointer.number()), (NOW_MS, 7));
    let (_, plan) = decide(loaded(i64::MAX), &[acknowledge(7)]);
    assert_eq!(written(&plan), (0, 0, 1), "as old as can be");
}

#[test]
fn an_acknowledgement_of_another_epoch_is_not_written() {
    let mut old = acknowledge(9);
    if let SessionChange::Acknowledge { epoch, .. } = &mut old {
        *epoch = 3;
    }
    let (outcomes, plan) = decide(loaded(REPEATED_MS), &[old]);
    assert_eq!(outcomes, [SessionOutcome::Done]);
    assert!(plan.is_empty(), "{plan:?}");
}

#[test]
fn a_session_expires_at_the_very_moment() {
    for (expires_at_ms, kept, lives) in
        [(NOW_MS + 1, false, true), (NOW_MS, false, false), (0, true, true)]
    {
        let mut loaded = LoadedSessions::new(NOW_MS);
        loaded.put("s".to_owned(), session(expires_at_ms), 0, kept);
        let heartbeat = SessionChange::Heartbeat { session: "s".to_owned(), ttl_ms: 5 };
        let (outcomes, plan) = decide(loaded, &[heartbeat]);
        assert_eq!(outcomes[0] == SessionOutcome::Done, lives, "{expires_at_ms} {kept}");
        assert_eq!(plan.is_empty(), !lives, "what is refused changes nothing");
    }
}

#[test]
fn an_immense_time_to_live_is_accepted() {
    let beat = |ttl_ms| SessionChange::Heartbeat { session: "s".to_owned(), ttl_ms };
    let (_, plan) = decide(loaded(0), &[beat(u64::MAX)]);
    assert_eq!(plan.renewed, [("s".to_owned(), i64::MAX)]);
}

#[test]
fn what_a_batch_takes_back_is_not_written() {
    let unsubscribe =
        SessionChange::Unsubscribe { session: "s".to_owned(), stream: "b".to_owned() };
    let mut subscribe = subscribe(Start::At(Position::new(1)));
    if let SessionChange::Subscribe { stream, query_id, .. } = &mut subscribe {
        "b".clone_into(stream);
        "r".clone_into(query_id);
    }
    let (_, plan) = decide(loaded(0), &[subscribe, unsubscribe]);
    assert_eq!(written(&plan), (1, 0, 0), "but its epochs are used up");
    assert_eq!(plan.sessions[0].1.revision, 6);
    assert!(plan.counts.is_empty() && plan.removed.is_empty(), "{plan:?}");
}

#[test]
fn a_subscription_that_is_there_is_not_written_again() {
    let (outcomes, plan) = decide(loaded(0), &[subscribe(Start::Unless(Position::START))]);
    assert!(matches!(&outcomes[0], SessionOutcome::Subscribed(s) if s.pointer.number() == 7));
    assert_eq!(written(&plan), (1, 0, 0), "the session lives on, and that is all");
    assert!(plan.changed.is_empty());
    let (_, plan) = decide(loaded(0), &[subscribe(Start::At(Position::START))]);
    assert_eq!((written(&plan), plan.counts.len()), ((1, 1, 1), 0));
    assert_eq!(plan.changed.len(), 1);
}

#[test]
fn an_offset_of_another_epoch_is_a_fresh_start() {
    let (first, second) = (Epoch::FIRST, Epoch::new(2).expect("in range"));
    let text = Position::new(42).in_epoch(first).to_string();
    assert_eq!(position_of(&text, first), Some(Position::new(42)));
    assert_eq!(position_of(&text, second), None);
    let start = Position::START.in_epoch(first).to_string();
    assert_eq!(position_of(&start, second), None, "nothing was live at the start of another log");
    assert_eq!(position_of("none at all", first), None);
}
