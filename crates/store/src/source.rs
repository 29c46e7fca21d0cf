//! A log whose rows are handed out one at a time, and at once: the way through them that deciding
//! commands and answering readers takes.
//!
//! SQLite and the in-memory store are such logs. PostgreSQL asks for many rows in one round trip, and
//! has its own way.

use crate::command::{Command, Create, ForkFrom};
use crate::decide::{CutAppend, LoadedState};
use crate::event::Event;
use crate::log::{Found, Page, PageLimit, Run, StreamView};
use crate::offset::Position;
use crate::stream::{self, ProducerState, Segment, StreamState, segments};
use crate::subscription::{Ends, NAMES_AT_ONCE, Op, glob};

/// A log at one moment.
pub trait Source {
    /// Why a row cannot be had.
    type Error;

    /// When that moment is, by the store's clock.
    fn now_ms(&self) -> i64;

    /// The log's highest position.
    fn tip(&self) -> Result<Position, Self::Error>;

    /// A stream's row.
    fn stream(&mut self, name: &str) -> Result<Option<StreamState>, Self::Error>;

    /// The position of a stream's last own event.
    fn own_tail(&self, state: &StreamState) -> Result<Option<Position>, Self::Error>;

    /// What was last accepted from a producer.
    fn producer(&self, stream: &str, id: &str) -> Result<Option<ProducerState>, Self::Error>;

    /// Runs of events one after the other, until a limit is reached.
    fn run(
        &self,
        segments: &[Segment],
        after: Position,
        limit: PageLimit,
    ) -> Result<Run, Self::Error>;

    /// Names of streams in order.
    fn names(&self, prefix: &str, after: &str, limit: usize) -> Result<Vec<String>, Self::Error>;
}

/// Everything that commands need to know.
pub fn load<S: Source>(source: &mut S, commands: &[Command]) -> Result<LoadedState, S::Error> {
    let mut loaded = LoadedState::new(source.now_ms(), source.tip()?);
    loop {
        let wanted = loaded.streams_wanted(commands);
        if wanted.is_empty() {
            break;
        }
        for name in wanted {
            let state = source.stream(&name)?;
            loaded.streams.insert(name, state);
        }
    }
    for name in loaded.tails_wanted(commands) {
        let Some(Some(state)) = loaded.streams.get(&name) else { continue };
        if let Some(tail) = source.own_tail(state)? {
            loaded.tails.insert(name, tail);
        }
    }
    for (stream, id) in LoadedState::producers_wanted(commands) {
        let state = source.producer(&stream, &id)?;
        loaded.producers.insert((stream, id), state);
    }
    if let [Command::Create(create)] = commands {
        loaded.fork_append = fork_append(source, &loaded, create)?;
    }
    Ok(loaded)
}

/// The events of the append that a fork's sub-offset cuts through.
fn fork_append<S: Source>(
    source: &mut S,
    loaded: &LoadedState,
    create: &Create,
) -> Result<Vec<Event>, S::Error> {
    let Some(ForkFrom { source: name, offset, sub_offset }) = &create.fork else {
        return Ok(Vec::new());
    };
    let Some(Some(state)) = loaded.streams.get(name) else { return Ok(Vec::new()) };
    let Some(after) = offset.filter(|_| *sub_offset > 0) else { return Ok(Vec::new()) };
    let segments = segments(&chain(source, state.clone())?);
    let mut cut = CutAppend::new(after, *sub_offset, state.is_json());
    while let Some((after, limit)) = cut.next() {
        let run = source.run(&segments, after, limit)?;
        cut.take(run.events, run.complete);
    }
    Ok(cut.into_events())
}

/// A stream, its source, that one's source, and so on.
fn chain<S: Source>(source: &mut S, state: StreamState) -> Result<Vec<StreamState>, S::Error> {
    let mut chain = vec![state];
    while let Some(fork) = chain.last().and_then(|state| state.fork.as_ref()) {
        match source.stream(&fork.source)? {
            Some(state) => chain.push(state),
            None => break,
        }
    }
    Ok(chain)
}

/// A stream's end.
pub fn tail<S: Source>(source: &S, state: &StreamState) -> Result<Position, S::Error> {
    // The end of a closed stream is in its row.
    let own = if state.closed.is_some() { None } else { source.own_tail(state)? };
    Ok(state.tail(own))
}

/// Reads a stream.
pub fn read<S: Source>(
    source: &mut S,
    name: &str,
    after: Position,
    limit: PageLimit,
) -> Result<Found, S::Error> {
    let Some(state) = source.stream(name)? else { return Ok(Found::NotFound) };
    if state.soft_deleted {
        return Ok(Found::Gone { host_id: state.host_id });
    }
    if state.expired(source.now_ms()) {
        return Ok(Found::NotFound);
    }
    let (tip, tail) = (source.tip()?, tail(source, &state)?);
    let chain = chain(source, state.clone())?;
    let (lost, root) = (stream::lost(&chain), stream::root(&chain));
    let view = StreamView { state, tail, lost, root };
    let run = if limit.events == 0 || after >= tail {
        Run { events: Vec::new(), complete: after >= tail }
    } else {
        source.run(&segments(&chain), after, limit)?
    };
    Ok(Found::Stream(Box::new(Page::of_run(view, run, after, tip))))
}

/// Where the streams that an operation concerns end, and where the forks among them start.
pub fn ends<S: Source>(source: &mut S, op: &Op) -> Result<Ends, S::Error> {
    let (mut names, pattern) = op.concerns();
    if let Some(pattern) = pattern {
        names.extend(matching(source, pattern)?);
    }
    let mut ends = Ends::default();
    for name in names {
        if let Some(state) = source.stream(&name)?
            && !state.soft_deleted
        {
            let tail = tail(source, &state)?;
            ends.starts.insert(name.clone(), state.inherited_tail());
            ends.tails.insert(name, tail);
        }
    }
    Ok(ends)
}

/// All streams whose names match a pattern.
fn matching<S: Source>(source: &S, pattern: &str) -> Result<Vec<String>, S::Error> {
    let prefix = glob::literal_prefix(pattern);
    let mut matching = Vec::new();
    let mut after = String::new();
    loop {
        let names = source.names(prefix, &after, NAMES_AT_ONCE)?;
        let Some(last) = names.last() else { return Ok(matching) };
        after.clone_from(last);
        matching.extend(names.into_iter().filter(|name| glob::matches(pattern, name)));
    }
}
