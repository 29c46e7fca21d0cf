//! One commit of the sequencer: takes rows out of the staging table and puts them into the log.

use bytes::Bytes;
use deadpool_postgres::ClientWrapper;
use futures_util::future::{FutureExt, try_join};
use tidewire_store::{Actor, Position, Staged, StoreError, staged_entity};
use tidewire_store_postgres::captured::{StagedRow, StagedStreams, broken, broken_commit};
use tokio_postgres::{Error, Row};

use super::batch::{self, WaitingTransaction};
use super::{Sequencer, StepOutcome};
use crate::leader::Head;
use crate::query::{Param, execute, query, query_one, sql};

/// A place in a transaction's order: a statement, or an id where there is none, and an id.
type StagedPosition = (i64, i64);

/// Which rows: of these transactions, with ids from the first to the last.
#[derive(Debug)]
pub(super) struct StagedRange {
    pub(super) txids: Vec<i64>,
    pub(super) first_id: i64,
    pub(super) last_id: i64,
    /// And of those, these places in their transactions' order, without the last.
    places: (StagedPosition, StagedPosition),
    /// At most so many: for what is made ready before they are counted.
    pub(super) count: usize,
    /// Whether the last of each transaction is among them.
    pub(super) whole: bool,
    /// Whether some of them concern streams.
    pub(super) special: bool,
}

impl StagedRange {
    pub(super) fn of(transactions: &[WaitingTransaction]) -> StagedRange {
        let (first_id, last_id) = batch::ids(transactions);
        StagedRange {
            txids: transactions.iter().map(|transaction| transaction.txid).collect(),
            first_id,
            last_id,
            places: ((0, 0), (i64::MAX, i64::MAX)),
            count: transactions.iter().map(|transaction| transaction.rows).sum(),
            whole: true,
            special: transactions.iter().any(|transaction| transaction.special),
        }
    }
}

/// Rows that concern streams and cannot be events, or need not be.
#[derive(Debug, Default)]
pub(super) struct RejectedRows {
    /// Ids, and why.
    pub(super) failed: Vec<(i64, String)>,
    /// Ids of those that ask for what is so already.
    pub(super) needless: Vec<i64>,
}

/// What was written, and is not committed yet.
pub(super) struct UncommittedEvents {
    tip: Position,
    room: i64,
    events: u64,
}

