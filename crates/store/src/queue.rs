//! The queue before the writer: where appends wait to share a commit.
//!
//! Group commit is natural: while one commit is under way, whatever arrives waits; when it is done,
//! all that waits goes into the next. There is no timer, so a lone append is not held up.
//!
//! Work that callers send may take long, and one of them may send much. It waits beside the rest: the writer takes one
//! of it, each account in its turn, and then whatever else came to wait meanwhile. So an append waits for one such
//! work at most.

mod fair_queue;

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use tokio::sync::{mpsc, oneshot};

use crate::command::{Answer, Command};
use crate::error::StoreError;
use crate::options::CommitOptions;
pub use fair_queue::Account;
use fair_queue::FairQueue;

/// A command and where its answer goes.
#[derive(Debug)]
pub struct QueuedCommand {
    pub command: Command,
    pub reply: oneshot::Sender<Result<Answer, StoreError>>,
    /// When it was queued. A store whose database is away refuses what has waited too long.
    pub queued_at: Instant,
}

/// The answer of a command that is queued.
#[derive(Debug)]
pub struct PendingAnswer(oneshot::Receiver<Result<Answer, StoreError>>);

impl PendingAnswer {
    pub async fn get(self) -> Result<Answer, StoreError> {
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
pub enum Job<E> {
    Command(QueuedCommand),
    Exclusive(E),
    /// There is one more work of a caller's.
    OfCaller,
}

/// What the writer does next.
#[derive(Debug)]
pub enum Next<E> {
    Commit(Vec<QueuedCommand>),
    Exclusive(E),
}

/// The way in.
#[derive(Debug)]
pub struct Queue<E> {
    sender: RwLock<Option<mpsc::Sender<Job<E>>>>,
    /// As much as there are jobs that say so, here and with the receiver.
    of_callers: Arc<Mutex<FairQueue<E>>>,
    waiting_max: usize,
}

impl<E> Queue<E> {
    pub fn new(options: &CommitOptions) -> (Queue<E>, QueueReceiver<E>) {
        let (sender, receiver) = mpsc::channel(options.queue_max);
        let of_callers = Arc::<Mutex<FairQueue<E>>>::default();
        let queue = Queue {
            sender: RwLock::new(Some(sender)),
            of_callers: Arc::clone(&of_callers),
            waiting_max: options.queue_max,
        };
        let receiver = QueueReceiver {
            receiver,
            held_over: None,
            of_callers,
            callers_waiting: 0,
            others_first: 0,
            was_callers: false,
            options: options.clone(),
        };
        (queue, receiver)
    }

    /// Queues a command and waits for its answer.
    pub async fn submit(&self, command: Command) -> Result<Answer, StoreError> {
        self.enter(command)?.get().await
    }

    /// Queues a command.
    pub fn enter(&self, command: Command) -> Result<PendingAnswer, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.push(Job::Command(QueuedCommand { command, reply, queued_at: Instant::now() }))?;
        Ok(PendingAnswer(answer))
    }

    /// Queues work of a caller's.
    pub fn push_of_caller(&self, account: Account, work: E) -> Result<(), StoreError> {
        let mut of_callers = self.of_callers.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody takes it before the lock is free.
        self.push(Job::OfCaller)?;
        of_callers.push(account, work);
        Ok(())
    }

    pub fn push(&self, job: Job<E>) -> Result<(), StoreError> {
        let sender = self.sender.read().unwrap_or_else(PoisonError::into_inner);
        let sender = sender.as_ref().ok_or(StoreError::Closed)?;
        sender.try_send(job).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => StoreError::Overloaded(self.waiting_max),
            mpsc::error::TrySendError::Closed(_) => StoreError::Closed,
        })
    }

    /// Lets nothing more in. The writer ends when it has taken what is there.
    pub fn close(&self) {
        *self.sender.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// The writer's end.
#[derive(Debug)]
pub struct QueueReceiver<E> {
    receiver: mpsc::Receiver<Job<E>>,
    /// A job that was taken but does not go with the batch being gathered, or waits for its turn.
    held_over: Option<Job<E>>,
    of_callers: Arc<Mutex<FairQueue<E>>>,
    /// How much of callers' work has been told of and not taken.
    callers_waiting: usize,
    /// How many jobs come before the next of it: those that waited when the last was done.
    others_first: usize,
    /// The last that was taken is a caller's.
    was_callers: bool,
    options: CommitOptions,
}

impl<E> QueueReceiver<E> {
    /// Waits for work, on a thread. `None` when the queue is closed and empty.
    pub fn blocking_next(&mut self) -> Option<Next<E>> {
        match self.next_waiting() {
            Some(next) => Some(next),
            None => {
                let first = self.receiver.blocking_recv()?;
                self.choose(Some(first))
            }
        }
    }

    /// Waits for work, in a task. `None` when the queue is closed and empty.
    pub async fn next(&mut self) -> Option<Next<E>> {
        match self.next_waiting() {
            Some(next) => Some(next),
            None => {
                let first = self.receiver.recv().await?;
                self.choose(Some(first))
            }
        }
    }

    /// The work that waits already. `None` when there is none.
    pub(crate) fn next_waiting(&mut self) -> Option<Next<E>> {
        if std::mem::take(&mut self.was_callers) {
            self.others_first = self.receiver.len() + usize::from(self.held_over.is_some());
        }
        let first = self.held_over.take().or_else(|| self.receiver.try_recv().ok());
        self.choose(first)
    }

    /// What comes next: the work of a caller's, or what else waits.
    fn choose(&mut self, first: Option<Job<E>>) -> Option<Next<E>> {
        let mut other = first;
        while let Some(Job::OfCaller) = other {
            self.told_of_caller();
            other = self.receiver.try_recv().ok();
        }
        match other {
            Some(job) if self.callers_waiting == 0 || self.others_first > 0 => self.gather(job),
            None if self.callers_waiting == 0 => None,
            other => {
                self.held_over = other;
                self.was_callers = true;
                self.callers_waiting -= 1;
                let mut of_callers = self.of_callers.lock().unwrap_or_else(PoisonError::into_inner);
                of_callers.pop().map(Next::Exclusive)
            }
        }
    }

    fn told_of_caller(&mut self) {
        self.callers_waiting += 1;
        self.others_first = self.others_first.saturating_sub(1);
    }

    /// Takes whatever else waits and may share the commit.
    fn gather(&mut self, first: Job<E>) -> Option<Next<E>> {
        self.others_first = self.others_first.saturating_sub(1);
        let first = match first {
            Job::Exclusive(work) => return Some(Next::Exclusive(work)),
            Job::Command(waiting) => waiting,
            Job::OfCaller => return None,
        };
        let alone = first.command.stands_alone();
        let mut bytes = first.command.payload_bytes();
        let mut batch = vec![first];
        while !alone && batch.len() < self.options.commands_max && bytes < self.options.bytes_max {
            match self.receiver.try_recv() {
                Ok(Job::Command(waiting)) if !waiting.command.stands_alone() => {
                    bytes += waiting.command.payload_bytes();
                    batch.push(waiting);
                    self.others_first = self.others_first.saturating_sub(1);
                }
                Ok(Job::OfCaller) => self.told_of_caller(),
                Ok(job) => {
                    self.held_over = Some(job);
                    break;
                }
                Err(_) => break,
            }
        }
        Some(Next::Commit(batch))
    }
}

#[cfg(test)]
mod tests;
