//! Loading what commands are decided against, under the offset lock.

use std::collections::BTreeMap;

use deadpool_postgres::ClientWrapper;
use futures_util::future::try_join5;
use tokio_postgres::{Error, Row, Statement};

use super::error::broken;
use super::fence::Fence;
use super::query::{Params, prepare, query, query_one, sql, unsigned};
use super::read;
use tidewire_store::command::{Command, Create, ForkFrom};
use tidewire_store::decide::{CutAppend, LoadedState};
use tidewire_store::error::StoreError;
use tidewire_store::event::Event;
use tidewire_store::offset::Position;
use tidewire_store::stream::{
    Closed, Fork, Lifetime, ProducerStamp, ProducerState, StreamState, segments,
};

/// Whoever holds this advisory lock gives offsets. All nodes, the sequencer and the reader of the
/// write-ahead log take it, each in a short transaction of its own: `tide` and 1.
pub const OFFSET_LOCK: i64 = 0x7469_6465_0000_0001;

/// The log's highest position.
pub(crate) async fn tip(client: &ClientWrapper) -> Result<Position, StoreError> {
    let read = async { query_one(client, sql!("tip"), &[]).await?.try_get(0) };
    read.await.map(Position::from_sql).map_err(broken("read the log's tip"))
}

/// Begins a transaction, takes the offset lock, and loads what the commands are sure to need: all
/// in one round trip. Nothing is appended in a database that is not the one that was opened, which the
/// statement that reads the tip says too. Each statement after the lock sees what the lock's last holder committed, because
/// in READ COMMITTED each has a snapshot of its own.
pub(crate) async fn begin(
    client: &ClientWrapper,
    fence: &Fence,
    commands: &[Command],
) -> Result<LoadedState, StoreError> {
    let names = LoadedState::default().streams_wanted(commands);
    let producers_wanted = LoadedState::producers_wanted(commands);
    let (owners, ids): (Vec<&str>, Vec<&str>) =
        producers_wanted.iter().map(|(stream, id)| (stream.as_str(), id.as_str())).unzip();
    let load = async {
        let head = fence.fitted(sql!("head"));
        let [lock, head, streams, producers] =
            prepare(client, [sql!("lock"), &head, sql!("streams"), sql!("producers")]).await?;
        let (_, _, at, streams, producers) = try_join5(
            client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED"),
            client.execute(&lock, &[&OFFSET_LOCK]),
            client.query_one(&head, &[]),
            query_unless(names.is_empty(), client, &streams, &[&names]),
            query_unless(ids.is_empty(), client, &producers, &[&owners, &ids]),
        )
        .await?;
        let mut loaded = LoadedState::new(at.try_get(1)?, Position::from_sql(at.try_get(0)?));
        put_streams(&mut loaded, &names, &streams)?;
        put_producers(&mut loaded, &producers_wanted, &producers)?;
        Ok((loaded, at))
    };
    let seen = fence.seen();
    let (loaded, at) = load.await.map_err(broken("load what is to be decided"))?;
    fence.check(&at, 2, seen)?;
    Ok(loaded)
}

async fn query_unless(
    skip: bool,
    client: &ClientWrapper,
    statement: &Statement,
    params: Params<'_>,
) -> Result<Vec<Row>, Error> {
    if skip { Ok(Vec::new()) } else { client.query(statement, params).await }
}

/// Loads what else the commands turn out to need: the ancestors of forks, the ends of streams. For
/// plain appends that is nothing.
pub(crate) async fn complete(
    client: &ClientWrapper,
    loaded: &mut LoadedState,
    commands: &[Command],
) -> Result<(), StoreError> {
    let load = async {
        loop {
            let names = loaded.streams_wanted(commands);
            if names.is_empty() {
                break;
            }
            let rows = query(client, sql!("streams"), &[&names]).await?;
            put_streams(loaded, &names, &rows)?;
        }
        let names = loaded.tails_wanted(commands);
        let states = names.iter().filter_map(|name| loaded.streams.get(name)?.as_ref());
        let tails = own_tails(client, states).await?;
        loaded.tails.extend(tails);
        Ok(())
    };
    load.await.map_err(broken("load what is to be decided"))?;
    if let [Command::Create(create)] = commands {
        loaded.fork_append = fork_append(client, loaded, create).await?;
    }
    Ok(())
}

fn put_streams(loaded: &mut LoadedState, names: &[String], rows: &[Row]) -> Result<(), Error> {
    loaded.streams.extend(names.iter().map(|name| (name.clone(), None)));
    for row in rows {
        let state = state_of_row(row)?;
        loaded.streams.insert(state.name.clone(), Some(state));
    }
    Ok(())
}