impl Sequencer<'_> {
    /// Moves transactions in one commit.
    pub(super) async fn move_whole(
        &self,
        transactions: &[WaitingTransaction],
    ) -> Result<StepOutcome, StoreError> {
        let head = match self.begin().await? {
            Ok(head) => head,
            Err(end) => return Ok(StepOutcome::Ended(end)),
        };
        let rows = StagedRange::of(transactions);
        let chunk = head.chunk_txid.is_some().then_some(None);
        self.move_and_commit(head, &rows, chunk).await
    }

    /// Moves a transaction in several commits. Which one it is, is kept in the database, so that
    /// whoever leads by then goes on with it before anything else.
    pub(super) async fn move_in_chunks(
        &self,
        transaction: &WaitingTransaction,
        rows_max: usize,
    ) -> Result<StepOutcome, StoreError> {
        let mut rows = StagedRange::of(std::slice::from_ref(transaction));
        loop {
            let head = match self.begin().await? {
                Ok(head) => head,
                Err(end) => return Ok(StepOutcome::Ended(end)),
            };
            let next = self.place_after(&rows, rows_max).await?;
            rows.count = rows_max;
            rows.whole = next.is_none();
            rows.places.1 = next.unwrap_or((i64::MAX, i64::MAX));
            let chunk = next.map(|_| transaction.txid);
            match self.move_and_commit(head, &rows, Some(chunk)).await? {
                StepOutcome::Moved => {}
                other => return Ok(other),
            }
            if let (Some((_, id)), false) = (next, transaction.nested) {
                // Places are ids here: so none before it need be looked at again.
                rows.first_id = id;
            }
            match next {
                Some(place) => rows.places.0 = place,
                None => return Ok(StepOutcome::Moved),
            }
        }
    }

    /// The place of a transaction's row that comes so many rows after the first, if there is one.
    async fn place_after(
        &self,
        rows: &StagedRange,
        count: usize,
    ) -> Result<Option<StagedPosition>, StoreError> {
        let (statement, id) = rows.places.0;
        let offset = i64::try_from(count).unwrap_or(i64::MAX);
        let txid = rows.txids.first().copied().unwrap_or(0);
        let params: [Param<'_>; 6] =
            [&txid, &rows.first_id, &rows.last_id, &statement, &id, &offset];
        let found = query(self.leadership.client(), sql!("chunk_end"), &params).await;
        let place = |row: &Row| Ok((row.try_get(0)?, row.try_get(1)?));
        let first = |rows: Vec<Row>| rows.first().map(place).transpose();
        found.and_then(first).map_err(broken("find a chunk's end"))
    }

    /// The id of a transaction's row that comes so many rows after an id, if there is one.
    pub(super) async fn id_after(
        &self,
        transaction: &WaitingTransaction,
        first_id: i64,
        rows: usize,
    ) -> Result<Option<i64>, StoreError> {
        let offset = i64::try_from(rows).unwrap_or(i64::MAX);
        let params: [Param<'_>; 4] = [&transaction.txid, &first_id, &transaction.last_id, &offset];
        let found = query(self.leadership.client(), sql!("id_after"), &params).await;
        let first = |rows: Vec<Row>| rows.first().map(|row| row.try_get(0)).transpose();
        found.and_then(first).map_err(broken("find a chunk's end"))
    }

    /// In a transaction that was begun: writes, and commits.
    async fn move_and_commit(
        &self,
        head: Head,
        rows: &StagedRange,
        chunk: Option<Option<i64>>,
    ) -> Result<StepOutcome, StoreError> {
        let written = match self.write(head, rows).await? {
            Ok(written) => written,
            Err(rejected) => {
                self.roll_back().await?;
                self.set_aside(&rejected).await?;
                return Ok(StepOutcome::LookAgain);
            }
        };
        let client = self.leadership.client();
        if let Some(chunk) = chunk {
            let saved =
                execute(client, sql!("chunk_save"), &[&self.leadership.generation, &chunk]).await;
            saved.map_err(broken("note a chunk"))?;
        }
        commit(client, written.tip).await?;
        let link = &self.leadership.link;
        link.appended(written.tip, written.room);
        link.counters().appended(written.events);
        Ok(StepOutcome::Moved)
    }

    /// Writes rows into the log, in a transaction that holds the offset lock.
    pub(super) async fn write(
        &self,
        head: Head,
        rows: &StagedRange,
    ) -> Result<Result<UncommittedEvents, RejectedRows>, StoreError> {
        let client = self.leadership.client();
        let mut shift = OffsetShift::default();
        if rows.special {
            let staged = staged(client, rows).await.map_err(broken("read staged rows"))?;
            match self.write_staged(head, &staged).await? {
                Ok(by_streams) => shift = by_streams,
                Err(rejected) => return Ok(Err(rejected)),
            }
        }
        // As many positions as could be needed, so that nothing has to be counted twice.
        let most = head.tip.number() + rows.count as u64 + shift.most();
        let room = self.leadership.link.make_room(client, head.tip.next(), Position::new(most));
        let room = room.await?;
        let tip = head.tip.to_sql();
        let ((first_statement, first_id), (last_statement, last_id)) = rows.places;
        let params: [Param<'_>; 11] = [
            &rows.txids,
            &rows.first_id,
            &rows.last_id,
            &rows.whole,
            &tip,
            &shift.places,
            &shift.more,
            &first_statement,
            &first_id,
            &last_statement,
            &last_id,
        ];
        let moved = query_one(client, sql!("move"), &params).await;
        let moved = moved.map_err(broken("move staged rows into the log"))?;
        let taken = moved.try_get::<_, i64>(0).map_err(broken("move staged rows into the log"))?;
        let events = u64::try_from(taken + shift.total()).unwrap_or(0);
        let tip = Position::new(head.tip.number() + events);
        Ok(Ok(UncommittedEvents { tip, room, events }))
    }

    /// Writes the rows that concern streams. Returns by how much the others move.
    async fn write_staged(
        &self,
        head: Head,
        staged: &[(i64, StagedRow)],
    ) -> Result<Result<OffsetShift, RejectedRows>, StoreError> {
        let client = self.leadership.client();
        let rows: Vec<StagedRow> = staged.iter().map(|(_, row)| row.clone()).collect();
        let mut streams = StagedStreams::load(client, &rows, head.now_ms).await?;
        let (mut shift, mut rejected) = (OffsetShift::default(), RejectedRows::default());
        for (place, row) in staged {
            let after = head.tip.to_sql() + place - 1 + shift.total();
            match streams.decide(row, Position::from_sql(after)) {
                Ok(0) => rejected.needless.push(row.id),
                Ok(events) => shift.add(*place, events),
                Err(reason) => rejected.failed.push((row.id, reason)),
            }
        }
        if !rejected.failed.is_empty() || !rejected.needless.is_empty() {
            return Ok(Err(rejected));
        }
        let most = Position::from_sql(
            head.tip.to_sql() + staged.last().map_or(0, |(place, _)| *place) + shift.total(),
        );
        self.leadership.link.make_room(client, head.tip.next(), most).await?;
        streams.write(client).await?;
        Ok(Ok(shift))
    }
}

/// By how much later events move, because a row became more events than one.
#[derive(Debug, Default)]
struct OffsetShift {
    /// After which places…
    places: Vec<i64>,
    /// …by how much, altogether.
    more: Vec<i64>,
}

impl OffsetShift {
    fn add(&mut self, place: i64, events: u64) {
        let more = i64::try_from(events).unwrap_or(i64::MAX) - 1;
        if more > 0 {
            self.more.push(self.total() + more);
            self.places.push(place);
        }
    }

    fn total(&self) -> i64 {
        self.more.last().copied().unwrap_or(0)
    }

    fn most(&self) -> u64 {
        u64::try_from(self.total()).unwrap_or(0)
    }
}

/// Tells all nodes and commits, in one round trip.
async fn commit(client: &ClientWrapper, tip: Position) -> Result<(), StoreError> {
    let notify = client.prepare_cached(sql!("notify")).await.map_err(broken("commit"))?;
    let tip = tip.number().to_string();
    let params: [Param<'_>; 1] = [&tip];
    let told = client.execute(&notify, &params);
    let committed = client.batch_execute("COMMIT");
    let pipeline = try_join(
        told.map(|told| told.map(drop).map_err(|error| (false, error))).boxed(),
        committed.map(|committed| committed.map_err(|error| (true, error))).boxed(),
    );
    pipeline.await.map(drop).map_err(|(of_commit, error)| broken_commit(of_commit, &error))
}

/// The rows that concern streams, each with its place in the batch.
async fn staged(
    client: &ClientWrapper,
    rows: &StagedRange,
) -> Result<Vec<(i64, StagedRow)>, Error> {
    let ((first_statement, first_id), (last_statement, last_id)) = rows.places;
    let params: [Param<'_>; 8] = [
        &rows.txids,
        &rows.first_id,
        &rows.last_id,
        &rows.whole,
        &first_statement,
        &first_id,
        &last_statement,
        &last_id,
    ];
    let found = query(client, sql!("staged"), &params).await?;
    found.iter().map(staged_of_row).collect()
}

fn staged_of_row(row: &Row) -> Result<(i64, StagedRow), Error> {
    let (stream, control): (String, Option<&str>) = (row.try_get(4)?, row.try_get(5)?);
    let actor = Actor { host_id: row.try_get(8)?, user_id: row.try_get(9)?, ..Actor::default() };
    let staged = match control {
        Some("create") => Staged::Create { stream, actor },
        Some(_) => Staged::Delete { stream, actor },
        None => {
            let (code, id, action) = (row.try_get(11)?, row.try_get(12)?, row.try_get(13)?);
            let entity = staged_entity(code, id, action, actor.host_id.as_ref());
            let content_type = row.try_get::<_, Option<String>>(7)?.unwrap_or_default();
            let payload = row.try_get::<_, Option<&[u8]>>(6)?.unwrap_or(&[]);
            let payload = Bytes::copy_from_slice(payload);
            Staged::Document { stream, content_type, payload, actor, entity }
        }
    };
    let concerns_stream = StagedRow {
        id: row.try_get(1)?,
        txid: row.try_get(2)?,
        tx_last: row.try_get(3)?,
        staged,
        trace_context: row.try_get(10)?,
    };
    Ok((row.try_get(0)?, concerns_stream))
}
