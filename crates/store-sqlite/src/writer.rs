//! The writer thread: takes what waits, commits it, answers.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio_util::task::TaskTracker;

use super::cache::StreamCache;
use super::capture::{self, Capture};
use super::checkpoint::Checkpoints;
use super::error::{broken, now_ms};
use super::load::LogSnapshot;
use super::recent::Recent;
use super::save;
use tidewire_store::command::{Answer, Command};
use tidewire_store::decide::{NewEvent, Plan, decide};
use tidewire_store::error::StoreError;
use tidewire_store::queue::{Next, QueueReceiver, QueuedCommand};
use tidewire_store::source;
use tidewire_store::stats::Counters;

/// Work that needs the writer's connection to itself.
pub(crate) struct Exclusive(Box<dyn FnOnce(&mut Writer) + Send>);

impl Exclusive {
    pub(crate) fn new(work: impl FnOnce(&mut Writer) + Send + 'static) -> Exclusive {
        Exclusive(Box::new(work))
    }
}

impl std::fmt::Debug for Exclusive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Exclusive")
    }
}

/// What the writer thread owns.
pub(crate) struct Writer {
    connection: Connection,
    streams: StreamCache,
    counters: Arc<Counters>,
    recent: Arc<Recent>,
    grown: watch::Sender<u64>,
    answers: AnswerSender,
    capture: Arc<Capture>,
}

/// Tells those who wait. Waking a task from a thread outside the runtime costs the thread several
/// times what it costs a task inside, and while the writer wakes it does not write: of many, one
/// task is woken, and wakes the others.
struct AnswerSender {
    runtime: Handle,
    tasks: TaskTracker,
}

/// Up to so many are told without a detour.
const SENT_DIRECTLY_MAX: usize = 4;

type PendingAnswer = (oneshot::Sender<Result<Answer, StoreError>>, Result<Answer, StoreError>);

impl AnswerSender {
    fn tell(&self, all: impl Iterator<Item = PendingAnswer> + Send + 'static, count: usize) {
        let tell = move || {
            for (reply, answer) in all {
                // A client that went away does not undo its append.
                let _ = reply.send(answer);
            }
        };
        if count <= SENT_DIRECTLY_MAX {
            return tell();
        }
        self.tasks.spawn_on(async move { tell() }, &self.runtime);
    }
}

impl Writer {
    /// Runs `work` in a transaction, with the time of the commit, and makes it durable. `work`
    /// returns the plan it saved, whose events are announced once they are.
    pub(crate) fn commit<T, E: From<StoreError>>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>, &mut StreamCache, i64) -> Result<(T, Plan), E>,
    ) -> Result<(T, Plan), E> {
        let (started, now_ms) = (Instant::now(), now_ms());
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(broken("begin a commit"))?;
        let (value, plan) = work(&transaction, &mut self.streams, now_ms)?;
        transaction.commit().map_err(broken("commit"))?;
        self.streams.follow(&plan);
        if let Some(last) = plan.events.last() {
            let bytes = plan.events.iter().map(NewEvent::bytes).sum();
            self.counters.committed(
                plan.answers.len(),
                plan.events.len(),
                bytes,
                started.elapsed(),
            );
            self.recent.push(&plan, now_ms);
            self.grown.send_replace(last.position.number());
        }
        Ok((value, plan))
    }

    /// What the user's SQL needs.
    pub(crate) fn capture(&self) -> Arc<Capture> {
        Arc::clone(&self.capture)
    }

    /// What is counted.
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The connection, for looking at what is there.
    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Forgets what is remembered of a stream, whose row upkeep has changed.
    pub(crate) fn forget(&mut self, stream: &str) {
        self.streams.forget(stream);
    }

    /// Runs upkeep in a transaction of its own.
    pub(crate) fn transaction(&mut self) -> Result<Transaction<'_>, StoreError> {
        self.connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(broken("begin a transaction"))
    }

    fn answer(&mut self, batch: Vec<QueuedCommand>) {
        // What another process did comes first; whether that can be told does not stop an append.
        if let Err(error) = capture::notice(self) {
            tracing::error!(%error, "changes by another process could not be captured");
        }
        let (commands, replies): (Vec<Command>, Vec<_>) =
            batch.into_iter().map(|waiting| (waiting.command, waiting.reply)).unzip();
        let result: Result<_, StoreError> = self.commit(|transaction, streams, now_ms| {
            let mut rows = LogSnapshot::cached(transaction, streams, now_ms);
            let loaded = source::load(&mut rows, &commands)?;
            let plan = decide(loaded, &commands);
            save::plan(transaction, &plan, now_ms)?;
            Ok(((), plan))
        });
        match result {
            Ok(((), plan)) => {
                let count = replies.len();
                self.answers.tell(replies.into_iter().zip(plan.answers.into_iter().map(Ok)), count);
            }
            Err(error) => {
                self.counters.failed();
                tracing::error!(%error, commands = replies.len(), "commit failed");
                for reply in replies {
                    let _ = reply.send(Err(error.clone()));
                }
            }
        }
    }
}

/// The running thread. Ends when the queue is closed and empty.
#[derive(Debug)]
pub(crate) struct WriterThread(Mutex<Option<JoinHandle<()>>>);

impl WriterThread {
    pub(crate) fn start(
        (mut connection, checkpoints): (Connection, Checkpoints),
        mut taker: QueueReceiver<Exclusive>,
        counters: Arc<Counters>,
        recent: Arc<Recent>,
        grown: watch::Sender<u64>,
        untouched: bool,
    ) -> Result<WriterThread, StoreError> {
        let streams = StreamCache::default();
        let answers = AnswerSender { runtime: Handle::current(), tasks: TaskTracker::new() };
        let capture = Capture::new(&mut connection).map_err(broken("prepare for SQL"))?;
        let mut writer = Writer { connection, streams, counters, recent, grown, answers, capture };
        let run = move || {
            if !untouched && let Err(error) = capture::notice_after_restart(&mut writer) {
                tracing::error!(%error, "the watched tables could not be read again");
            }
            while let Some(next) = taker.blocking_next() {
                match next {
                    Next::Commit(batch) => writer.answer(batch),
                    Next::Exclusive(Exclusive(work)) => work(&mut writer),
                }
            }
            checkpoints.end(&mut writer.connection);
        };
        let handle = std::thread::Builder::new()
            .name("tidewire-writer".to_owned())
            .spawn(run)
            .map_err(|error| StoreError::Refused(format!("cannot start the writer: {error}")))?;
        Ok(WriterThread(Mutex::new(Some(handle))))
    }

    /// Waits for the thread to finish what it has.
    pub(crate) async fn join(&self) {
        let handle = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(handle) = handle {
            let joined = tokio::task::spawn_blocking(move || handle.join()).await;
            if !matches!(joined, Ok(Ok(()))) {
                tracing::error!("the writer thread ended by a panic");
            }
        }
    }
}
