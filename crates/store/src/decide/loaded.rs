//! What commands are decided against, and what comes of it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;

use crate::command::{Actor, Answer, Command, Reach};
use crate::entity::EntityChange;
use crate::event::{Control, Event, TailEvent};
use crate::offset::Position;
use crate::row::RowChange;
use crate::stream::{ProducerState, StreamState};

/// The part of the store that a batch of commands needs, loaded under the offset lock.
#[derive(Debug, Default)]
pub struct LoadedState {
    /// The store's clock.
    pub now_ms: i64,
    /// The log's highest position.
    pub tip: Position,
    /// Rows of the streams that were looked up; `None` if there is none of that name.
    pub streams: HashMap<String, Option<StreamState>>,
    /// Producers that were looked up, by stream and id.
    pub producers: HashMap<(String, String), Option<ProducerState>>,
    /// Position of the last event of each stream in [`LoadedState::tails_wanted`] that has any.
    pub tails: HashMap<String, Position>,
    /// For a fork with a sub-offset: the source's events of the append after the fork's offset.
    pub fork_append: Vec<Event>,
    changes: Changes,
}

#[derive(Debug, Default)]
struct Changes {
    events: Vec<NewEvent>,
    streams: BTreeSet<String>,
    producers: HashSet<(String, String)>,
    cleared: BTreeSet<String>,
    purges: Vec<Purge>,
}

/// An event to be written. Its position is given already.
#[derive(Debug, Clone)]
pub struct NewEvent {
    pub position: Position,
    pub append_id: Position,
    pub stream: String,
    pub control: Option<Control>,
    pub payload: Option<Bytes>,
    /// The change of a row, which knows its maker and its transaction better than the event does.
    pub row: Option<Arc<RowChange>>,
    /// The change of an entity, if it is one.
    pub entity: Option<EntityChange>,
    pub content_type: Option<String>,
    pub actor: Actor,
    pub trace_context: Option<String>,
    /// The user's transaction that it came from, if it came from one.
    pub txid: Option<i64>,
    /// The append's last event, or the transaction's.
    pub tx_last: bool,
}

impl NewEvent {
    /// Bytes of what it carries.
    pub fn bytes(&self) -> usize {
        let row = self.row.as_ref().map_or(0, |row| row.bytes());
        self.payload.as_ref().map_or(0, Bytes::len) + row
    }

    /// As those who follow the log see it, once it is committed.
    pub fn followed(&self, now_ms: i64) -> TailEvent {
        TailEvent {
            entity: self.entity.clone(),
            position: self.position,
            stream: self.stream.clone(),
            control: self.control,
            payload: self.payload.clone(),
            row: self.row.clone(),
            txid: self.txid,
            tx_last: self.tx_last,
            created_at_ms: now_ms,
        }
    }
}

/// Events that no stream shows any more: those of `stream` in `after..=up_to`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Purge {
    pub stream: String,
    pub after: Position,
    pub up_to: Position,
}

/// What to write, and what to answer once it is durable.
#[derive(Debug)]
pub struct Plan {
    pub events: Vec<NewEvent>,
    /// Streams to insert or update.
    pub streams: Vec<StreamState>,
    /// Names of streams to remove.
    pub removed: Vec<String>,
    /// Names of streams whose producers are to be forgotten, before `producers` is written. Holds
    /// more than `removed` when a stream was made anew in the same batch.
    pub producers_cleared: Vec<String>,
    /// Producers to insert or update: stream, id, state.
    pub producers: Vec<(String, String, ProducerState)>,
    pub purges: Vec<Purge>,
    /// One for each command.
    pub answers: Vec<Answer>,
}

impl Plan {
    /// Whether there is nothing to write: such a batch needs no commit.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
            && self.streams.is_empty()
            && self.removed.is_empty()
            && self.producers.is_empty()
            && self.purges.is_empty()
    }
}

