//! The sequencer: from the staging table to the log.
//!
//! A *round* is one look at what is staged. Its transactions go into the log whole, in the order of
//! their last ids, rows by id within them. That is an order in which they could have happened: what a
//! transaction depends on was committed before it wrote its last row, is visible to the same look, and
//! has a smaller last id. No horizon of running transactions is needed, so that none of them holds
//! others up; and what is moved is deleted in the same commit, so that nothing is taken twice.
//!
//! - `batch`: cutting what waits into commits
//! - `failing_row`: finds a row that the log does not take, by trying halves of its transaction
//! - `floor`: below which id nothing is staged any more, so that it need not be looked at
//! - `move_rows`: one commit of the sequencer
//! - `polling`: when to look for staged rows again
//! - `set_aside`: rows that cannot become events

mod batch;
mod failing_row;
mod floor;
mod move_rows;
mod polling;
mod set_aside;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tidewire_store::{CaptureMode, StoreError};
use tidewire_store_postgres::captured::broken;
use tokio_postgres::{Error, Row};
use tokio_util::sync::CancellationToken;

use crate::leader::{End, Leadership};
use crate::options::CaptureOptions;
use crate::query::{Param, execute, query, query_one, sql};
use batch::{BatchAction, Limits, WaitingTransaction};
use floor::Floor;
use polling::{Polling, Sleep};

/// Transactions of one round: enough that looking costs little beside moving them, and few enough to
/// hold in memory.
const ROUND_TRANSACTIONS_MAX: i64 = 100_000;

/// How often the floor is raised.
const FLOOR_EVERY: Duration = Duration::from_millis(250);

/// How long to wait when the database's disk is full.
const FULL_PAUSE: Duration = Duration::from_secs(1);

/// Moves what is staged until told to stop, or until changes come from elsewhere.
pub(crate) async fn run(
    leadership: &Leadership,
    options: &CaptureOptions,
    stop: &CancellationToken,
) -> Result<End, StoreError> {
    let may_sleep = query_one(leadership.client(), sql!("may_sleep"), &[]).await;
    let may_sleep = may_sleep.and_then(|row| row.try_get(0)).map_err(broken("read a setting"))?;
    let sequencer = Sequencer {
        polling: Polling::new(options, may_sleep),
        ..Sequencer::new(leadership, options, CaptureMode::Outbox)
    };
    sequencer.run(stop).await
}

/// Moves what was staged up to an id, before the write-ahead log is read. Returns why it is not this
/// node's to do, if it is not.
pub(crate) async fn drain(
    leadership: &Leadership,
    options: &CaptureOptions,
    until: i64,
) -> Result<Option<End>, StoreError> {
    let sequencer = Sequencer::new(leadership, options, CaptureMode::Wal);
    let mut sequencer = Sequencer { until, ..sequencer };
    // From here on nobody has to be woken.
    sequencer.tell(Sleep::Awake).await?;
    while let moved = sequencer.round(&CancellationToken::new()).await?
        && moved != Ok(0)
    {
        if let Err(end) = moved {
            return Ok(Some(end));
        }
    }
    Ok(None)
}

/// Tries once more what failed and is due, while the write-ahead log is read.
pub(crate) async fn retry(
    leadership: &Leadership,
    options: &CaptureOptions,
) -> Result<Option<End>, StoreError> {
    let sequencer = Sequencer::new(leadership, options, CaptureMode::Wal);
    let mut sequencer = Sequencer { until: 0, ..sequencer };
    Ok(sequencer.round(&CancellationToken::new()).await?.err())
}

struct Sequencer<'a> {
    leadership: &'a Leadership,
    options: &'a CaptureOptions,
    limits: Limits,
    floor: Floor,
    floor_raised_at: Instant,
    polling: Polling,
    /// Where changes come from. What is staged is moved besides where it is not the outbox.
    mode: CaptureMode,
    /// Rows with higher ids are not looked at, unless they failed before.
    until: i64,
}

/// What became of a step.
enum StepOutcome {
    /// It is in the log.
    Moved,
    /// Something stood in its way that is out of it: the rest is to be looked at again.
    LookAgain,
    /// It is not for this node to do.
    Ended(End),
}

impl<'a> Sequencer<'a> {
    fn new(
        leadership: &'a Leadership,
        options: &'a CaptureOptions,
        mode: CaptureMode,
    ) -> Sequencer<'a> {
        Sequencer {
            leadership,
            options,
            limits: Limits { rows_max: options.batch_rows_max, bytes_max: options.batch_bytes_max },
            floor: Floor::default(),
            floor_raised_at: Instant::now(),
            polling: Polling::new(options, false),
            mode,
            until: i64::MAX,
        }
    }
}

