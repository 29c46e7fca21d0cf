//! The loop: takes what the slot sends, appends it, and tells the server that it need not keep it.
//!
//! What must hold: a transaction is appended only once it is visible to everyone, events and the position
//! they were read at commit together, and the slot is confirmed after that. So whatever fails, reading
//! starts again at the position, and nothing is lost or there twice.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tidewire_store::StoreError;
use tidewire_store_postgres::wal::{self, WatchedTable};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::append::{self, Appended, Batch, Item};
use super::assemble::{Actor, Assembler, Change, Piece};
use super::database;
use super::kind::Kind;
use super::pgoutput::{Cell, Column, Message, Relation};
use super::slot_watch::{SlotVerdict, SlotWatch};
use super::stream::{Arrival, Stream, StreamError};
use super::table::{Role, Table};
use super::translate;
use crate::group_commit;
use crate::leader::{End, Leadership};
use crate::options::CaptureOptions;
use crate::sequencer;

/// How often the slot is looked at, and the session of the elected shows a sign of life.
const TICK: Duration = Duration::from_secs(1);

/// How long to wait before looking again whether a transaction is visible: from the first to the last.
const VISIBLE_POLL: Duration = Duration::from_micros(500);
const VISIBLE_POLL_MAX: Duration = Duration::from_millis(50);

/// How long to wait at a time for transactions that are to share a commit.
const NAP: Duration = Duration::from_millis(2);

/// How often it is noted what is in the log for sure.
const SETTLE_TICKS: u32 = 5;

/// Why reading came to its end.
#[derive(Debug)]
pub(crate) enum Ended {
    /// As the leader's loop understands it.
    Well(End),
    /// The slot is of no use any more, because of this.
    SlotLost(String),
}

/// Why reading failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Stream(#[from] StreamError),
}

/// Whether to go on.
enum Flow {
    On,
    End(Ended),
}