fn put_producers(
    loaded: &mut LoadedState,
    wanted: &[(String, String)],
    rows: &[Row],
) -> Result<(), Error> {
    loaded.producers.extend(wanted.iter().map(|key| (key.clone(), None)));
    for row in rows {
        let state = ProducerState {
            epoch: unsigned(row.try_get(2)?),
            seq: unsigned(row.try_get(3)?),
            position: Position::from_sql(row.try_get(4)?),
        };
        loaded.producers.insert((row.try_get(0)?, row.try_get(1)?), Some(state));
    }
    Ok(())
}

/// Rows of streams, by name.
pub(crate) async fn streams(
    client: &ClientWrapper,
    names: &[String],
) -> Result<Vec<StreamState>, Error> {
    query(client, sql!("streams"), &[&names]).await?.iter().map(state_of_row).collect()
}

/// Positions of the last own events of streams that have any.
pub(crate) async fn own_tails<'a>(
    client: &ClientWrapper,
    states: impl Iterator<Item = &'a StreamState>,
) -> Result<BTreeMap<String, Position>, Error> {
    let (names, created): (Vec<&str>, Vec<i64>) =
        states.map(|state| (state.name.as_str(), state.created.to_sql())).unzip();
    if names.is_empty() {
        return Ok(BTreeMap::new());
    }
    let rows = query(client, sql!("stream_tails"), &[&names, &created]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, Position::from_sql(row.try_get(1)?)))).collect()
}

/// The events of the append that a fork's sub-offset cuts through.
async fn fork_append(
    client: &ClientWrapper,
    loaded: &LoadedState,
    create: &Create,
) -> Result<Vec<Event>, StoreError> {
    let Some(ForkFrom { source, offset, sub_offset }) = &create.fork else {
        return Ok(Vec::new());
    };
    let Some(after) = offset.filter(|_| *sub_offset > 0) else {
        return Ok(Vec::new());
    };
    let mut chain: Vec<StreamState> = Vec::new();
    let mut next = Some(source);
    while let Some(Some(Some(state))) = next.map(|name| loaded.streams.get(name)) {
        chain.push(state.clone());
        next = state.fork.as_ref().map(|fork| &fork.source);
    }
    let segments = segments(&chain);
    let json = chain.first().is_some_and(StreamState::is_json);
    let mut cut = CutAppend::new(after, *sub_offset, json);
    while let Some((after, limit)) = cut.next() {
        let run = read::segments(client, &segments, after, loaded.tip, limit).await?;
        cut.take(run.events, run.complete);
    }
    Ok(cut.into_events())
}

/// A stream's row, from the columns that `streams.sql` and `stream_chain.sql` begin with.
pub(crate) fn state_of_row(row: &Row) -> Result<StreamState, Error> {
    let lifetime = match (row.try_get::<_, Option<i64>>(3)?, row.try_get::<_, Option<i64>>(4)?) {
        (Some(ttl_s), _) => Lifetime::Sliding { ttl_s: unsigned(ttl_s) },
        (None, Some(at_ms)) => Lifetime::Until { at_ms },
        (None, None) => Lifetime::Forever,
    };
    let closed = match row.try_get::<_, Option<i64>>(6)? {
        None => None,
        Some(position) => Some(Closed {
            position: Position::from_sql(position),
            by: match row.try_get::<_, Option<String>>(7)? {
                None => None,
                Some(id) => Some(ProducerStamp {
                    id,
                    epoch: unsigned(row.try_get(8)?),
                    seq: unsigned(row.try_get(9)?),
                }),
            },
        }),
    };
    let fork = match row.try_get::<_, Option<String>>(10)? {
        None => None,
        Some(source) => Some(Fork {
            source,
            offset: Position::from_sql(row.try_get(11)?),
            sub_offset: unsigned(row.try_get::<_, Option<i64>>(12)?.unwrap_or(0)),
            position: Position::from_sql(row.try_get(13)?),
        }),
    };
    Ok(StreamState {
        name: row.try_get(0)?,
        created: Position::from_sql(row.try_get(1)?),
        content_type: row.try_get(2)?,
        lifetime,
        expires_at_ms: row.try_get(5)?,
        closed,
        fork,
        forks: u32::try_from(row.try_get::<_, i64>(14)?).unwrap_or(u32::MAX),
        soft_deleted: row.try_get(15)?,
        last_seq: row.try_get(16)?,
        host_id: row.try_get(17)?,
        trimmed: Position::from_sql(row.try_get(18)?),
    })
}
