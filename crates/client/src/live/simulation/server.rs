//! The simulated server: one log, one connection at a time, and the messages in flight.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::STREAMS;
use crate::error::Problem;
use crate::events::{Event, EventPage};
use crate::live::wire::{Created, Message, Request, Subscribe};

#[derive(Debug, Default)]
pub(super) struct Server {
    session: bool,
    log: Vec<Logged>,
    closed: [bool; STREAMS],
    /// What is subscribed on the connection.
    subscriptions: BTreeMap<String, Subscribed>,
    /// What the session follows, and its pointers.
    pointers: BTreeMap<usize, usize>,
    to_client: VecDeque<Message<'static>>,
    from_client: VecDeque<Request>,
    pub(super) refuse: bool,
}

#[derive(Debug)]
struct Logged {
    stream: usize,
    large: bool,
}

#[derive(Debug)]
struct Subscribed {
    stream: usize,
    /// All up to here was sent, or dropped with a gap.
    sent: usize,
}

pub(super) fn offset(position: usize) -> String {
    format!("0001_{position:016}")
}

pub(super) fn stream_name(stream: usize) -> String {
    format!("stream-{stream}")
}

/// What a stream holds, as the server says it; of the first one it does not say.
fn content_type(stream: usize) -> Option<&'static str> {
    [None, Some("text/plain"), Some("application/json")][stream]
}

/// The payload at a position, and whether it is JSON, as a caller is to get it.
pub(super) fn given(stream: usize, at: usize) -> (String, bool) {
    // Every other text cannot stand in a JSON string as it is.
    let end = if at.is_multiple_of(2) { "\n" } else { "" };
    if stream == 1 { (format!("{at}{end}"), false) } else { (at.to_string(), true) }
}

/// The same as it goes over the wire.
fn sent(stream: usize, at: usize) -> Bytes {
    let (payload, is_json) = given(stream, at);
    let quoted = |text: String| serde_json::Value::from(text).to_string();
    Bytes::from(if is_json { payload } else { quoted(payload) })
}

pub(super) fn position(offset: &str) -> usize {
    offset.split_once('_').and_then(|(_, digits)| digits.parse().ok()).expect("an offset")
}

fn stream_of(name: &str) -> usize {
    name.split_once('-').and_then(|(_, digits)| digits.parse().ok()).expect("a stream")
}

impl Server {
    pub(super) fn new(session: bool) -> Server {
        Server { session, ..Server::default() }
    }

    pub(super) fn append(&mut self, stream: usize, large: bool) {
        if !self.closed[stream] {
            self.log.push(Logged { stream, large });
        }
    }

    pub(super) fn close(&mut self, stream: usize) {
        self.closed[stream] = true;
    }

    /// The offsets of a stream's events after a position.
    pub(super) fn offsets(&self, stream: usize, after: &str) -> Vec<String> {
        self.positions(stream, position(after)).map(offset).collect()
    }

    pub(super) fn is_closed(&self, stream: usize) -> bool {
        self.closed[stream]
    }

    fn positions(&self, stream: usize, after: usize) -> impl Iterator<Item = usize> {
        let of_stream = move |(_, logged): &(usize, &Logged)| logged.stream == stream;
        let later = self.log.iter().enumerate().filter(of_stream).map(|(index, _)| index + 1);
        later.filter(move |position| *position > after)
    }

    pub(super) fn push(&mut self, count: usize) {
        let mut ended = Vec::new();
        let mut messages = Vec::new();
        for (query_id, subscribed) in &self.subscriptions {
            let stream = subscribed.stream;
            let positions: Vec<usize> =
                self.positions(stream, subscribed.sent).take(count).collect();
            let last = positions.last().copied().unwrap_or(subscribed.sent);
            messages.extend(positions.into_iter().map(|at| self.message(query_id, at)));
            if self.closed[stream] && self.positions(stream, last).next().is_none() {
                ended.push(query_id.clone());
            }
        }
        for message in messages {
            if let Message::Event { query_id, offset, .. } | Message::Notify { query_id, offset } =
                &message
                && let Some(subscribed) = self.subscriptions.get_mut(&**query_id)
            {
                subscribed.sent = position(offset);
            }
            self.to_client.push_back(message);
        }
        for query_id in ended {
            self.end(&query_id, "stream_closed");
        }
    }

    fn end(&mut self, query_id: &str, reason: &str) {
        if let Some(ended) = self.subscriptions.remove(query_id) {
            self.pointers.remove(&ended.stream);
        }
        let query_id = Cow::Owned(query_id.to_owned());
        self.to_client.push_back(Message::Ended {
            query_id,
            reason: reason.to_owned(),
            what: None,
        });
    }

    pub(super) fn repeat(&mut self, stream: usize, back: usize) {
        let of_stream = |subscribed: &&Subscribed| subscribed.stream == stream;
        let found = self.subscriptions.iter().find(|(_, subscribed)| of_stream(subscribed));
        let Some((query_id, subscribed)) = found else {
            return;
        };
        let sent = self.positions(stream, 0).filter(|at| *at <= subscribed.sent);
        if let Some(at) = sent.collect::<Vec<_>>().into_iter().rev().nth(back) {
            self.to_client.push_back(self.message(query_id, at));
        }
    }

