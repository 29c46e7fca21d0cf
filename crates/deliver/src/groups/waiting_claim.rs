//! A claim that waits for a batch, and its answer.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use tidewire_store::groups::{Batch, GroupError};

use super::batch_permits::{self, BatchPermit};
use super::problem;
use super::token::Token;
use tidewire_access::problem::Problem;

/// What a worker asks for, and whom to tell.
#[derive(Debug)]
pub(super) struct WaitingClaim {
    pub(super) member: String,
    pub(super) batch_size: usize,
    pub(super) lease: Duration,
    pub(super) partition: Option<u32>,
    /// Whether someone looked for work since it came.
    pub(super) looked: bool,
    /// Whether there was no room for a batch then.
    pub(super) crowded: bool,
    /// Until then it waits.
    pub(super) deadline: Instant,
    pub(super) reply: oneshot::Sender<Reply>,
}

/// What comes of it: none if there was nothing in time.
pub(super) type Reply = Result<Option<Leased>, Refused>;

/// A batch that is a worker's.
#[derive(Debug)]
pub(super) struct Leased {
    pub(super) token: Token,
    pub(super) batch: Batch,
    pub(super) place: BatchPermit,
}

/// Why there will be none.
#[derive(Debug, Clone)]
pub(super) enum Refused {
    /// The group, or the store behind it, says no.
    Group(GroupError),
    /// The group has no such partition.
    NoPartition(u32),
    /// There was no room for a batch for as long as it waited.
    Crowded,
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Problem {
        match refused {
            Refused::Group(error) => problem::of(error),
            Refused::NoPartition(partition) => problem::no_partition(partition),
            Refused::Crowded => batch_permits::crowded(),
        }
    }
}

impl WaitingClaim {
    /// Whether it takes a partition.
    pub(super) fn takes(&self, partition: u32) -> bool {
        self.partition.is_none_or(|wanted| wanted == partition)
    }

    /// Whether nobody waits for it any more.
    pub(super) fn is_over(&self) -> bool {
        self.reply.is_closed() || self.deadline <= Instant::now()
    }

    /// Says no. Whoever is gone need not hear it.
    pub(super) fn refuse(self, refused: Refused) {
        let _ = self.reply.send(Err(refused));
    }

    /// There was nothing in time.
    pub(super) fn dismiss(self) {
        let _ = self.reply.send(if self.crowded { Err(Refused::Crowded) } else { Ok(None) });
    }
}
