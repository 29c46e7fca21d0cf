//! Appending what was read: events, position and all in one transaction.

use std::collections::HashMap;
use std::sync::Arc;

use deadpool_postgres::ClientWrapper;
use futures_util::future::try_join5;
use tokio_postgres::Row;
use tokio_postgres::types::PgLsn;

use tidewire_store_postgres::captured::{
    AfterPipeline, CaptureLink, OFFSET_LOCK, Params, Query, StagedRow, StagedStreams, broken,
    prepare, send,
};
use tidewire_store_postgres::wal::WatchedTable;

use super::columns::{ControlColumns, RowColumns, StagedRowColumns};
use super::database::WalPosition;
use crate::query::sql;
use tidewire_store::Actor;
use tidewire_store::Operation;
use tidewire_store::Position;
use tidewire_store::Staged;
use tidewire_store::StoreError;
use tidewire_store::{EntityChange, staged_entity};

/// One thing that was read, at its position in its transaction.
#[derive(Debug, Clone)]
pub struct Item {
    /// Its transaction.
    pub txid: i64,
    /// Whether it is the transaction's last.
    pub last: bool,
    /// When the transaction committed, in microseconds since 2000.
    pub committed_at: i64,
    /// What it is.
    pub what: Read,
}

/// What was read.
#[derive(Debug, Clone)]
pub enum Read {
    /// The change of a row.
    Row(RowItem),
    /// A staged row, by its id.
    Staged(i64),
    /// The end of a transaction, and nothing else.
    End,
    /// Something to tell those who follow a table, as JSON.
    Schema {
        /// Its stream.
        stream: String,
        /// What is told.
        document: String,
    },
}

/// The change of a row.
#[derive(Debug, Clone)]
pub struct RowItem {
    /// Its table.
    pub table: Arc<WatchedTable>,
    /// What was done.
    pub operation: Operation,
    /// The row before, as JSON.
    pub before: Option<String>,
    /// The row after, as JSON.
    pub after: Option<String>,
    /// Who did it, where no column of the row says so.
    pub actor: Actor,
}

/// Where the appended came to lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// It is in the log.
    Done {
        /// The log's highest position.
        tip: Position,
        /// How many events it was.
        events: u64,
    },
    /// Nothing was done: another node leads.
    NotLeader,
}

/// What is appended, by whom, and where reading goes on after it.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// The generation in which this node leads.
    pub generation: i64,
    /// The number of the position that is known to be the newest.
    pub position_id: i64,
    /// The position after it.
    pub next: WalPosition,
    /// Whether reading ends here, because another source takes over.
    pub finishes: bool,
    /// What was read.
    pub items: &'a [Item],
}

const OPERATION: &str = "append what was read of the write-ahead log";

/// Appends a batch, if this node leads and nobody else has appended since. The caller ends the
/// transaction if this fails.
pub async fn append(
    link: &CaptureLink,
    client: &ClientWrapper,
    batch: Batch<'_>,
) -> Result<Appended, StoreError> {
    let appended = commit(link, client, batch).await;
    if appended.is_err() {
        link.rolled_back();
        // If this fails the connection is broken, and the server ends the transaction.
        let _ = client.batch_execute("ROLLBACK").await;
    }
    appended
}