    fn message(&self, query_id: &str, at: usize) -> Message<'static> {
        let (query_id, offset) = (Cow::Owned(query_id.to_owned()), Cow::Owned(offset(at)));
        let Logged { stream, large } = self.log[at - 1];
        if large {
            return Message::Notify { query_id, offset };
        }
        let payload = sent(stream, at);
        Message::Event { query_id, offset, payload, is_json: true }
    }

    /// What waits for a subscription is replaced by a gap.
    pub(super) fn overflow(&mut self, stream: usize) {
        let of_stream = |subscribed: &&Subscribed| subscribed.stream == stream;
        let found = self.subscriptions.iter().find(|(_, subscribed)| of_stream(subscribed));
        let Some(query_id) = found.map(|(query_id, _)| query_id.clone()) else {
            return;
        };
        let waits = |message: &Message<'_>| {
            matches!(message, Message::Event { query_id: id, .. }
                | Message::Notify { query_id: id, .. } if **id == query_id)
        };
        // What was queued for an older subscription of the same name is none of this one's.
        let begins = |message: &Message<'_>| matches!(message, Message::Created(created) if created[0].query_id == query_id);
        let after = self.to_client.iter().rposition(begins).map_or(0, |at| at + 1);
        let mut rest = self.to_client.split_off(after);
        if let Some(first) = rest.iter().position(waits) {
            rest[first] = Message::Gap { query_id: Cow::Owned(query_id.clone()) };
            rest.retain(|message| !waits(message));
        }
        self.to_client.append(&mut rest);
    }

    /// Everything up to the tip was sent to everyone, or dropped with a gap.
    pub(super) fn progress(&mut self) {
        self.push(usize::MAX);
        let offset = Cow::Owned(offset(self.log.len()));
        self.to_client.push_back(Message::Progress { query_id: None, offset });
    }

    pub(super) fn deliver(&mut self, count: usize) -> Vec<Message<'static>> {
        let count = count.min(self.to_client.len());
        self.to_client.drain(..count).collect()
    }

    pub(super) fn hear(&mut self, requests: Vec<Request>) {
        self.from_client.extend(requests);
    }

    /// Takes up the client's next request, if there is one.
    pub(super) fn handle(&mut self) -> bool {
        let Some(request) = self.from_client.pop_front() else {
            return false;
        };
        match request {
            Request::Subscribe { subscriptions } => {
                let refuse = std::mem::take(&mut self.refuse);
                for subscribe in subscriptions {
                    if refuse { self.refuse(&subscribe) } else { self.subscribe(&subscribe) }
                }
            }
            Request::Unsubscribe { query_ids } => {
                query_ids.iter().for_each(|query_id| self.end(query_id, "unsubscribed"));
            }
            Request::Ack { offsets } => {
                for acked in offsets {
                    let at = position(&acked.last_offset);
                    let named = acked.stream_id.as_deref().map(stream_of);
                    for (stream, pointer) in &mut self.pointers {
                        if named.is_none_or(|named| named == *stream) {
                            *pointer = at.max(*pointer);
                        }
                    }
                }
            }
        }
        true
    }

    fn refuse(&mut self, subscribe: &Subscribe) {
        self.subscriptions.remove(&subscribe.query_id);
        let problem = Problem { temporary: Some(true), ..Problem::default() };
        let query_id = Some(Cow::Owned(subscribe.query_id.clone()));
        self.to_client.push_back(Message::Problem { query_id, problem });
    }

    fn subscribe(&mut self, subscribe: &Subscribe) {
        let stream = stream_of(&subscribe.stream);
        let sent = match subscribe.offset.as_deref() {
            None => self.pointers.get(&stream).copied().unwrap_or(self.log.len()),
            Some("-1") => 0,
            Some("now") => self.log.len(),
            Some(offset) => position(offset),
        };
        if self.session {
            self.subscriptions.retain(|_, subscribed| subscribed.stream != stream);
            self.pointers.insert(stream, sent);
        }
        self.create(subscribe.query_id.clone(), stream, sent);
    }

    fn create(&mut self, query_id: String, stream: usize, sent: usize) {
        self.to_client.push_back(Message::Created(vec![Created {
            query_id: Cow::Owned(query_id.clone()),
            stream: Cow::Owned(stream_name(stream)),
            content_type: content_type(stream).map(str::to_owned),
            offset: Some(Cow::Owned(offset(sent))),
            ..Created::default()
        }]));
        self.subscriptions.insert(query_id, Subscribed { stream, sent });
    }

    /// A new connection: the session's subscriptions are taken up by it.
    pub(super) fn cut(&mut self) {
        self.to_client.clear();
        self.from_client.clear();
        self.subscriptions.clear();
        for (stream, pointer) in self.pointers.clone() {
            self.create(stream_name(stream), stream, pointer);
        }
    }

    /// A read over HTTP.
    pub(super) fn page(&self, stream: &str, after: &str, events_max: usize) -> EventPage {
        let stream = stream_of(stream);
        let all: Vec<usize> = self.positions(stream, position(after)).collect();
        let event =
            |at: &usize| Event { offset: offset(*at), payload: sent(stream, *at), is_json: true };
        let events: Vec<Event> = all.iter().take(events_max).map(event).collect();
        let next_offset = events.last().map_or(after.to_owned(), |event| event.offset.clone());
        let up_to_date = events.len() == all.len();
        EventPage { events, next_offset, up_to_date, closed: false }
    }
}
