//! A store in memory, as small as one can be: it loads what [`decide`] asks for, and keeps what
//! comes of it.

use std::collections::BTreeMap;

use crate::command::{Answer, Command};
use crate::decide::loaded::Purge;
use crate::decide::{LoadedState, NewEvent, Plan, decide};
use crate::event::Event;
use crate::offset::Position;
use crate::stream::{ProducerState, StreamState, segments};

#[derive(Debug, Default, Clone)]
pub(super) struct Model {
    pub(super) now_ms: i64,
    pub(super) streams: BTreeMap<String, StreamState>,
    pub(super) producers: BTreeMap<(String, String), ProducerState>,
    pub(super) events: Vec<NewEvent>,
    pub(super) purges: Vec<Purge>,
}

impl Model {
    pub(super) fn at(now_ms: i64) -> Model {
        Model { now_ms, ..Model::default() }
    }

    /// Decides commands in one batch.
    pub(super) fn batch(&mut self, commands: &[Command]) -> Vec<Answer> {
        let plan = decide(self.loaded(commands), commands);
        self.save(plan)
    }

    /// Decides a command alone.
    pub(super) fn one(&mut self, command: Command) -> Answer {
        let mut answers = self.batch(&[command]);
        assert_eq!(answers.len(), 1, "one command has one answer");
        answers.remove(0)
    }

    pub(super) fn tip(&self) -> Position {
        self.events.last().map_or(Position::START, |event| event.position)
    }

    /// What a stream shows.
    pub(super) fn shown(&self, stream: &str) -> Vec<&NewEvent> {
        let mut chain: Vec<StreamState> = self.streams.get(stream).cloned().into_iter().collect();
        while let Some(fork) = chain.last().and_then(|state| state.fork.clone()) {
            chain.push(self.streams[&fork.source].clone());
        }
        let in_segment = |segment: &crate::stream::Segment, event: &NewEvent| {
            let within = segment.after < event.position && event.position <= segment.up_to;
            within && event.control.is_none() && event.stream == segment.stream
        };
        let segments = segments(&chain);
        let shown = segments
            .iter()
            .flat_map(|segment| self.events.iter().filter(move |event| in_segment(segment, event)));
        shown.collect()
    }

    pub(super) fn texts(&self, stream: &str) -> Vec<String> {
        let text = |event: &&NewEvent| {
            String::from_utf8_lossy(event.payload.as_deref().unwrap_or_default()).into_owned()
        };
        self.shown(stream).iter().map(text).collect()
    }

    pub(super) fn loaded(&self, commands: &[Command]) -> LoadedState {
        let mut loaded = LoadedState::new(self.now_ms, self.tip());
        loop {
            let wanted = loaded.streams_wanted(commands);
            if wanted.is_empty() {
                break;
            }
            for name in wanted {
                let state = self.streams.get(&name).cloned();
                loaded.streams.insert(name, state);
            }
        }
        for name in loaded.tails_wanted(commands) {
            if let Some(tail) = self.own_tail(&name) {
                loaded.tails.insert(name, tail);
            }
        }
        for key in LoadedState::producers_wanted(commands) {
            let state = self.producers.get(&key).copied();
            loaded.producers.insert(key, state);
        }
        loaded.fork_append = self.fork_append(commands);
        loaded
    }

    fn own_tail(&self, stream: &str) -> Option<Position> {
        let created = self.streams[stream].created;
        let own = |event: &&NewEvent| {
            event.stream == stream && event.control.is_none() && event.position > created
        };
        self.events.iter().rfind(own).map(|event| event.position)
    }

    /// The source's events of the append after a fork's offset.
    fn fork_append(&self, commands: &[Command]) -> Vec<Event> {
        let [Command::Create(create)] = commands else {
            return Vec::new();
        };
        let Some(from) = create.fork.as_ref().filter(|from| from.sub_offset > 0) else {
            return Vec::new();
        };
        let Some(after) = from.offset else {
            return Vec::new();
        };
        let later = self.shown(&from.source).into_iter().filter(|event| event.position > after);
        let events: Vec<Event> = later
            .map(|event| Event {
                position: event.position,
                append_id: event.append_id,
                payload: event.payload.clone().unwrap_or_default(),
                row: None,
            })
            .collect();
        let append_id = events.first().map(|event| event.append_id);
        events.into_iter().take_while(|event| Some(event.append_id) == append_id).collect()
    }

    pub(super) fn save(&mut self, plan: Plan) -> Vec<Answer> {
        self.events.extend(plan.events);
        for name in &plan.removed {
            self.streams.remove(name);
        }
        self.producers.retain(|(stream, _), _| !plan.producers_cleared.contains(stream));
        for state in plan.streams {
            self.streams.insert(state.name.clone(), state);
        }
        for (stream, id, state) in plan.producers {
            self.producers.insert((stream, id), state);
        }
        self.purges.extend(plan.purges);
        plan.answers
    }
}