async fn commit(
    link: &CaptureLink,
    client: &ClientWrapper,
    batch: Batch<'_>,
) -> Result<Appended, StoreError> {
    let Some(begun) = begin(link, client, &batch).await? else {
        client.batch_execute("ROLLBACK").await.map_err(broken(OPERATION))?;
        return Ok(Appended::NotLeader);
    };
    let mut layout = Layout { at: begun.tip, ..Layout::default() };
    let rows: Vec<StagedRow> = begun.concerned();
    let mut streams = StagedStreams::load(client, &rows, begun.now_ms).await?;
    let rows: HashMap<i64, StagedRow> = rows.into_iter().map(|row| (row.id, row)).collect();
    for item in batch.items {
        layout.lay(item, &begun.staged, &rows, &mut streams);
    }
    let room = match layout.at > begun.tip {
        true => link.make_room(client, begun.tip.next(), layout.at).await?,
        false => 0,
    };
    streams.write(client).await?;
    let position_id = batch.position_id + 1;
    let (lsn, part) = (PgLsn::from(batch.next.lsn), batch.next.part);
    let (commit_lsn, changes) = (
        part.map(|(lsn, _)| PgLsn::from(lsn)),
        part.map_or(0, |(_, changes)| i64::try_from(changes).unwrap_or(i64::MAX)),
    );
    let (failed_ids, failures): (Vec<i64>, Vec<&str>) =
        layout.failed.iter().map(|(id, message)| (*id, message.as_str())).unzip();
    let tip = layout.at.number().to_string();
    let grown = layout.at > begun.tip;
    let queries: [Query<'_>; 8] = [
        (!layout.rows.is_empty(), sql!("wal_rows_insert"), &layout.rows.params()),
        (!layout.staged_rows.is_empty(), sql!("wal_staged_rows"), &layout.staged_rows.params()),
        (!layout.controls.is_empty(), sql!("wal_controls_insert"), &layout.controls.params()),
        (!layout.taken.is_empty(), sql!("wal_staged_remove"), &[&layout.taken]),
        (!failures.is_empty(), sql!("wal_staged_failed"), &[&failed_ids, &failures]),
        (true, sql!("wal_place_add"), &[&position_id, &lsn, &commit_lsn, &changes]),
        (batch.finishes, sql!("wal_finished"), &[]),
        (grown, sql!("notify"), &[&tip]),
    ];
    send(client, OPERATION, &queries, AfterPipeline::Commit).await?;
    link.appended(layout.at, room);
    let events = layout.at.number() - begun.tip.number();
    link.counters().appended(events);
    link.counters().failed(u64::try_from(failures.len()).unwrap_or(0), 0);
    Ok(Appended::Done { tip: layout.at, events })
}

/// What is known under the offset lock.
struct LockedLog {
    tip: Position,
    now_ms: i64,
    staged: HashMap<i64, StagedHere>,
}

/// A staged row as it is in the table.
struct StagedHere {
    stream: String,
    control: Option<String>,
    payload: Option<Vec<u8>>,
    content_type: Option<String>,
    actor: Actor,
    trace_context: Option<String>,
    entity: Option<EntityChange>,
    /// Whether it is the change of a row, which somebody has staged by SQL.
    is_row: bool,
}

/// Begins the transaction, takes the lock and looks; none if another node leads.
async fn begin(
    link: &CaptureLink,
    client: &ClientWrapper,
    batch: &Batch<'_>,
) -> Result<Option<LockedLog>, StoreError> {
    let ids: Vec<i64> = batch
        .items
        .iter()
        .filter_map(|item| match item.what {
            Read::Staged(id) => Some(id),
            _ => None,
        })
        .collect();
    let load = async {
        let head = link.head();
        let queries = [sql!("lock"), sql!("wal_hold"), &head, sql!("wal_staged")];
        let [lock, hold, head, staged] = prepare(client, queries).await?;
        let staged_rows = async {
            if ids.is_empty() { Ok(Vec::new()) } else { client.query(&staged, &[&ids]).await }
        };
        let generation: Params<'_> = &[&batch.generation];
        let (_, _, held, at, staged) = try_join5(
            client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED"),
            client.execute(&lock, &[&OFFSET_LOCK]),
            client.query(&hold, generation),
            client.query_one(&head, &[]),
            staged_rows,
        )
        .await?;
        if held.is_empty() {
            return Ok(None);
        }
        let staged = staged.iter().map(staged_of_row).collect::<Result<_, _>>()?;
        let tip = Position::from_sql(at.try_get(0)?);
        Ok(Some((at.try_get(1)?, tip, staged, at)))
    };
    let seen = link.seen();
    let Some((now_ms, tip, staged, at)) = load.await.map_err(broken(OPERATION))? else {
        return Ok(None);
    };
    link.check(&at, 2, seen)?;
    Ok(Some(LockedLog { tip, now_ms, staged }))
}

