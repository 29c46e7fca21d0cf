//! The elected node: the lock that it holds, and the work that it does.
//!
//! Each leader makes `generation` rise, under the offset lock. Whoever appends captured events checks
//! it under the same lock, so that a leader that was cut off and comes back appends nothing.

use deadpool_postgres::ClientWrapper;
use futures_util::future::try_join3;
use tidewire_store::{CaptureMode, Position, StoreError};
use tidewire_store_postgres::captured::{CaptureLink, CaptureSession, OFFSET_LOCK, broken};
use tokio_util::sync::CancellationToken;

use crate::options::CaptureOptions;
use crate::query::{execute, query_one, sql};
use crate::{sequencer, source, upkeep, wal};

/// The right to bring captured changes into the log, for as long as nobody else has it.
#[derive(Debug)]
pub(crate) struct Leadership {
    /// The session that holds the lock of the elected. All that is appended is appended through it.
    pub(crate) session: CaptureSession,
    pub(crate) link: CaptureLink,
    pub(crate) generation: i64,
}

/// The log's end and capture's state, under the offset lock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    pub(crate) tip: Position,
    pub(crate) now_ms: i64,
    /// The transaction that is partly in the log.
    pub(crate) chunk_txid: Option<i64>,
}

/// Why a source of changes came to its end, when nothing is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The node is told to stop.
    Stopped,
    /// Another node leads.
    Deposed,
    /// Changes come from another source.
    Switched,
}

impl Leadership {
    /// Takes it, with the lock of the elected in the session's hands.
    pub(crate) async fn take(
        options: &CaptureOptions,
        link: &CaptureLink,
        session: CaptureSession,
    ) -> Result<Leadership, StoreError> {
        let client = session.client();
        let take = async {
            client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
            execute(client, sql!("lock"), &[&OFFSET_LOCK]).await?;
            let row = query_one(client, sql!("lead"), &[&options.node]).await?;
            client.batch_execute("COMMIT").await?;
            row.try_get(0)
        };
        let generation = take.await.map_err(broken("begin to lead"))?;
        Ok(Leadership { session, link: link.clone(), generation })
    }

    pub(crate) fn client(&self) -> &ClientWrapper {
        self.session.client()
    }

    /// Begins a transaction and takes the offset lock, if the database is the one that was opened. None, and the transaction is over, if this
    /// leadership is, or if changes do not come from `mode` any more.
    pub(crate) async fn begin(&self, mode: CaptureMode) -> Result<Result<Head, End>, StoreError> {
        let client = self.client();
        let seen = self.link.seen();
        let begin = async {
            // In one round trip. Each statement sees what the lock's last holder committed, because in
            // READ COMMITTED each has a snapshot of its own.
            let lock = client.prepare_cached(sql!("lock")).await?;
            let head = client.prepare_cached(&self.link.fitted(sql!("head"))).await?;
            let (_, _, row) = try_join3(
                client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED"),
                client.execute(&lock, &[&OFFSET_LOCK]),
                client.query_one(&head, &[]),
            )
            .await?;
            let end = if row.try_get::<_, i64>(2)? != self.generation {
                Some(End::Deposed)
            } else if row.try_get::<_, &str>(3)? != mode.as_str() {
                Some(End::Switched)
            } else {
                None
            };
            if let Some(end) = end {
                client.batch_execute("ROLLBACK").await?;
                return Ok(Err(end));
            }
            let head = Head {
                tip: Position::from_sql(row.try_get(0)?),
                now_ms: row.try_get(1)?,
                chunk_txid: row.try_get(4)?,
            };
            Ok(Ok((head, row)))
        };
        match begin.await.map_err(broken("take the offset lock"))? {
            Err(end) => Ok(Err(end)),
            Ok((head, row)) => {
                self.link.check(&row, 5, seen)?;
                Ok(Ok(head))
            }
        }
    }

    /// Where changes come from.
    async fn mode(&self) -> Result<CaptureMode, StoreError> {
        let read = async {
            let row = query_one(self.client(), &self.link.fitted(sql!("head")), &[]).await?;
            Ok(CaptureMode::parse(row.try_get(3)?).unwrap_or(CaptureMode::Outbox))
        };
        read.await.map_err(broken("read how changes are captured"))
    }

    /// Lets others see that nobody leads, as far as this one knows.
    async fn resign(&self) {
        let resigned = execute(self.client(), sql!("resign"), &[&self.generation]).await;
        if let Err(error) = resigned {
            tracing::debug!(%error, "could not record that no node leads");
        }
    }
}

/// Works at the source that changes come from, until this leadership ends.
pub(crate) async fn work(
    leadership: &Leadership,
    options: &CaptureOptions,
    stop: &CancellationToken,
) -> Result<(), StoreError> {
    // Not in the loop: a switch that it makes ends the source, and it goes on.
    let mut choice = Box::pin(source::run(leadership, options));
    loop {
        let mode = leadership.mode().await?;
        tracing::info!(
            mode = mode.as_str(),
            generation = leadership.generation,
            "this node brings captured changes into the log"
        );
        let source = async {
            match mode {
                CaptureMode::Wal => Box::pin(wal::run(leadership, options, stop)).await,
                CaptureMode::Outbox | CaptureMode::Embedded => {
                    sequencer::run(leadership, options, stop).await
                }
            }
        };
        let end = tokio::select! {
            end = source => end?,
            never = upkeep::run(leadership, options) => match never {},
            never = &mut choice => match never {},
        };
        match end {
            End::Switched => {}
            End::Deposed => {
                tracing::warn!(
                    generation = leadership.generation,
                    "another node brings captured changes into the log"
                );
                return Ok(());
            }
            End::Stopped => {
                leadership.resign().await;
                return Ok(());
            }
        }
    }
}
