//! Cases of the client's rules that random tests seldom reach: answers that cross, sessions that bring other
//! subscriptions, problems, acknowledgements.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use super::state::State;
use super::update::{EntityChange, LiveEvent, Update};
use super::wire::{Acked, Changed, Created, Entities, Message, Request, Subscribe};
use crate::error::Problem;
use crate::events::{Event, EventPage};
use crate::follow::ReadFrom;

fn offset(position: u64) -> String {
    format!("0001_{position:016}")
}

fn created(query_id: &'static str, stream: &'static str, position: u64) -> Message<'static> {
    Message::Created(vec![Created {
        query_id: Cow::Borrowed(query_id),
        stream: Cow::Borrowed(stream),
        content_type: None,
        offset: Some(Cow::Owned(offset(position))),
        ..Created::default()
    }])
}

fn event(query_id: &'static str, position: u64) -> Message<'static> {
    let (query_id, offset) = (Cow::Borrowed(query_id), Cow::Owned(offset(position)));
    Message::Event { query_id, offset, payload: Bytes::from_static(b"1"), is_json: true }
}

fn notify(query_id: &'static str, position: u64) -> Message<'static> {
    Message::Notify { query_id: Cow::Borrowed(query_id), offset: Cow::Owned(offset(position)) }
}

fn ended(query_id: &'static str, reason: &str) -> Message<'static> {
    Message::Ended { query_id: Cow::Borrowed(query_id), reason: reason.to_owned(), what: None }
}

fn problem(query_id: &'static str, temporary: bool) -> Message<'static> {
    let problem = Problem { temporary: Some(temporary), ..Problem::default() };
    Message::Problem { query_id: Some(Cow::Borrowed(query_id)), problem }
}

/// What is to be sent, in a form that is short to compare: `+` asks, `-` leaves.
fn requests(state: &mut State) -> Vec<String> {
    let asks = |one: Subscribe| match one.offset {
        Some(offset) => format!("+{} {} {}", one.query_id, one.stream, short(&offset)),
        None => format!("+{} {}", one.query_id, one.stream),
    };
    let each = |request| match request {
        Request::Subscribe { subscriptions } => subscriptions.into_iter().map(asks).collect(),
        Request::Unsubscribe { query_ids } => {
            query_ids.into_iter().map(|query_id| format!("-{query_id}")).collect()
        }
        Request::Ack { .. } => Vec::new(),
    };
    state.take_requests().into_iter().flat_map(each).collect()
}

fn short(offset: &str) -> &str {
    offset.strip_prefix("0001_").map_or(offset, |digits| digits.trim_start_matches('0'))
}

fn updates(state: &mut State) -> Vec<String> {
    let mut found = Vec::new();
    while let Some(update) = state.next_update() {
        found.push(match update {
            Update::Created { query_id, .. } => format!("{query_id} stands"),
            Update::Event(event) => format!("{} {}", event.query_id, short(&event.offset)),
            Update::Ended { query_id, reason, .. } => format!("{query_id} {reason}"),
            Update::Problem { query_id, .. } => format!("{} problem", query_id.unwrap_or_default()),
            other => format!("{other:?}"),
        });
    }
    found
}

/// A state whose one subscription was asked for, and stands where a position is given.
fn following(session: bool, position: Option<u64>) -> State {
    let mut state = State::new(session);
    state.subscribe("q", "s", Some(ReadFrom::Start), None);
    assert_eq!(requests(&mut state), ["+q s -1"]);
    if let Some(position) = position {
        state.receive(created("q", "s", position));
        assert_eq!(updates(&mut state), ["q stands"]);
    }
    state
}

fn given(stream: &str, position: u64) -> LiveEvent {
    LiveEvent {
        query_id: Arc::from("q"),
        stream: Arc::from(stream),
        offset: offset(position),
        payload: Bytes::new(),
        is_json: true,
    }
}

fn acked(state: &mut State) -> Vec<(Option<String>, String)> {
    let offsets = |request| match request {
        Request::Ack { offsets } => offsets,
        _ => Vec::new(),
    };
    let short = |one: Acked| (one.stream_id, short(&one.last_offset).to_owned());
    state.take_acks().into_iter().flat_map(offsets).map(short).collect()
}

#[test]
fn the_answer_to_an_older_question_is_not_taken_for_the_newer_one() {
    let mut state = following(false, None);
    state.subscribe("q", "other", Some(ReadFrom::Now), None);
    assert!(requests(&mut state).is_empty(), "one question is open");
    state.receive(created("q", "s", 0));
    state.receive(event("q", 1));
    assert!(updates(&mut state).is_empty());
    assert_eq!(requests(&mut state), ["+q other now"]);
    state.receive(event("q", 2));
    state.receive(created("q", "other", 7));
    state.receive(event("q", 8));
    assert_eq!(updates(&mut state), ["q stands", "q 8"]);
}

#[test]
fn ends_that_cross_a_farewell_do_not_end_what_comes_after_it() {
    let mut state = following(false, Some(0));
    state.unsubscribe("q");
    assert_eq!(requests(&mut state), ["-q"]);
    state.subscribe("q", "s", Some(ReadFrom::Start), None);
    assert!(requests(&mut state).is_empty(), "the farewell is not answered");
    state.receive(ended("q", "stream_closed"));
    assert_eq!(requests(&mut state), ["+q s -1"]);
    state.receive(ended("q", "unsubscribed"));
    state.receive(created("q", "s", 0));
    state.receive(event("q", 1));
    assert_eq!(updates(&mut state), ["q stands", "q 1"]);
}

#[test]
fn what_was_left_before_it_stood_is_left_when_it_does() {
    let mut state = following(false, None);
    state.unsubscribe("q");
    assert!(state.is_idle());
    state.receive(created("q", "s", 0));
    state.receive(event("q", 1));
    assert!(updates(&mut state).is_empty());
    assert_eq!(requests(&mut state), ["-q"]);
}

#[test]
fn a_permanent_problem_ends_a_subscription_and_a_temporary_one_does_not() {
    let mut state = following(false, None);
    state.receive(problem("q", true));
    assert_eq!(updates(&mut state), ["q problem"]);
    assert!(state.resting && requests(&mut state).is_empty());
    state.wake();
    assert_eq!(requests(&mut state), ["+q s -1"]);
    state.receive(problem("q", false));
    assert_eq!(updates(&mut state), ["q problem"]);
    assert!(state.is_idle());
}

#[test]
fn a_read_for_what_was_begun_anew_is_not_used() {
    let mut state = following(false, Some(5));
    state.receive(notify("q", 6));
    let read = state.next_read().expect("a read");
    state.subscribe("q", "s", Some(ReadFrom::Start), None);
    requests(&mut state);
    state.receive(created("q", "s", 0));
    state.receive(notify("q", 1));
    assert_eq!(updates(&mut state), ["q stands"]);
    let late = Event { offset: offset(6), payload: Bytes::new(), is_json: true };
    let page = |event: Event| EventPage {
        next_offset: event.offset.clone(),
        events: vec![event],
        up_to_date: true,
        closed: false,
    };
    state.was_read(read, page(late.clone()));
    assert!(updates(&mut state).is_empty());
    let read = state.next_read().expect("a read");
    state.was_read(read, page(Event { offset: offset(1), ..late }));
    assert_eq!(updates(&mut state), ["q 1"]);
}

#[test]
fn a_refused_read_ends_the_subscription() {
    let mut state = following(false, Some(0));
    state.receive(notify("q", 1));
    let read = state.next_read().expect("a read");
    state.read_refused(&read, Problem::default());
    assert_eq!(updates(&mut state), ["q problem"]);
    assert_eq!(requests(&mut state), ["-q"]);
}

/// The server says what the stream holds.
fn created_with(content_type: &str) -> Message<'static> {
    let Message::Created(mut created) = created("q", "s", 0) else {
        unreachable!("it is one");
    };
    created[0].content_type = Some(content_type.to_owned());
    Message::Created(created)
}

#[test]
fn a_string_is_text_only_where_the_stream_holds_none_of_json() {
    for (content_type, expected, is_json) in [
        (None, "\"a\"", true),
        (Some("application/json; charset=utf-8"), "\"a\"", true),
        (Some("text/plain"), "a", false),
    ] {
        let mut state = following(false, None);
        state.receive(content_type.map_or_else(|| created("q", "s", 0), created_with));
        let payload = Bytes::from_static(b"\"a\"");
        let (query_id, offset) = (Cow::Borrowed("q"), Cow::Owned(offset(1)));
        state.receive(Message::Event { query_id, offset, payload, is_json: true });
        state.next_update().expect("it stands");
        let Some(Update::Event(event)) = state.next_update() else {
            panic!("no event of {content_type:?}");
        };
        assert_eq!((&*event.payload, event.is_json), (expected.as_bytes(), is_json));
    }
}

#[test]
fn a_min_offset_is_asked_for_until_it_was_reached() {
    let mut state = State::new(false);
    state.subscribe("q", "s", Some(ReadFrom::Start), Some(offset(2)));
    let asked = |state: &mut State| match &state.take_requests()[..] {
        [Request::Subscribe { subscriptions }] => subscriptions[0].min_offset.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(asked(&mut state), Some(offset(2)));
    for (position, expected) in [(1, Some(offset(2))), (2, None)] {
        state.receive(created("q", "s", 0));
        state.receive(event("q", position));
        state.disconnected();
        assert_eq!(asked(&mut state), expected, "after {position}");
    }
}

#[test]
fn what_a_session_brings_gives_way_to_what_is_asked_for() {
    let mut state = State::new(true);
    state.receive(created("s", "s", 3));
    state.receive(event("s", 4));
    assert_eq!(updates(&mut state), ["s stands", "s 4"]);
    state.subscribe("q", "s", None, None);
    assert_eq!(requests(&mut state), ["+q s"]);
    state.receive(event("s", 5));
    state.receive(created("q", "s", 3));
    state.receive(event("q", 4));
    assert_eq!(updates(&mut state), ["q stands", "q 4"]);
}

#[test]
fn a_session_takes_up_again_what_it_brought_without_being_asked() {
    let mut state = State::new(true);
    state.receive(created("s", "s", 3));
    state.receive(event("s", 4));
    state.disconnected();
    assert!(requests(&mut state).is_empty());
    state.receive(created("s", "s", 3));
    state.receive(event("s", 4));
    state.receive(event("s", 5));
    assert_eq!(updates(&mut state), ["s stands", "s 4", "s stands", "s 5"]);
}

#[test]
fn what_was_left_while_away_is_not_brought_back_by_the_session() {
    let mut state = following(true, Some(0));
    state.disconnected();
    state.unsubscribe("q");
    assert_eq!(requests(&mut state), ["-q"]);
    state.receive(created("s", "s", 0));
    assert_eq!(requests(&mut state), ["-s"]);
    state.receive(event("s", 1));
    assert!(updates(&mut state).is_empty());
}

#[test]
fn a_session_resumes_after_what_was_acknowledged_and_others_after_what_was_given_out() {
    for (session, expected) in [(true, "+q s 1"), (false, "+q s 2")] {
        let mut state = following(session, Some(0));
        state.receive(event("q", 1));
        state.receive(event("q", 2));
        state.ack(&given("s", 1));
        state.disconnected();
        assert_eq!(requests(&mut state), [expected]);
    }
}

#[test]
fn the_newest_acknowledgement_of_a_stream_is_sent_and_again_after_a_loss() {
    let mut state = following(true, Some(0));
    for position in [1, 3, 2] {
        state.ack(&given("s", position));
    }
    let newest = [(Some("s".to_owned()), "3".to_owned())];
    assert_eq!(acked(&mut state), newest);
    state.ack(&given("s", 3));
    assert!(!state.acks.are_due() && acked(&mut state).is_empty());
    state.disconnected();
    assert_eq!(acked(&mut state), newest);
}

#[test]
fn a_progress_is_acknowledged_once_for_all_it_spoke_for() {
    let mut state = following(true, Some(0));
    state.receive(Message::Progress { query_id: None, offset: Cow::Owned(offset(9)) });
    assert_eq!(updates(&mut state).len(), 1);
    // It cannot speak for what came later.
    state.subscribe("late", "t", Some(ReadFrom::Start), None);
    requests(&mut state);
    state.receive(created("late", "t", 0));
    state.ack_progress(&offset(9));
    assert_eq!(acked(&mut state), [(None, "9".to_owned())]);
    state.disconnected();
    assert_eq!(acked(&mut state), [(Some("s".to_owned()), "9".to_owned())]);
}

#[test]
fn the_last_acknowledgement_of_a_stream_that_has_ended_is_sent() {
    let mut state = following(true, Some(0));
    state.receive(event("q", 1));
    state.receive(ended("q", "stream_closed"));
    assert_eq!(updates(&mut state), ["q 1", "q stream_closed"]);
    state.ack(&given("s", 1));
    assert_eq!(acked(&mut state), [(Some("s".to_owned()), "1".to_owned())]);
    state.disconnected();
    assert!(acked(&mut state).is_empty(), "what is not followed is not remembered");
}

#[test]
fn many_subscriptions_take_several_messages() {
    let mut state = State::new(false);
    let stream = "x".repeat(1_000);
    for number in 0..50 {
        state.subscribe(&format!("q{number:02}"), &stream, None, None);
    }
    let sizes: Vec<usize> = state
        .take_requests()
        .iter()
        .map(|request| serde_json::to_vec(request).expect("JSON").len())
        .collect();
    assert!(sizes.len() > 1 && sizes.iter().all(|size| *size < 20_000), "{sizes:?}");
}

#[test]
fn entities_go_on_after_a_break_from_the_last_that_was_told() {
    let mut state = State::new(false);
    let entities = Entities { code: "project".to_owned(), ids: vec!["7".to_owned()] };
    state.subscribe_entities("p", entities.clone(), None);
    let [Request::Subscribe { subscriptions }] = &state.take_requests()[..] else {
        panic!("one request");
    };
    assert_eq!(subscriptions[0].entities, Some(entities.clone()));
    assert_eq!((&*subscriptions[0].stream, &subscriptions[0].offset), ("", &None));
    state.receive(created("p", "entity/project", 3));
    state.next_update().expect("it stands");
    // Parts of what an emptied table was may be up to the same place.
    for position in [3, 5, 5] {
        let change = EntityChange { entity_id: "7".to_owned(), action: "UPDATE".to_owned() };
        let changed = Changed { entity_code: "project".to_owned(), changes: vec![change] };
        let (query_id, offset) = (Cow::Borrowed("p"), Cow::Owned(offset(position)));
        state.receive(Message::Invalidate { query_id, offset, changed });
        let Some(Update::Invalidated { entity_code, changes, .. }) = state.next_update() else {
            panic!("what changed");
        };
        assert_eq!((&*entity_code, &*changes[0].entity_id), ("project", "7"));
    }
    state.disconnected();
    let [Request::Subscribe { subscriptions }] = &state.take_requests()[..] else {
        panic!("one request");
    };
    assert_eq!(subscriptions[0].offset, Some(offset(5)));
    assert_eq!(subscriptions[0].entities, Some(entities));
}
