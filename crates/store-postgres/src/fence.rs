//! Keeps a node from giving offsets in a database that is not the one it opened, and from reading it
//! under an epoch that is not its own.
//!
//! Two places ask. Every new session does, before it is used ([`Fence::admit`]): a failover breaks all
//! that were open. And every transaction that gives offsets does, under the offset lock, in the
//! statement that reads the tip ([`Fence::check`]). On a difference nothing is appended, and
//! the node is told to open the database anew ([`Fence::replaced`]), which is where it is decided what
//! becomes of the log (`failover.rs`).

use std::borrow::Cow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use tokio::sync::watch;
use tokio_postgres::{Client, Row};

use super::error::broken;
use super::failover;
use super::identity::{Abilities, IdentityCheck, Verdict, epoch_of};
use super::query::sql;
use crate::options::Failover;
use tidewire_store::error::StoreError;
use tidewire_store::offset::{Epoch, Position};

/// Why a node cannot go on with the database as it opened it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Replaced {
    /// It is another database, or has another epoch: close the store and open it again.
    Reopen(String),
    /// The log ends before an event that was seen, and nothing says why: stop.
    Stop(String),
}

/// What a node holds its sessions to.
#[derive(Debug)]
pub(crate) struct Fence {
    failover: Failover,
    /// 0 until it is known.
    epoch: AtomicU16,
    holder: OnceLock<Holder>,
    /// The highest position that is known to have been in the log.
    seen: AtomicU64,
    replaced: watch::Sender<Option<Replaced>>,
}

/// Who holds on to the epoch.
#[derive(Debug, Clone, Copy)]
enum Holder {
    /// A server, which gives offsets.
    Server(Abilities),
    /// A worker, which gives none: all that it knows is in the database, and the epoch is a label.
    Worker,
}

impl Fence {
    pub(crate) fn new(failover: Failover) -> Fence {
        Fence {
            failover,
            epoch: AtomicU16::new(0),
            holder: OnceLock::new(),
            seen: AtomicU64::new(0),
            replaced: watch::Sender::new(None),
        }
    }

    /// From here on sessions are held to this epoch.
    pub(crate) fn hold(&self, epoch: Epoch, abilities: Abilities) {
        self.epoch.store(epoch.number(), Ordering::Release);
        let _ = self.holder.set(Holder::Server(abilities));
    }

    /// From here on sessions tell which epoch it is.
    pub(crate) fn follow(&self, epoch: Epoch) {
        self.epoch.store(epoch.number(), Ordering::Release);
        let _ = self.holder.set(Holder::Worker);
    }

    pub(crate) fn failover(&self) -> Failover {
        self.failover
    }

    /// The log's epoch.
    pub(crate) fn epoch(&self) -> Epoch {
        Epoch::new(self.epoch.load(Ordering::Acquire)).unwrap_or(Epoch::FIRST)
    }

    /// A query that asks which database this is, without what may not be asked.
    pub(crate) fn fitted(&self, sql: &'static str) -> Cow<'static, str> {
        match self.holder.get() {
            Some(Holder::Server(abilities)) => abilities.fit(sql),
            _ => Cow::Borrowed(sql),
        }
    }

    /// The highest position that was seen. Asked before a tip is read that it is compared with:
    /// others may see higher ones meanwhile.
    pub(crate) fn seen(&self) -> Position {
        Position::new(self.seen.load(Ordering::Acquire))
    }

    /// A position is in the log.
    pub(crate) fn saw(&self, position: Position) {
        self.seen.fetch_max(position.number(), Ordering::AcqRel);
    }

    /// Whether the node cannot go on, so that it is of no use to try once more.
    pub(crate) fn is_replaced(&self) -> bool {
        self.replaced.borrow().is_some()
    }

    /// Returns when the node cannot go on, and why.
    pub(crate) async fn replaced(&self) -> Replaced {
        let mut replaced = self.replaced.subscribe();
        loop {
            if let Some(why) = replaced.borrow_and_update().clone() {
                return why;
            }
            if replaced.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Checks a row that was read under the offset lock: the tip first, and `epoch` and what follows it
    /// from a column on. `seen` was asked before.
    pub(crate) fn check(&self, row: &Row, first: usize, seen: Position) -> Result<(), StoreError> {
        let standing =
            IdentityCheck::of_row(row, first).map_err(broken("see which database this is"))?;
        // The next session that is opened settles it, and nothing else need be.
        let quietly = self.failover == Failover::Lossless && standing.is_elsewhere();
        self.judge(&standing, seen).map_err(|why| match why {
            Replaced::Reopen(why) if quietly => StoreError::Replaced(why),
            why => self.refuse(why),
        })
    }

    /// Looks at the database of a session that was opened, before the session is used.
    pub(crate) async fn admit(&self, client: &Client) -> Result<(), StoreError> {
        match self.holder.get() {
            // It is about to be opened.
            None => Ok(()),
            Some(Holder::Worker) => self.adopt(client).await,
            // Boxed, because it is seldom that there is much to do.
            Some(Holder::Server(abilities)) => Box::pin(self.examine(client, *abilities)).await,
        }
    }

    async fn examine(&self, client: &Client, abilities: Abilities) -> Result<(), StoreError> {
        let seen = self.seen();
        let mut standing = failover::standing(client, abilities).await?;
        if self.failover == Failover::Lossless && standing.is_elsewhere() {
            failover::settle(client, self.failover, abilities).await?;
            standing = failover::standing(client, abilities).await?;
        }
        self.judge(&standing, seen).map_err(|why| self.refuse(why))
    }

    async fn adopt(&self, client: &Client) -> Result<(), StoreError> {
        let read = async { client.query_one(sql!("epoch"), &[]).await?.try_get(0) };
        let epoch = epoch_of(read.await.map_err(broken("read the log's epoch"))?)?;
        let before = self.epoch.swap(epoch.number(), Ordering::AcqRel);
        if before != epoch.number() {
            tracing::warn!(before, epoch = epoch.number(), "the log has another epoch");
        }
        Ok(())
    }

    fn judge(&self, standing: &IdentityCheck, seen: Position) -> Result<(), Replaced> {
        if let Some(why) = &standing.halted {
            return Err(Replaced::Stop(why.clone()));
        }
        let held = self.epoch();
        if i32::from(standing.epoch) != i32::from(held.number()) {
            let why = format!("the log's epoch is {}, and was {}", standing.epoch, held.number());
            return Err(Replaced::Reopen(why));
        }
        match standing.noted.verdict(&standing.found) {
            Verdict::Promoted(why) | Verdict::Elsewhere(why) => return Err(Replaced::Reopen(why)),
            Verdict::Same | Verdict::Unnoted => {}
        }
        if standing.tip < seen {
            return Err(Replaced::Stop(failover::shorter(
                standing.tip.in_epoch(held),
                seen.in_epoch(held),
            )));
        }
        self.saw(standing.tip);
        Ok(())
    }

    /// Lets the node know, and says it to whoever asked.
    fn refuse(&self, why: Replaced) -> StoreError {
        let (Replaced::Reopen(text) | Replaced::Stop(text)) = &why;
        let error = StoreError::Replaced(text.clone());
        // A node that must stop is not told to open the database again.
        self.replaced.send_if_modified(|told| {
            let news = matches!(
                (&*told, &why),
                (None, _) | (Some(Replaced::Reopen(_)), Replaced::Stop(_))
            );
            if news {
                *told = Some(why);
            }
            news
        });
        error
    }
}
