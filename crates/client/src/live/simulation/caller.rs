//! The simulated caller: records what it gets, and checks it against the log.

use std::collections::BTreeMap;

use super::STREAMS;
use super::server::{self, Server, position, stream_name};
use crate::follow::ReadFrom;
use crate::live::receive::Read;
use crate::live::state::State;
use crate::live::update::{LiveEvent, Update};
use crate::live::wire::{Message, Request};

#[derive(Debug)]
pub(super) struct Caller {
    pub(super) state: State,
    session: bool,
    read: Option<Read>,
    given: BTreeMap<String, GivenOut>,
    progress: Option<String>,
}

/// What one subscription gave out.
#[derive(Debug, Default)]
struct GivenOut {
    stream: usize,
    /// Where it began.
    from: Option<String>,
    offsets: Vec<String>,
    last: Option<LiveEvent>,
    ended: bool,
}

fn name(stream: usize) -> String {
    format!("query {stream}")
}

impl Caller {
    pub(super) fn new(session: bool) -> Caller {
        let state = State::new(session);
        let (read, given, progress) = (None, BTreeMap::new(), None);
        let mut caller = Caller { state, session, read, given, progress };
        (0..STREAMS).for_each(|stream| caller.subscribe(stream));
        caller
    }

    fn subscribe(&mut self, stream: usize) {
        let from = if stream == 2 { ReadFrom::Now } else { ReadFrom::Start };
        self.state.subscribe(&name(stream), &stream_name(stream), Some(from), None);
        self.given.insert(name(stream), GivenOut { stream, ..GivenOut::default() });
    }

    pub(super) fn restart(&mut self, stream: usize, leave: bool) {
        if leave {
            self.state.unsubscribe(&name(stream));
        }
        self.subscribe(stream);
    }

    pub(super) fn receive(&mut self, message: Message<'_>, server: &Server) {
        self.state.receive(message);
        self.take_updates(server);
    }

    fn take_updates(&mut self, server: &Server) {
        while let Some(update) = self.state.next_update() {
            self.take(update, server);
        }
    }

    fn take(&mut self, update: Update, server: &Server) {
        match update {
            Update::Created { query_id, offset, resumed, .. } => {
                let given = self.given.get_mut(&*query_id).expect("a subscription of ours");
                assert_eq!(resumed, given.from.is_some(), "{query_id}");
                given.from.get_or_insert(offset);
            }
            Update::Event(event) => {
                let given = self.given.get_mut(&*event.query_id).expect("a subscription of ours");
                assert!(!given.ended, "{} comes after the end", event.offset);
                let last = given.offsets.last().or(given.from.as_ref()).expect("a beginning");
                assert!(*last < event.offset, "{} comes after {last}", event.offset);
                let (payload, is_json) = server::given(given.stream, position(&event.offset));
                assert_eq!((&*event.payload, event.is_json), (payload.as_bytes(), is_json));
                given.offsets.push(event.offset.clone());
                given.last = Some(event);
            }
            Update::Ended { query_id, .. } => {
                let given = self.given.get_mut(&*query_id).expect("a subscription of ours");
                assert!(!std::mem::replace(&mut given.ended, true), "{query_id} ends twice");
            }
            Update::Progress { offset } => {
                self.check_up_to(server, &offset);
                self.progress = Some(offset);
            }
            Update::Problem { problem, .. } => assert_eq!(problem.temporary, Some(true)),
            Update::Connected { .. }
            | Update::Disconnected { .. }
            | Update::Invalidated { .. }
            | Update::ResultBegan { .. }
            | Update::ResultChanged { .. }
            | Update::ResultSettled { .. }
            | Update::SchemaChanged { .. } => {}
        }
    }

    pub(super) fn requests(&mut self) -> Vec<Request> {
        let mut requests = self.state.take_requests();
        requests.extend(self.state.take_acks());
        requests
    }

    pub(super) fn ack(&mut self) {
        for event in self.given.values().filter_map(|given| given.last.as_ref()) {
            self.state.ack(event);
        }
        if let Some(offset) = self.progress.take() {
            self.state.ack_progress(&offset);
        }
    }

    pub(super) fn disconnected(&mut self) {
        self.state.disconnected();
        self.read = None;
        self.progress = None;
    }

    pub(super) fn begin_read(&mut self) {
        if self.read.is_none() {
            self.read = self.state.next_read();
        }
    }

    /// Whether there was one.
    pub(super) fn end_read(&mut self, server: &Server, events_max: usize) -> bool {
        let Some(read) = self.read.take() else {
            return false;
        };
        let page = server.page(&read.stream, &read.offset, events_max);
        self.state.was_read(read, page);
        self.take_updates(server);
        true
    }

    pub(super) fn fail_read(&mut self) {
        if let Some(read) = self.read.take() {
            self.state.read_later(read);
        }
    }

    /// All of the log up to `offset` was given out.
    fn check_up_to(&self, server: &Server, offset: &str) {
        for (query_id, given) in self.given.iter().filter(|(_, given)| !given.ended) {
            let from = given.from.as_ref().expect("a progress speaks of what stands");
            let mut expected = server.offsets(given.stream, from);
            expected.retain(|at| **at <= *offset);
            let so_far: Vec<&String> = given.offsets.iter().filter(|at| ***at <= *offset).collect();
            assert_eq!(so_far, expected.iter().collect::<Vec<_>>(), "{query_id} up to {offset}");
        }
    }

    /// At rest, each subscription has given out the whole log from its beginning.
    pub(super) fn check_all(&self, server: &Server) {
        for (query_id, given) in &self.given {
            let from = given.from.as_ref().expect("every subscription stands");
            let expected = server.offsets(given.stream, from);
            assert_eq!(given.offsets, expected, "{query_id}, session: {}", self.session);
            assert_eq!(given.ended, server.is_closed(given.stream), "{query_id}");
        }
    }
}
