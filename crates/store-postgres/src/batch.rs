//! Commands that share a commit, and who waits for their answers.

use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use tidewire_store::command::{Answer, Command};
use tidewire_store::error::StoreError;
use tidewire_store::queue::QueuedCommand;

/// Where an answer goes, and since when it is waited for.
struct PendingReply {
    queued_at: Instant,
    sender: oneshot::Sender<Result<Answer, StoreError>>,
}

impl PendingReply {
    fn send(self, result: Result<Answer, StoreError>) {
        // A client that went away does not undo its append.
        let _ = self.sender.send(result);
    }
}

/// Commands that share a commit, oldest first, with a reply for each.
pub(crate) struct Batch {
    pub(crate) commands: Vec<Command>,
    replies: Vec<PendingReply>,
}

impl Batch {
    pub(crate) fn new(batch: Vec<QueuedCommand>) -> Batch {
        let of = |QueuedCommand { command, reply, queued_at }| {
            (command, PendingReply { queued_at, sender: reply })
        };
        let (commands, replies) = batch.into_iter().map(of).unzip();
        Batch { commands, replies }
    }

    /// Since when its oldest command waits.
    pub(crate) fn queued_at(&self) -> Option<Instant> {
        self.replies.first().map(|reply| reply.queued_at)
    }

    /// Each command alone.
    pub(crate) fn split(self) -> impl Iterator<Item = Batch> {
        let pairs = self.commands.into_iter().zip(self.replies);
        pairs.map(|(command, reply)| Batch { commands: vec![command], replies: vec![reply] })
    }

    pub(crate) fn answer(self, answers: Vec<Answer>) {
        for (reply, answer) in self.replies.into_iter().zip(answers) {
            reply.send(Ok(answer));
        }
    }

    pub(crate) fn refuse(self, error: &StoreError) {
        for reply in self.replies {
            reply.send(Err(error.clone()));
        }
    }

    /// Refuses the commands that have waited for so long.
    pub(crate) fn expire(&mut self, timeout: Duration) {
        let expired = self.replies.partition_point(|reply| reply.queued_at.elapsed() >= timeout);
        self.commands.drain(..expired);
        for reply in self.replies.drain(..expired) {
            let reason = "the connection is lost and did not come back in time".to_owned();
            reply.send(Err(StoreError::Unavailable(reason)));
        }
    }
}
