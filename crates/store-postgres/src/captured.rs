//! What `tidewire-capture` needs of this store: sessions of its own, the rules by which staged rows
//! become events of streams, and a way to tell the node that the log has grown.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use deadpool_postgres::ClientWrapper;
use futures_util::StreamExt;
use futures_util::stream::poll_fn;
use tokio::sync::Notify;
use tokio_postgres::{AsyncMessage, Config, Row};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::columns::{Captured, Origin, Producers, Purges, Streams};
use super::connect::{Connector, RawConnection, SETTINGS};
use super::load;
use super::pipeline;
use super::query::sql;
use super::writer::CommitEffects;
use tidewire_store::decide::{LoadedState, Staged, decide_staged, plan_of_staged};
use tidewire_store::error::StoreError;
use tidewire_store::log::PURGE_DELAY_MS;
use tidewire_store::offset::Position;
use tidewire_store::stats::CaptureCounters;

pub use super::error::{broken, broken_commit, text};
pub use super::pipeline::{AfterPipeline, Query, send};
pub use super::query::{Param, Params, execute, prepare, query, query_one, texts, unsigned};
pub use super::tls::TlsCheck;
pub use super::url::Protection;
pub use load::OFFSET_LOCK;

/// The store as capture sees it. Cheap to share.
#[derive(Debug, Clone)]
pub struct CaptureLink {
    pub(super) connector: Arc<Connector>,
    pub(super) effects: Arc<CommitEffects>,
    pub(super) counters: Arc<CaptureCounters>,
    pub(super) closing: CancellationToken,
}

/// A session that belongs to capture alone.
#[derive(Debug)]
pub struct CaptureSession {
    client: ClientWrapper,
    ended: CancellationToken,
    notified: Arc<Notify>,
}

impl CaptureSession {
    /// The connection.
    pub fn client(&self) -> &ClientWrapper {
        &self.client
    }

    /// Returns when the connection has ended, for whatever reason.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Returns when a notification has come since this was last asked.
    pub async fn notified(&self) {
        self.notified.notified().await;
    }
}

impl CaptureLink {
    /// One attempt to open a session with every session's settings, and `settings` besides.
    pub async fn session(&self, settings: &str) -> Result<CaptureSession, StoreError> {
        let open = async {
            let failed = broken("connect to PostgreSQL");
            let (client, connection) = self.connector.raw().await.map_err(&failed)?;
            let (ended, notified) = (CancellationToken::new(), Arc::new(Notify::new()));
            let drive = drive(connection, Arc::clone(&notified), ended.clone());
            let client = ClientWrapper::new(client, self.connector.tasks().spawn(drive));
            client.batch_execute(SETTINGS).await.map_err(&failed)?;
            client.batch_execute(settings).await.map_err(&failed)?;
            self.connector.fence.admit(&client).await?;
            Ok(CaptureSession { client, ended, notified })
        };
        let timeout = self.connector.timeout;
        match tokio::time::timeout(timeout, open).await {
            Ok(opened) => opened,
            Err(_) => Err(StoreError::Unavailable(format!("no answer in {timeout:?}"))),
        }
    }

    /// How to reach the database.
    pub fn config(&self) -> &Config {
        self.connector.config()
    }

    /// How connections to it are protected.
    pub fn protection(&self) -> &Protection {
        &self.connector.protection
    }

    /// Tasks that must end before the store is closed.
    pub fn tasks(&self) -> &TaskTracker {
        self.connector.tasks()
    }

    /// Cancelled when the store is about to be closed, which waits for those tasks.
    pub fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// What capture counts.
    pub fn counters(&self) -> &CaptureCounters {
        &self.counters
    }

    /// Makes the log's partitions for `first..=last`, in the transaction of `client`. What it returns
    /// is for [`CaptureLink::appended`].
    pub async fn make_room(
        &self,
        client: &ClientWrapper,
        first: Position,
        last: Position,
    ) -> Result<i64, StoreError> {
        let made = self.effects.partitions.ensure(client, first, last).await;
        made.map_err(broken("make a partition of the log"))
    }