impl LoadedState {
    /// A state of which nothing has been loaded yet.
    pub fn new(now_ms: i64, tip: Position) -> LoadedState {
        LoadedState { now_ms, tip, ..LoadedState::default() }
    }

    /// Names that `commands` need and that have not been looked up. The store loads them and asks
    /// again until there are none: each round may reveal the ancestors of a fork.
    pub fn streams_wanted(&self, commands: &[Command]) -> Vec<String> {
        let mut wanted = BTreeSet::new();
        for command in commands {
            self.want(command.stream(), matches!(command, Command::Delete { .. }), &mut wanted);
            if let Command::Create(create) = command
                && let Some(fork) = &create.fork
            {
                self.want_chain(&fork.source, &mut wanted);
            }
        }
        wanted.into_iter().collect()
    }

    /// Wants a stream and, where it may be removed, the sources that its removal may release.
    fn want(&self, stream: &str, removes: bool, wanted: &mut BTreeSet<String>) {
        match self.streams.get(stream) {
            None => {
                wanted.insert(stream.to_owned());
            }
            Some(Some(state)) if removes || state.expired(self.now_ms) => {
                if let Some(fork) = &state.fork {
                    self.want_chain(&fork.source, wanted);
                }
            }
            Some(_) => {}
        }
    }

    /// Wants a stream and all its ancestors.
    fn want_chain(&self, stream: &str, wanted: &mut BTreeSet<String>) {
        let mut name = stream;
        loop {
            match self.streams.get(name) {
                None => {
                    wanted.insert(name.to_owned());
                    return;
                }
                Some(Some(StreamState { fork: Some(fork), .. })) => name = &fork.source,
                Some(_) => return,
            }
        }
    }

    /// Streams whose last event's position the commands need to know. Only after
    /// [`LoadedState::streams_wanted`] is empty.
    pub fn tails_wanted(&self, commands: &[Command]) -> Vec<String> {
        let mut wanted = BTreeSet::new();
        for command in commands {
            match command {
                Command::Create(create) => {
                    wanted.insert(create.stream.clone());
                    if let Some(fork) = &create.fork {
                        wanted.insert(fork.source.clone());
                    }
                }
                Command::Append(append) if append.messages.is_empty() => {
                    wanted.insert(append.stream.clone());
                }
                _ => {}
            }
        }
        wanted.retain(|name| matches!(self.streams.get(name), Some(Some(_))));
        wanted.into_iter().collect()
    }

