//! Loading what commands are decided against.

use rusqlite::{Connection, OptionalExtension, Row};

use super::cache::StreamCache;
use super::error::broken;
use super::{read, sql};
use tidewire_store::error::StoreError;
use tidewire_store::log::{PageLimit, Run};
use tidewire_store::offset::Position;
use tidewire_store::source::Source;
use tidewire_store::stream::{
    Closed, Fork, Lifetime, ProducerStamp, ProducerState, Segment, StreamState,
};

/// The log's highest position.
pub(crate) fn tip(connection: &Connection) -> Result<Position, StoreError> {
    connection
        .prepare_cached(sql!("tip"))
        .and_then(|mut query| query.query_row([], |row| row.get(0)))
        .map(Position::from_sql)
        .map_err(broken("read the log's tip"))
}

/// The rows of the log, as they are in one transaction.
pub(crate) struct LogSnapshot<'a> {
    connection: &'a Connection,
    cache: Option<&'a mut StreamCache>,
    now_ms: i64,
}

impl<'a> LogSnapshot<'a> {
    pub(crate) fn new(connection: &'a Connection, now_ms: i64) -> LogSnapshot<'a> {
        LogSnapshot { connection, cache: None, now_ms }
    }

    /// The same for the writer, which knows the rows of many streams.
    pub(crate) fn cached(
        connection: &'a Connection,
        cache: &'a mut StreamCache,
        now_ms: i64,
    ) -> LogSnapshot<'a> {
        LogSnapshot { connection, cache: Some(cache), now_ms }
    }
}

impl Source for LogSnapshot<'_> {
    type Error = StoreError;

    fn now_ms(&self) -> i64 {
        self.now_ms
    }

    fn tip(&self) -> Result<Position, StoreError> {
        tip(self.connection)
    }

    fn stream(&mut self, name: &str) -> Result<Option<StreamState>, StoreError> {
        if let Some(known) = self.cache.as_ref().and_then(|cache| cache.get(name)) {
            return Ok(known.clone());
        }
        let state = self
            .connection
            .prepare_cached(sql!("stream"))
            .and_then(|mut query| query.query_row([name], state_of_row).optional())
            .map_err(broken("read a stream"))?;
        if let Some(cache) = &mut self.cache {
            cache.put(name, state.as_ref());
        }
        Ok(state)
    }

    fn own_tail(&self, state: &StreamState) -> Result<Option<Position>, StoreError> {
        self.connection
            .prepare_cached(sql!("stream_tail"))
            .and_then(|mut query| {
                query.query_row((&state.name, state.created.to_sql()), |row| row.get(0))
            })
            .map(|tail: Option<i64>| tail.map(Position::from_sql))
            .map_err(broken("find a stream's end"))
    }

    fn producer(&self, stream: &str, id: &str) -> Result<Option<ProducerState>, StoreError> {
        let of_row = |row: &Row<'_>| {
            Ok(ProducerState {
                epoch: row.get(0)?,
                seq: row.get(1)?,
                position: Position::from_sql(row.get(2)?),
            })
        };
        self.connection
            .prepare_cached(sql!("producer"))
            .and_then(|mut query| query.query_row((stream, id), of_row).optional())
            .map_err(broken("read a producer"))
    }

    fn run(
        &self,
        segments: &[Segment],
        after: Position,
        limit: PageLimit,
    ) -> Result<Run, StoreError> {
        read::segments(self.connection, segments, after, limit)
    }

    fn names(&self, prefix: &str, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        read::names(self.connection, prefix, after, limit)
    }
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