fn staged_of_row(row: &Row) -> Result<(i64, StagedHere), tokio_postgres::Error> {
    let actor = Actor { host_id: row.try_get(5)?, user_id: row.try_get(6)?, ..Actor::default() };
    let (code, id, action) = (row.try_get(8)?, row.try_get(9)?, row.try_get(10)?);
    let staged = StagedHere {
        entity: staged_entity(code, id, action, actor.host_id.as_ref()),
        stream: row.try_get(1)?,
        control: row.try_get(2)?,
        payload: row.try_get(3)?,
        content_type: row.try_get(4)?,
        actor,
        trace_context: row.try_get(7)?,
        is_row: row.try_get(11)?,
    };
    Ok((row.try_get(0)?, staged))
}

impl LockedLog {
    /// The staged rows that concern streams, in no order.
    fn concerned(&self) -> Vec<StagedRow> {
        let of = |(id, here): (&i64, &StagedHere)| {
            if here.is_row {
                return None;
            }
            let (stream, actor) = (here.stream.clone(), here.actor.clone());
            let staged = match here.control.as_deref() {
                Some("create") => Staged::Create { stream, actor },
                Some("delete") => Staged::Delete { stream, actor },
                Some(_) => return None,
                None => Staged::Document {
                    stream,
                    actor,
                    content_type: here.content_type.clone().unwrap_or_default(),
                    payload: here.payload.clone().unwrap_or_default().into(),
                    entity: here.entity.clone(),
                },
            };
            let trace_context = here.trace_context.clone();
            Some(StagedRow { id: *id, txid: 0, tx_last: false, staged, trace_context })
        };
        self.staged.iter().filter_map(of).collect()
    }
}

/// What goes where.
#[derive(Default)]
struct Layout<'a> {
    /// The last position that was given.
    at: Position,
    rows: RowColumns<'a>,
    staged_rows: StagedRowColumns,
    controls: ControlColumns,
    /// Staged rows that became events, or had nothing to become.
    taken: Vec<i64>,
    /// Those that could not, and why.
    failed: Vec<(i64, String)>,
}

impl<'a> Layout<'a> {
    fn lay(
        &mut self,
        item: &'a Item,
        staged: &HashMap<i64, StagedHere>,
        rows: &HashMap<i64, StagedRow>,
        streams: &mut StagedStreams,
    ) {
        let before = self.at;
        match &item.what {
            Read::Row(row) => {
                self.at = self.at.next();
                self.rows.push(self.at, item, row);
            }
            Read::End => {}
            Read::Schema { stream, document } => {
                self.at = self.at.next();
                let document = Some(document.clone().into_bytes());
                self.controls.push(self.at, item, stream.clone(), "schema", document);
            }
            Read::Staged(id) => match (staged.get(id), rows.get(id)) {
                // It concerns a stream.
                (Some(_), Some(row)) => {
                    let row = StagedRow { txid: item.txid, tx_last: item.last, ..row.clone() };
                    match streams.decide(&row, self.at) {
                        Ok(events) => {
                            self.at = Position::new(self.at.number() + events);
                            self.taken.push(*id);
                        }
                        Err(message) => self.failed.push((*id, message)),
                    }
                }
                (Some(here), None) if here.is_row => {
                    self.at = self.at.next();
                    self.staged_rows.push(self.at, item, *id);
                }
                (Some(here), None) => {
                    self.at = self.at.next();
                    let control = here.control.as_deref().unwrap_or("mark");
                    let (stream, payload) = (here.stream.clone(), here.payload.clone());
                    self.controls.push(self.at, item, stream, control, payload);
                    self.taken.push(*id);
                }
                // Somebody removed it.
                (None, _) => {}
            },
        }
        // A transaction's end is told by an event, whatever became of its last change.
        if self.at == before && item.last {
            self.at = self.at.next();
            self.controls.push(self.at, item, String::new(), "mark", None);
        }
    }
}