impl Sequencer<'_> {
    async fn run(mut self, stop: &CancellationToken) -> Result<End, StoreError> {
        // The one before may have gone to sleep.
        self.tell(Sleep::Awake).await?;
        loop {
            if stop.is_cancelled() {
                return Ok(End::Stopped);
            }
            let began = Instant::now();
            let found = match self.round(stop).await {
                Ok(Ok(found)) => found,
                Ok(Err(end)) => return Ok(end),
                Err(StoreError::Full(reason)) => {
                    tracing::error!(reason, "the database's disk is full; changes wait");
                    self.roll_back().await?;
                    tokio::time::sleep(FULL_PAUSE).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let next = self.polling.after_round(found, began.elapsed(), Instant::now());
            if let Some(sleep) = next.tell {
                self.tell(sleep).await?;
            }
            if !next.wait.is_zero() {
                tokio::select! {
                    () = self.leadership.session.notified() => {}
                    () = tokio::time::sleep(next.wait) => {}
                    () = stop.cancelled() => {}
                }
            }
        }
    }

    /// Looks, and moves what it saw. Returns how many transactions that were.
    async fn round(&mut self, stop: &CancellationToken) -> Result<Result<usize, End>, StoreError> {
        let waiting = match self.look().await? {
            Ok(waiting) => waiting,
            Err(end) => return Ok(Err(end)),
        };
        let complete =
            waiting.len() < usize::try_from(ROUND_TRANSACTIONS_MAX).unwrap_or(usize::MAX);
        let found = waiting.len();
        let mut steps = batch::steps(waiting, self.limits);
        let mut looked_at_all = complete;
        while let Some(step) = steps.pop_front() {
            match self.step(step, &mut steps).await? {
                StepOutcome::Moved => {}
                StepOutcome::LookAgain => {
                    looked_at_all = false;
                    break;
                }
                StepOutcome::Ended(end) => return Ok(Err(end)),
            }
            if stop.is_cancelled() {
                return Ok(Err(End::Stopped));
            }
        }
        if looked_at_all {
            self.floor.all_moved();
        }
        if !self.floor.is_marked() && self.floor_raised_at.elapsed() >= FLOOR_EVERY {
            self.mark_floor().await.map_err(broken("see who writes to the staging table"))?;
            self.floor_raised_at = Instant::now();
        }
        Ok(Ok(found))
    }

    /// What waits, in order; or that changes come from elsewhere.
    async fn look(&self) -> Result<Result<Vec<WaitingTransaction>, End>, StoreError> {
        let look = async {
            let client = self.leadership.client();
            let (hard, soft, writers) =
                (self.floor.hard(), self.floor.soft(), self.floor.writers());
            let params: [Param<'_>; 5] =
                [&hard, &soft, &writers, &ROUND_TRANSACTIONS_MAX, &self.until];
            let rows = query(client, sql!("round"), &params).await?;
            // Where there is something to do, beginning to do it finds that out.
            if rows.is_empty() {
                let head = self.leadership.link.fitted(sql!("head"));
                let head = query_one(client, &head, &[]).await?;
                if head.try_get::<_, &str>(3)? != self.mode.as_str() {
                    return Ok(Err(End::Switched));
                }
            }
            let lag_ms = rows.iter().map(|row| row.try_get::<_, i64>(8));
            let lag_ms = lag_ms.collect::<Result<Vec<_>, Error>>()?.into_iter().max();
            let waiting: Vec<WaitingTransaction> =
                rows.iter().map(waiting_of_row).collect::<Result<_, _>>()?;
            let rows: usize = waiting.iter().map(|transaction| transaction.rows).sum();
            let lag_ms = u64::try_from(lag_ms.unwrap_or(0)).unwrap_or(0);
            self.leadership.link.counters().looked(rows as u64, lag_ms);
            Ok(Ok(waiting))
        };
        look.await.map_err(broken("look at the staging table"))
    }

    /// Moves a step's rows. If the database does not take them, finds those that it does not.
    async fn step(
        &mut self,
        step: BatchAction,
        steps: &mut VecDeque<BatchAction>,
    ) -> Result<StepOutcome, StoreError> {
        let (transactions, chunk_rows) = match step {
            BatchAction::Whole(transactions) => (transactions, None),
            BatchAction::Chunks(transaction, rows) => (vec![transaction], Some(rows)),
        };
        let moved = match chunk_rows {
            None => self.move_whole(&transactions).await,
            Some(rows) => self.move_in_chunks(&transactions[0], rows).await,
        };
        let error = match moved {
            Err(error @ StoreError::Broken { .. }) => error,
            other => return other,
        };
        self.roll_back().await?;
        tracing::warn!(%error, transactions = transactions.len(), "the log rejects a batch; looking for the row at fault");
        if let Some((first, second)) = batch::halves(transactions.clone()) {
            steps.push_front(BatchAction::Whole(second));
            steps.push_front(BatchAction::Whole(first));
            return Ok(StepOutcome::Moved);
        }
        self.single_out(&transactions[0]).await
    }

    async fn roll_back(&self) -> Result<(), StoreError> {
        self.leadership.link.rolled_back();
        let client = self.leadership.client();
        client.batch_execute("ROLLBACK").await.map_err(broken("end a transaction"))
    }

    async fn mark_floor(&mut self) -> Result<(), Error> {
        let client = self.leadership.client();
        let mark = query_one(client, sql!("floor_mark"), &[]).await?.try_get(0)?;
        let rows = query(client, sql!("floor_writers"), &[]).await?;
        let writers = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
        self.floor.mark(mark, writers);
        Ok(())
    }

    /// Lets writers know whether they must wake us.
    async fn tell(&self, sleep: Sleep) -> Result<(), StoreError> {
        let told = execute(self.leadership.client(), sql!("sleep"), &[&sleep.flag()]).await;
        told.map(drop).map_err(broken("say whether the sequencer sleeps"))
    }

    /// Begins a commit, or says why it is not this node's to make.
    async fn begin(&self) -> Result<Result<crate::leader::Head, End>, StoreError> {
        self.leadership.begin(self.mode).await
    }
}

fn waiting_of_row(row: &Row) -> Result<WaitingTransaction, Error> {
    let count = |value: i64| usize::try_from(value).unwrap_or(0);
    Ok(WaitingTransaction {
        txid: row.try_get(0)?,
        first_id: row.try_get(1)?,
        last_id: row.try_get(2)?,
        rows: count(row.try_get(3)?),
        bytes: count(row.try_get(4)?),
        special: row.try_get(5)?,
        nested: row.try_get(6)?,
        retried: row.try_get(7)?,
    })
}