/// What the reader's loop owns.
pub(crate) struct Reader<'a> {
    leadership: &'a Leadership,
    options: &'a CaptureOptions,
    slot: String,
    stream: Stream,
    assembler: Assembler,
    /// The newest position's number.
    position_id: i64,
    tables: HashMap<u32, (Relation, Arc<Table>)>,
    watches: HashMap<u32, Arc<WatchedTable>>,
    /// The transaction being received says that another source takes over after it.
    switches: bool,
    slot_watch: SlotWatch,
    ticks: u32,
    /// When the next commit may begin.
    rest_until: Instant,
    /// A snapshot, and the position by which everything it sees is in the log.
    settling: Option<(String, u64)>,
    stop: CancellationToken,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(
        leadership: &'a Leadership,
        options: &'a CaptureOptions,
        slot: String,
        stream: Stream,
        (position_id, position): (i64, database::WalPosition),
    ) -> Reader<'a> {
        Reader {
            leadership,
            options,
            slot,
            stream,
            assembler: Assembler::new(position),
            position_id,
            tables: HashMap::new(),
            watches: HashMap::new(),
            switches: false,
            slot_watch: SlotWatch::default(),
            ticks: 0,
            rest_until: Instant::now(),
            settling: None,
            stop: CancellationToken::new(),
        }
    }

    /// Reads until something ends it. Told to stop, it finishes the commit in hand.
    pub(crate) async fn run(&mut self, stop: &CancellationToken) -> Result<Ended, ReadError> {
        self.stop = stop.clone();
        self.leadership
            .client()
            .batch_execute(database::SETTINGS)
            .await
            .map_err(tidewire_store_postgres::captured::broken("set up the session that leads"))?;
        self.load_watches().await?;
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let flow = tokio::select! {
                biased;
                () = stop.cancelled() => Flow::End(Ended::Well(End::Stopped)),
                _ = tick.tick() => self.tick().await?,
                arrival = self.stream.next() => self.take(arrival?).await?,
            };
            if let Flow::End(ended) = flow {
                return Ok(ended);
            }
        }
    }

    /// Takes what arrived, what has arrived meanwhile, and appends.
    async fn take(&mut self, first: Arrival) -> Result<Flow, ReadError> {
        let mut next: Option<Result<Arrival, StreamError>> = Some(Ok(first));
        loop {
            while let Some(arrival) = next.take() {
                let arrival = match arrival {
                    Ok(arrival) => arrival,
                    // What came before it counts.
                    Err(error) => {
                        self.append(false).await?;
                        return Err(error.into());
                    }
                };
                if let Flow::End(ended) = self.handle(arrival).await? {
                    return Ok(Flow::End(ended));
                }
                if !self.is_full() {
                    next = self.stream.ready();
                }
            }
            if !self.nap().await {
                break;
            }
            next = self.stream.ready();
        }
        if self.is_full() || self.assembler.has_whole() {
            return self.append(false).await;
        }
        if self.assembler.is_empty() {
            self.stream.confirm(self.assembler.lsn());
        }
        Ok(Flow::On)
    }

    /// Waits for more to share the next commit, where it is too early for that after a crowd. Short, because
    /// only so many messages wait outside of what is assembled here.
    async fn nap(&self) -> bool {
        let left = self.rest_until.saturating_duration_since(Instant::now());
        if left.is_zero() || self.is_full() {
            return false;
        }
        let nap = tokio::time::sleep(left.min(NAP));
        self.stop.run_until_cancelled(nap).await.is_some()
    }

    fn is_full(&self) -> bool {
        let (entries, bytes) = self.assembler.waiting();
        entries >= self.options.batch_rows_max.max(2) || bytes >= self.options.batch_bytes_max
    }

    async fn handle(&mut self, arrival: Arrival) -> Result<Flow, ReadError> {
        let message = match arrival {
            Arrival::Message(message) => message,
            Arrival::Alive(lsn) => {
                if self.assembler.is_empty() && !self.assembler.is_open() {
                    self.assembler.nothing_before(lsn);
                    self.stream.confirm(lsn);
                }
                return Ok(Flow::On);
            }
        };
        match message {
            Message::Begin { commit_lsn, committed_at, xid } => {
                self.switches = false;
                self.assembler.begin(commit_lsn, committed_at, xid);
            }
            Message::Commit { end_lsn, .. } => {
                self.assembler.commit(end_lsn);
                if self.switches {
                    return self.append(true).await;
                }
            }
            Message::Relation(relation) => self.learn(relation).await?,
            Message::Type | Message::Origin => {}
            Message::Insert { relation, new } => {
                if let Some(table) = self.table(relation) {
                    self.assembler.change(inserted(table, new));
                }
            }
            Message::Update { relation, old, new } => {
                if let Some(table) = self.table(relation) {
                    self.assembler.change(Change::Update { table, old, new });
                }
            }
            Message::Delete { relation, old } => {
                if let Some(table) = self.table(relation) {
                    self.assembler.change(Change::Delete { table, old });
                }
            }
            Message::Truncate { relations } => {
                let tables = relations.into_iter().filter_map(|id| self.table(id)).collect();
                self.assembler.change(Change::Truncate { tables });
            }
            Message::Logical { transactional: true, prefix, content } => {
                self.listen(&prefix, &content).await?;
            }
            Message::Logical { .. } => {}
        }
        Ok(Flow::On)
    }

    /// What a session of ours wrote into the write-ahead log for us.
    async fn listen(&mut self, prefix: &str, content: &[u8]) -> Result<(), ReadError> {
        if self.assembler.is_passed() {
            return Ok(());
        }
        match prefix {
            "tidewire.actor" => {
                let said: SaidActor = serde_json::from_slice(content).unwrap_or_default();
                self.assembler.actor(Actor { user_id: said.user_id, host_id: said.host_id });
            }
            "tidewire.watch" => {
                self.wait_for_open().await?;
                self.load_watches().await?;
            }
            "tidewire.capture" => self.switches = true,
            _ => {}
        }
        Ok(())
    }

    fn table(&self, relation: u32) -> Option<Arc<Table>> {
        self.tables.get(&relation).map(|(_, table)| Arc::clone(table))
    }

    /// What a table looks like. Its types, and the watch, are there to be looked up once the
    /// transaction that made them is visible.
    async fn learn(&mut self, relation: Relation) -> Result<(), ReadError> {
        let table = match Table::staging(&relation) {
            Some(staging) => staging,
            None => {
                self.wait_for_open().await?;
                if !self.watches.contains_key(&relation.id) {
                    self.load_watches().await?;
                }
                let ids: Vec<u32> = relation.columns.iter().map(|column| column.type_id).collect();
                let types = database::types(self.leadership.client(), &ids).await?;
                let kinds: HashMap<u32, Kind> =
                    types.iter().map(|row| (row.id, Kind::of(row))).collect();
                let kind = |id: u32| kinds.get(&id).cloned().unwrap_or(Kind::Text);
                let client = self.leadership.client();
                let generated = database::generated_columns(client, relation.id).await?;
                let column = |column: &Column| {
                    let kind = match generated.contains(&column.name) {
                        true => Kind::LeftOut,
                        false => kind(column.type_id),
                    };
                    (column.name.clone(), kind)
                };
                Table {
                    columns: relation.columns.iter().map(column).collect(),
                    role: self.role(relation.id),
                }
            }
        };
        self.tables.insert(relation.id, (relation, Arc::new(table)));
        Ok(())
    }

    fn role(&self, id: u32) -> Role {
        self.watches.get(&id).map_or(Role::Forgotten, |watch| Role::Watched(Arc::clone(watch)))
    }

    async fn load_watches(&mut self) -> Result<(), ReadError> {
        let watched = wal::watched(self.leadership.client()).await?;
        self.watches = watched.into_iter().map(|watch| (watch.table_id, Arc::new(watch))).collect();
        let ids: Vec<u32> = self.tables.keys().copied().collect();
        for id in ids {
            let role = self.role(id);
            if let Some((_, table)) = self.tables.get_mut(&id)
                && !matches!(table.role, Role::Staging { .. })
            {
                *table = Arc::new(Table { columns: table.columns.clone(), role });
            }
        }
        Ok(())
    }

    /// Waits until the transaction being received is visible.
    async fn wait_for_open(&mut self) -> Result<(), ReadError> {
        match self.assembler.open_xid() {
            Some(xid) => self.wait_until_visible(&[xid]).await.map(drop),
            None => Ok(()),
        }
    }

    /// Waits until transactions are visible, and returns their whole numbers. With a synchronous
    /// standby a commit is sent before it is; that can take as long as the standby does.
    async fn wait_until_visible(&mut self, xids: &[u32]) -> Result<HashMap<u32, i64>, ReadError> {
        let (mut pause, mut looked) = (VISIBLE_POLL, Instant::now());
        loop {
            let seen = database::seen(self.leadership.client(), xids).await?;
            if seen.iter().all(|seen| seen.visible) {
                return Ok(xids.iter().copied().zip(seen.iter().map(|seen| seen.txid)).collect());
            }
            if self.stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                return Err(StreamError::Stopped.into());
            }
            pause = (pause * 2).min(VISIBLE_POLL_MAX);
            if looked.elapsed() >= TICK {
                looked = Instant::now();
                if let Flow::End(Ended::SlotLost(why)) = self.look_at_slot().await? {
                    return Err(StreamError::GivenUp(why).into());
                }
            }
        }
    }

    /// Appends what waits. `finishes` says that reading ends with it.
    async fn append(&mut self, finishes: bool) -> Result<Flow, ReadError> {
        let piece = self.assembler.take();
        if piece.entries.is_empty() && !finishes {
            return Ok(Flow::On);
        }
        let began = Instant::now();
        let xids: BTreeSet<u32> = piece.entries.iter().map(|entry| entry.xid).collect();
        let xids: Vec<u32> = xids.into_iter().collect();
        let txids = self.wait_until_visible(&xids).await?;
        let session = &self.leadership.session;
        let items = translate::items(session, &piece.entries, &txids, false).await?;
        let appended = match self.try_append(&piece, &items, finishes).await {
            // The database rejects something in it.
            Err(error @ StoreError::Broken { .. }) => {
                tracing::warn!(%error, "a batch of changes failed; checking it row by row");
                let items = translate::items(session, &piece.entries, &txids, true).await?;
                self.try_append(&piece, &items, finishes).await?
            }
            other => other?,
        };
        match appended {
            Appended::NotLeader => Ok(Flow::End(Ended::Well(End::Deposed))),
            Appended::Done { .. } => {
                self.position_id += 1;
                self.stream.confirm(piece.next.lsn);
                self.rest_until = Instant::now() + group_commit::pause(xids.len(), began.elapsed());
                Ok(if finishes { Flow::End(Ended::Well(End::Switched)) } else { Flow::On })
            }
        }
    }

    async fn try_append(
        &self,
        piece: &Piece,
        items: &[Item],
        finishes: bool,
    ) -> Result<Appended, StoreError> {
        let batch = Batch {
            generation: self.leadership.generation,
            position_id: self.position_id,
            next: piece.next,
            finishes,
            items,
        };
        let appended =
            append::append(&self.leadership.link, self.leadership.client(), batch).await?;
        Ok(appended)
    }

    /// Looks at the slot, notes what is in the log for sure, and forgets old positions.
    async fn tick(&mut self) -> Result<Flow, ReadError> {
        self.ticks = self.ticks.wrapping_add(1);
        let client = self.leadership.client();
        database::forget_positions(client, self.position_id).await?;
        if let Some((snapshot, lsn)) = self.settling.take() {
            if self.assembler.lsn() >= lsn {
                database::settle(client, &snapshot).await?;
            } else {
                self.settling = Some((snapshot, lsn));
            }
        }
        if let Some(end) = sequencer::retry(self.leadership, self.options).await? {
            return Ok(Flow::End(Ended::Well(end)));
        }
        if self.settling.is_none() && self.ticks.is_multiple_of(SETTLE_TICKS) {
            self.settling = Some(database::now(client).await?);
        }
        self.look_at_slot().await
    }

    async fn look_at_slot(&mut self) -> Result<Flow, ReadError> {
        let client = self.leadership.client();
        let Some(slot) = wal::slot(client, &self.slot).await? else {
            return Ok(Flow::End(Ended::SlotLost("somebody dropped the slot".to_owned())));
        };
        self.leadership.link.counters().wal(slot.retained_bytes, slot.behind_bytes);
        match self.slot_watch.check(&slot, &self.options.wal) {
            SlotVerdict::Fine => Ok(Flow::On),
            SlotVerdict::Warn(text) => {
                tracing::warn!("{text}");
                Ok(Flow::On)
            }
            SlotVerdict::GiveUp(why) => Ok(Flow::End(Ended::SlotLost(why))),
        }
    }
}

/// An actor as `tidewire.set_actor` says it.
#[derive(Debug, Default, Deserialize)]
struct SaidActor {
    user_id: Option<String>,
    host_id: Option<String>,
}

/// A new row; one of the staging table stands for what was staged.
fn inserted(table: Arc<Table>, new: Vec<Cell>) -> Change {
    if let Role::Staging { id_at } = table.role {
        let id = match new.get(id_at) {
            Some(Cell::Text(text)) => std::str::from_utf8(text).ok(),
            _ => None,
        };
        return Change::Staged(id.and_then(|id| id.parse().ok()).unwrap_or(0));
    }
    Change::Insert { table, new }
}
