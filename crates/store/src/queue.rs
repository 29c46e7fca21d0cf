//! The queue before the writer: where appends wait to share a commit.
//!
//! Group commit is natural: while one commit is under way, whatever arrives waits; when it is done,
//! all that waits goes into the next. There is no timer, so a lone append is not held up.

use std::time::Instant;

use tokio::sync::{mpsc, oneshot};

use crate::command::{Answer, Command};
use crate::error::StoreError;
use crate::options::CommitOptions;

/// A command and where its answer goes.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) command: Command,
    pub(crate) reply: oneshot::Sender<Result<Answer, StoreError>>,
    /// When it was queued. A store whose database is away refuses what has waited too long.
    pub(crate) queued_at: Instant,
}

/// The answer of a command that is queued.
#[derive(Debug)]
pub(crate) struct Awaited(oneshot::Receiver<Result<Answer, StoreError>>);

impl Awaited {
    pub(crate) async fn get(self) -> Result<Answer, StoreError> {
        // The writer answers everything it takes; a dropped reply means it is gone.
        self.0.await.map_err(|_| StoreError::Closed)?
    }
}

/// Work for the writer: commands to be committed together, or something of its own (`E`).
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every job is a command; a box would cost each"
)]
pub(crate) enum Job<E> {
    Command(Waiting),
    Exclusive(E),
}

/// What the writer does next.
#[derive(Debug)]
pub(crate) enum Next<E> {
    Commit(Vec<Waiting>),
    Exclusive(E),
}

/// The way in.
#[derive(Debug)]
pub(crate) struct Queue<E> {
    sender: std::sync::RwLock<Option<mpsc::Sender<Job<E>>>>,
    waiting_max: usize,
}

impl<E> Queue<E> {
    pub(crate) fn new(options: &CommitOptions) -> (Queue<E>, Taker<E>) {
        let (sender, receiver) = mpsc::channel(options.queue_max);
        let queue =
            Queue { sender: std::sync::RwLock::new(Some(sender)), waiting_max: options.queue_max };
        (queue, Taker { receiver, held_over: None, options: options.clone() })
    }

    /// Queues a command and waits for its answer.
    pub(crate) async fn submit(&self, command: Command) -> Result<Answer, StoreError> {
        self.enter(command)?.get().await
    }

    /// Queues a command.
    pub(crate) fn enter(&self, command: Command) -> Result<Awaited, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.push(Job::Command(Waiting { command, reply, queued_at: Instant::now() }))?;
        Ok(Awaited(answer))
    }

    pub(crate) fn push(&self, job: Job<E>) -> Result<(), StoreError> {
        let sender = self.sender.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let sender = sender.as_ref().ok_or(StoreError::Closed)?;
        sender.try_send(job).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => StoreError::Overloaded(self.waiting_max),
            mpsc::error::TrySendError::Closed(_) => StoreError::Closed,
        })
    }

    /// Lets nothing more in. The writer ends when it has taken what is there.
    pub(crate) fn close(&self) {
        *self.sender.write().unwrap_or_else(std::sync::PoisonError::into_inner) = None;
    }
}

/// The writer's end.
#[derive(Debug)]
pub(crate) struct Taker<E> {
    receiver: mpsc::Receiver<Job<E>>,
    /// A job that was taken but does not go with the batch being gathered.
    held_over: Option<Job<E>>,
    options: CommitOptions,
}

impl<E> Taker<E> {
    /// Waits for work, on a thread. `None` when the queue is closed and empty.
    pub(crate) fn blocking_next(&mut self) -> Option<Next<E>> {
        let first = match self.held_over.take() {
            Some(job) => job,
            None => self.receiver.blocking_recv()?,
        };
        Some(self.gather(first))
    }

    /// Waits for work, in a task. `None` when the queue is closed and empty.
    pub(crate) async fn next(&mut self) -> Option<Next<E>> {
        let first = match self.held_over.take() {
            Some(job) => job,
            None => self.receiver.recv().await?,
        };
        Some(self.gather(first))
    }

    /// The work that waits already. `None` when there is none.
    pub(crate) fn next_waiting(&mut self) -> Option<Next<E>> {
        let first = self.held_over.take().or_else(|| self.receiver.try_recv().ok())?;
        Some(self.gather(first))
    }

    /// Takes whatever else waits and may share the commit.
    fn gather(&mut self, first: Job<E>) -> Next<E> {
        let first = match first {
            Job::Exclusive(work) => return Next::Exclusive(work),
            Job::Command(waiting) => waiting,
        };
        let alone = first.command.stands_alone();
        let mut bytes = first.command.payload_bytes();
        let mut batch = vec![first];
        while !alone && batch.len() < self.options.commands_max && bytes < self.options.bytes_max {
            match self.receiver.try_recv() {
                Ok(Job::Command(waiting)) if !waiting.command.stands_alone() => {
                    bytes += waiting.command.payload_bytes();
                    batch.push(waiting);
                }
                Ok(job) => {
                    self.held_over = Some(job);
                    break;
                }
                Err(_) => break,
            }
        }
        Next::Commit(batch)
    }
}
