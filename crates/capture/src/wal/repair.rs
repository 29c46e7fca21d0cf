//! What to do when the slot is lost: make another, and find what happened in between by comparing the
//! tables with the log.
//!
//! The new slot sends what commits after it was made, and exports a snapshot that sees what committed
//! before. In that snapshot the rows that the log knows are compared with the rows that are there; only
//! differences become events. What cannot be known is said: in how many steps a row came to be what it
//! is, by whom, and in which order.
//!
//! If a repair is interrupted it is done again, with whatever it had appended counted as known.

use std::sync::Arc;
use std::time::Duration;

use tidewire_store::{Actor, Operation, StoreError};
use tidewire_store_postgres::captured::broken;
use tidewire_store_postgres::wal::{self, WalState, WatchedTable};

use super::append::{self, Appended, Batch, Item, Read, RowItem};
use super::database::{self, WalPosition};
use super::differences::{self, Difference, Gap};
use super::stream::{Stream, StreamError};
use super::target;
use crate::leader::Leadership;
use crate::options::CaptureOptions;

/// The settings of the session that compares.
const SETTINGS: &str = database::SETTINGS;

/// How often the session of the elected shows a sign of life while the tables are compared.
const ALIVE: Duration = Duration::from_secs(1);

/// Notes that the slot is lost, and why: the repair comes next, whoever leads by then.
pub(crate) async fn announce(
    leadership: &Leadership,
    state: &WalState,
    why: &str,
) -> Result<(), StoreError> {
    tracing::error!(slot = state.slot, why, "the replication slot is lost");
    differences::begin_repair(leadership.client(), why).await
}

/// Makes a slot and appends what happened since the log was last appended to.
pub(crate) async fn repair(
    leadership: &Leadership,
    options: &CaptureOptions,
    state: &WalState,
    why: &str,
) -> Result<(), StoreError> {
    tokio::select! {
        repaired = work(leadership, options, state, why) => repaired,
        error = stay_alive(leadership) => Err(error),
    }
}

/// Ends when the session does.
async fn stay_alive(leadership: &Leadership) -> StoreError {
    loop {
        tokio::time::sleep(ALIVE).await;
        if let Err(error) = leadership.client().simple_query("").await {
            return broken("repair")(error);
        }
    }
}

async fn work(
    leadership: &Leadership,
    options: &CaptureOptions,
    state: &WalState,
    why: &str,
) -> Result<(), StoreError> {
    tracing::warn!(slot = state.slot, why, "comparing the watched tables with the log");
    let client = leadership.client();
    let position_id = database::position(client).await?.map_or(0, |(id, _)| id);
    let (txid, committed_at) = differences::repair_number(client).await?;
    let mut repair = Repair {
        leadership,
        options,
        position_id,
        txid,
        committed_at,
        items: Vec::new(),
        found: 0,
    };
    wal::drop_slot(client, &state.slot).await?;
    if state.finishing {
        return repair.give_up(why).await;
    }
    let (_exporter, lsn, snapshot) = create(leadership, &state.slot).await?;
    let session = leadership.link.session(SETTINGS).await?;
    let gap = Gap::open(session.client(), &snapshot).await?;
    gap.wait_until_visible(client).await?;
    let watched = wal::watched(client).await?;
    for table in watched {
        repair.compare(&gap, Arc::new(table), why).await?;
    }
    for (id, txid, last) in gap.staged().await? {
        repair.items.push(Item { txid, last, committed_at, what: Read::Staged(id) });
    }
    repair.append(WalPosition { lsn, part: None }, true).await?;
    tracing::warn!(slot = state.slot, differences = repair.found, "the log has caught up");
    Ok(())
}

/// Makes the slot on the server that takes writes, and keeps its snapshot while the stream lives.
async fn create(leadership: &Leadership, slot: &str) -> Result<(Stream, u64, String), StoreError> {
    let mut last = StreamError::Ended;
    for target in target::targets(&leadership.link) {
        match Stream::create(&target, slot).await {
            Ok(created) => return Ok(created),
            Err(error) => last = error,
        }
    }
    Err(StoreError::Unavailable(format!("cannot make the replication slot {slot}: {last}")))
}

