//! Loading what commands are decided against.

use rusqlite::{Connection, OptionalExtension, Row};

use super::cache::StreamCache;
use super::error::broken;
use super::{read, sql};
use crate::command::{Command, Create, ForkFrom};
use crate::decide::{CutAppend, World};
use crate::error::StoreError;
use crate::event::Event;
use crate::offset::Position;
use crate::stream::{Closed, Fork, Lifetime, ProducerStamp, ProducerState, StreamState, segments};

/// The log's highest position.
pub(crate) fn tip(connection: &Connection) -> Result<Position, StoreError> {
    connection
        .prepare_cached(sql!("tip"))
        .and_then(|mut query| query.query_row([], |row| row.get(0)))
        .map(Position::from_sql)
        .map_err(broken("read the log's tip"))
}

/// Everything the commands need to know.
pub(crate) fn world(
    connection: &Connection,
    cache: &mut StreamCache,
    commands: &[Command],
    now_ms: i64,
) -> Result<World, StoreError> {
    let mut world = World::new(now_ms, tip(connection)?);
    loop {
        let wanted = world.streams_wanted(commands);
        if wanted.is_empty() {
            break;
        }
        for name in wanted {
            let state = match cache.get(&name) {
                Some(known) => known.clone(),
                None => {
                    let state = stream(connection, &name)?;
                    cache.put(&name, state.as_ref());
                    state
                }
            };
            world.streams.insert(name, state);
        }
    }
    for name in world.tails_wanted(commands) {
        let Some(Some(state)) = world.streams.get(&name) else { continue };
        if let Some(tail) = own_tail(connection, state)? {
            world.tails.insert(name, tail);
        }
    }
    for (stream, id) in World::producers_wanted(commands) {
        let state = producer(connection, &stream, &id)?;
        world.producers.insert((stream, id), state);
    }
    if let [Command::Create(create)] = commands {
        world.fork_append = fork_append(connection, &world, create)?;
    }
    Ok(world)
}

/// A stream's row.
pub(crate) fn stream(
    connection: &Connection,
    name: &str,
) -> Result<Option<StreamState>, StoreError> {
    connection
        .prepare_cached(sql!("stream"))
        .and_then(|mut query| query.query_row([name], state_of_row).optional())
        .map_err(broken("read a stream"))
}

/// The position of a stream's last own event.
pub(crate) fn own_tail(
    connection: &Connection,
    state: &StreamState,
) -> Result<Option<Position>, StoreError> {
    connection
        .prepare_cached(sql!("stream_tail"))
        .and_then(|mut query| {
            query.query_row((&state.name, state.created.to_sql()), |row| row.get(0))
        })
        .map(|tail: Option<i64>| tail.map(Position::from_sql))
        .map_err(broken("find a stream's end"))
}

/// A stream's end, for readers.
pub(crate) fn tail(connection: &Connection, state: &StreamState) -> Result<Position, StoreError> {
    if let Some(closed) = &state.closed {
        return Ok(closed.position);
    }
    Ok(own_tail(connection, state)?.unwrap_or_else(|| state.inherited_tail()))
}

/// A stream, its source, that one's source, and so on.
pub(crate) fn chain(
    connection: &Connection,
    state: StreamState,
) -> Result<Vec<StreamState>, StoreError> {
    let mut chain = vec![state];
    while let Some(fork) = chain.last().and_then(|state| state.fork.as_ref()) {
        match stream(connection, &fork.source)? {
            Some(source) => chain.push(source),
            None => break,
        }
    }
    Ok(chain)
}

fn producer(
    connection: &Connection,
    stream: &str,
    id: &str,
) -> Result<Option<ProducerState>, StoreError> {
    let of_row = |row: &Row<'_>| {
        Ok(ProducerState {
            epoch: row.get(0)?,
            seq: row.get(1)?,
            position: Position::from_sql(row.get(2)?),
        })
    };
    connection
        .prepare_cached(sql!("producer"))
        .and_then(|mut query| query.query_row((stream, id), of_row).optional())
        .map_err(broken("read a producer"))
}

/// The events of the append that a fork's sub-offset cuts through.
fn fork_append(
    connection: &Connection,
    world: &World,
    create: &Create,
) -> Result<Vec<Event>, StoreError> {
    let Some(ForkFrom { source, offset, sub_offset }) = &create.fork else {
        return Ok(Vec::new());
    };
    let Some(Some(state)) = world.streams.get(source) else { return Ok(Vec::new()) };
    let Some(after) = offset.filter(|_| *sub_offset > 0) else { return Ok(Vec::new()) };
    let segments = segments(&chain(connection, state.clone())?);
    let mut cut = CutAppend::new(after, *sub_offset, state.is_json());
    while let Some((after, limit)) = cut.next() {
        let run = read::segments(connection, &segments, after, limit)?;
        cut.take(run.events, run.complete);
    }
    Ok(cut.into_events())
}

fn state_of_row(row: &Row<'_>) -> rusqlite::Result<StreamState> {
    let lifetime = match (row.get::<_, Option<u64>>(3)?, row.get::<_, Option<i64>>(4)?) {
        (Some(ttl_s), _) => Lifetime::Sliding { ttl_s },
        (None, Some(at_ms)) => Lifetime::Until { at_ms },
        (None, None) => Lifetime::Forever,
    };
    let closed = match row.get::<_, Option<i64>>(6)? {
        None => None,
        Some(position) => {
            let by = match row.get::<_, Option<String>>(7)? {
                None => None,
                Some(id) => Some(ProducerStamp { id, epoch: row.get(8)?, seq: row.get(9)? }),
            };
            Some(Closed { position: Position::from_sql(position), by })
        }
    };
    let fork = match row.get::<_, Option<String>>(10)? {
        None => None,
        Some(source) => Some(Fork {
            source,
            offset: Position::from_sql(row.get(11)?),
            sub_offset: row.get::<_, Option<u64>>(12)?.unwrap_or(0),
            position: Position::from_sql(row.get(13)?),
        }),
    };
    Ok(StreamState {
        name: row.get(0)?,
        created: Position::from_sql(row.get(1)?),
        content_type: row.get(2)?,
        lifetime,
        expires_at_ms: row.get(5)?,
        closed,
        fork,
        forks: row.get(14)?,
        soft_deleted: row.get(15)?,
        last_seq: row.get(16)?,
        host_id: row.get(17)?,
        trimmed: Position::from_sql(row.get(18)?),
    })
}