    /// Producers that the commands are stamped with: stream and id.
    pub fn producers_wanted(commands: &[Command]) -> Vec<(String, String)> {
        let stamped = commands.iter().filter_map(|command| match command {
            Command::Append(append) => {
                append.producer.as_ref().map(|stamp| (append.stream.clone(), stamp.id.clone()))
            }
            _ => None,
        });
        stamped.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The end of a stream, from its last own event or what it inherited.
    pub(super) fn tail(&self, state: &StreamState) -> Position {
        state.tail(self.tails.get(&state.name).copied())
    }

    pub(super) fn state(&self, stream: &str) -> Option<&StreamState> {
        self.streams.get(stream).and_then(Option::as_ref)
    }

    pub(super) fn state_mut(&mut self, stream: &str) -> Option<&mut StreamState> {
        self.streams.get_mut(stream).and_then(Option::as_mut)
    }

    /// Whether there is a stream of that name, deleted or not, that someone of this reach must not
    /// know of. Asked before anything else is, so that an answer tells nothing about it.
    pub(super) fn out_of_reach(&self, stream: &str, reach: &Reach) -> bool {
        let covers = |state: &StreamState| reach.covers(state.host_id.as_deref());
        // Those who may use everything do not pay for a look-up.
        !matches!(reach, Reach::All) && !self.state(stream).is_none_or(covers)
    }

    /// The stream, unless it is deleted or its time has run out.
    pub(super) fn live_mut(&mut self, stream: &str) -> Option<&mut StreamState> {
        let now_ms = self.now_ms;
        self.state_mut(stream).filter(|state| !state.soft_deleted && !state.expired(now_ms))
    }

    /// Marks a stream's row to be written.
    pub(super) fn changed(&mut self, stream: &str) {
        if !self.changes.streams.contains(stream) {
            self.changes.streams.insert(stream.to_owned());
        }
    }

    pub(super) fn put_stream(&mut self, state: StreamState) {
        self.changed(&state.name);
        self.streams.insert(state.name.clone(), Some(state));
    }

    pub(super) fn remove_stream(&mut self, stream: &str) -> Option<StreamState> {
        self.changed(stream);
        self.tails.remove(stream);
        // A later stream of the same name starts without producers.
        for ((owner, _), state) in &mut self.producers {
            if owner == stream {
                *state = None;
            }
        }
        self.changes.producers.retain(|(owner, _)| owner != stream);
        self.changes.cleared.insert(stream.to_owned());
        self.streams.insert(stream.to_owned(), None).flatten()
    }

    pub(super) fn put_producer(&mut self, stream: &str, id: &str, state: ProducerState) {
        let key = (stream.to_owned(), id.to_owned());
        self.producers.insert(key.clone(), Some(state));
        self.changes.producers.insert(key);
    }

    pub(super) fn purge(&mut self, purge: Purge) {
        self.changes.purges.push(purge);
    }

    /// Takes an event that has its position.
    pub(super) fn push_event(&mut self, event: NewEvent) {
        self.changes.events.push(event);
    }

    /// Says that the last event is the change of an entity.
    pub(super) fn mark_entity(&mut self, entity: EntityChange) {
        if let Some(last) = self.changes.events.last_mut() {
            last.entity = Some(entity);
        }
    }

    /// Gives the next position to a control event.
    pub(super) fn push_control(
        &mut self,
        stream: &str,
        control: Control,
        actor: &Actor,
    ) -> Position {
        self.tip = self.tip.next();
        self.changes.events.push(NewEvent {
            position: self.tip,
            append_id: self.tip,
            stream: stream.to_owned(),
            control: Some(control),
            payload: None,
            row: None,
            entity: None,
            content_type: None,
            actor: actor.clone(),
            trace_context: None,
            txid: None,
            tx_last: true,
        });
        self.tip
    }

    /// Gives positions to an append's messages and returns the stream's new end.
    pub(super) fn push_messages(
        &mut self,
        stream: &str,
        content_type: &str,
        messages: &[Bytes],
        actor: &Actor,
        trace_context: Option<&String>,
    ) -> Position {
        let append_id = self.tip.next();
        for (index, message) in messages.iter().enumerate() {
            self.tip = self.tip.next();
            self.changes.events.push(NewEvent {
                position: self.tip,
                append_id,
                stream: stream.to_owned(),
                control: None,
                payload: Some(message.clone()),
                row: None,
                entity: None,
                content_type: Some(content_type.to_owned()),
                actor: actor.clone(),
                trace_context: trace_context.cloned(),
                txid: None,
                tx_last: index + 1 == messages.len(),
            });
        }
        if let Some(tail) = self.tails.get_mut(stream) {
            *tail = self.tip;
        } else {
            self.tails.insert(stream.to_owned(), self.tip);
        }
        self.tip
    }

    pub(super) fn into_plan(mut self, answers: Vec<Answer>) -> Plan {
        let (mut streams, mut removed) = (Vec::new(), Vec::new());
        for name in self.changes.streams {
            match self.streams.remove(&name).flatten() {
                Some(state) => streams.push(state),
                None => removed.push(name),
            }
        }
        let producers = self
            .changes
            .producers
            .into_iter()
            .filter_map(|key| {
                let state = self.producers.remove(&key).flatten()?;
                Some((key.0, key.1, state))
            })
            .collect();
        Plan {
            events: self.changes.events,
            streams,
            removed,
            producers_cleared: self.changes.cleared.into_iter().collect(),
            producers,
            purges: self.changes.purges,
            answers,
        }
    }
}