struct Repair<'a> {
    leadership: &'a Leadership,
    options: &'a CaptureOptions,
    position_id: i64,
    /// Under this number are the events that a repair finds: which transactions they were is not
    /// known.
    txid: i64,
    committed_at: i64,
    items: Vec<Item>,
    found: u64,
}

impl Repair<'_> {
    /// Appends how a table differs from the log, after telling its subscribers that it may.
    async fn compare(
        &mut self,
        gap: &Gap<'_>,
        table: Arc<WatchedTable>,
        why: &str,
    ) -> Result<(), StoreError> {
        self.tell(&table, &format!(
            "capture was interrupted: {why}. What is different now follows, but not in how many \
             steps it came about, in which order or by whom; rows that came and went in between are \
             not known"
        ));
        let mut differences = Vec::new();
        let (sender, mut receiver) = tokio::sync::mpsc::channel(self.options.batch_rows_max.max(1));
        let read = async {
            let read = gap.differences(table.table_id, |difference| async {
                // Whoever receives is the other half of this.
                let _ = sender.send(difference).await;
                Ok::<(), StoreError>(())
            });
            let read = read.await;
            drop(sender);
            read
        };
        let write = async {
            while receiver.recv_many(&mut differences, self.options.batch_rows_max.max(1)).await > 0
            {
                let position = self.position_now().await?;
                for difference in differences.drain(..) {
                    self.items.push(self.item(&table, difference));
                    self.found += 1;
                }
                if self.items.len() >= self.options.batch_rows_max {
                    self.append(position, false).await?;
                }
            }
            Ok(())
        };
        let (read, written) = tokio::join!(read, write);
        read.and(written)
    }

    fn item(&self, table: &Arc<WatchedTable>, difference: Difference) -> Item {
        let row = RowItem {
            table: Arc::clone(table),
            operation: difference.operation,
            before: difference.before.filter(|_| difference.operation != Operation::Insert),
            after: difference.after,
            actor: Actor::default(),
        };
        // Each stands for itself: they have no transaction in common.
        Item { txid: self.txid, last: true, committed_at: self.committed_at, what: Read::Row(row) }
    }

    fn tell(&mut self, table: &WatchedTable, what: &str) {
        let document = serde_json::json!({ "what": what }).to_string();
        let what = Read::Schema { stream: table.stream_id.clone(), document };
        let (txid, committed_at) = (self.txid, self.committed_at);
        self.items.push(Item { txid, last: true, committed_at, what });
    }

    /// Where reading stands: it does not move before the repair is done.
    async fn position_now(&self) -> Result<WalPosition, StoreError> {
        Ok(database::position(self.leadership.client())
            .await?
            .map(|(_, position)| position)
            .unwrap_or_default())
    }

    async fn append(&mut self, next: WalPosition, finishes: bool) -> Result<(), StoreError> {
        let batch = Batch {
            generation: self.leadership.generation,
            position_id: self.position_id,
            next,
            finishes,
            items: &self.items,
        };
        let appended =
            append::append(&self.leadership.link, self.leadership.client(), batch).await?;
        self.items.clear();
        match appended {
            Appended::Done { .. } => {
                self.position_id += 1;
                Ok(())
            }
            Appended::NotLeader => {
                Err(StoreError::Unavailable("another node leads, and repairs".to_owned()))
            }
        }
    }

    /// The outbox is the source by now, and what it has staged is not in the log yet: comparing would
    /// find the same changes again. So those who follow are told to look themselves.
    async fn give_up(&mut self, why: &str) -> Result<(), StoreError> {
        for table in wal::watched(self.leadership.client()).await? {
            self.tell(&table, &format!(
                "capture was interrupted: {why}. Changes just before the switch to the outbox may be \
                 missing: read the table again"
            ));
        }
        let position = self.position_now().await?;
        self.append(position, true).await
    }
}