    /// What whoever gives offsets looks at, under the offset lock: the log's end, the clock, and from the third
    /// column on which database this is, for [`CaptureLink::check`].
    pub fn head(&self) -> Cow<'static, str> {
        self.fitted(sql!("head"))
    }

    /// A query that asks which database this is, without what the role may not ask.
    pub fn fitted(&self, sql: &'static str) -> Cow<'static, str> {
        self.connector.fence.fitted(sql)
    }

    /// The highest position that was seen, to be asked before a tip is read.
    pub fn seen(&self) -> Position {
        self.connector.fence.seen()
    }

    /// Checks, under the offset lock, that this is the database that was opened. The row has the tip
    /// first, and from a column on what `head.sql` has from `epoch` on.
    pub fn check(&self, row: &Row, first: usize, seen: Position) -> Result<(), StoreError> {
        self.connector.fence.check(row, first, seen)
    }

    /// Says that events up to `tip` are committed.
    pub fn appended(&self, tip: Position, room: i64) {
        self.connector.fence.saw(tip);
        self.effects.partitions.known(room);
        self.effects.announce(tip.number());
    }

    /// Says that a transaction was not committed, and what it made is not there.
    pub fn rolled_back(&self) {
        self.effects.partitions.forget();
    }
}

async fn drive(mut connection: RawConnection, notified: Arc<Notify>, ended: CancellationToken) {
    // A guard, because the task is aborted when its client is dropped.
    let _ended = ended.drop_guard();
    let mut messages = poll_fn(move |context| connection.poll_message(context));
    while let Some(message) = messages.next().await {
        match message {
            Ok(AsyncMessage::Notification(_)) => notified.notify_one(),
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(error = text(&error), "a connection of capture broke");
                return;
            }
        }
    }
}

/// A staged row that is more than a row's change: it concerns a stream.
#[derive(Debug, Clone)]
pub struct StagedRow {
    /// Its number in the staging table.
    pub id: i64,
    /// The transaction it was staged in.
    pub txid: i64,
    /// Whether it is the last event of that transaction.
    pub tx_last: bool,
    /// What it asks for.
    pub staged: Staged,
    /// W3C trace context, kept with the event.
    pub trace_context: Option<String>,
}

/// The streams that staged rows concern, under the offset lock.
#[derive(Debug)]
pub struct StagedStreams {
    loaded: LoadedState,
    /// Where each event comes from that was decided.
    origins: Vec<Origin>,
    now_ms: i64,
}

impl StagedStreams {
    /// Loads what deciding the rows takes, in the transaction that holds the offset lock.
    pub async fn load(
        client: &ClientWrapper,
        rows: &[StagedRow],
        now_ms: i64,
    ) -> Result<StagedStreams, StoreError> {
        let commands: Vec<_> = rows.iter().map(|row| row.staged.wants()).collect();
        let mut loaded = LoadedState::new(now_ms, Position::START);
        load::complete(client, &mut loaded, &commands).await?;
        Ok(StagedStreams { loaded, origins: Vec::new(), now_ms })
    }

    /// Decides a row whose events come right after a position, and returns how many they are: none if
    /// it asks for what is so already. An error is for people, and means that it cannot be an event.
    pub fn decide(&mut self, row: &StagedRow, after: Position) -> Result<u64, String> {
        self.loaded.tip = after;
        decide_staged(&mut self.loaded, &row.staged, row.trace_context.as_ref())?;
        let events = self.loaded.tip.number() - after.number();
        for event in 1..=events {
            let tx_last = row.tx_last && event == events;
            self.origins.push(Origin { txid: row.txid, tx_last, staged_id: row.id });
        }
        Ok(events)
    }

    /// Writes what was decided, in the same transaction.
    pub async fn write(self, client: &ClientWrapper) -> Result<(), StoreError> {
        let plan = plan_of_staged(self.loaded);
        let events = Captured::of(&plan, &self.origins);
        let (streams, producers) = (Streams::of(&plan)?, Producers::of(&plan)?);
        let (purges, due_at_ms) = (Purges::of(&plan), self.now_ms + PURGE_DELAY_MS);
        let cleared = &plan.producers_cleared;
        let queries: [Query<'_>; 6] = [
            (!plan.events.is_empty(), sql!("captured_insert"), &events.params(&self.now_ms)),
            (!plan.removed.is_empty(), sql!("streams_remove"), &[&plan.removed]),
            (!cleared.is_empty(), sql!("producers_clear"), &[cleared]),
            (!plan.streams.is_empty(), sql!("streams_save"), &streams.params()),
            (!plan.producers.is_empty(), sql!("producers_save"), &producers.params()),
            (!plan.purges.is_empty(), sql!("purges_add"), &purges.params(&due_at_ms)),
        ];
        pipeline::send(client, "write staged events", &queries, AfterPipeline::Continue).await
    }

    /// How many bytes of documents the rows hold.
    pub fn bytes(rows: &[StagedRow]) -> usize {
        let length = |row: &StagedRow| match &row.staged {
            Staged::Document { payload, .. } => Bytes::len(payload),
            _ => 0,
        };
        rows.iter().map(length).sum()
    }
}
