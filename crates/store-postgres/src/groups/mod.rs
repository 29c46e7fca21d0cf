//! Consumer groups in the shared store, for a node and for workers that have nothing else of it.
//!
//! `sessions` are those that batches are worked off in and `work` is a batch in one of them; `ending` is what it
//! leaves besides its advance. `failures`, `letters` and `leases` are what they say. `pages` reads the log, `members` and `view` tell who works and how things stand,
//! `administer` makes groups and `change` changes them. `step` has what errors mean.
//!
//! - `columns`: what is to be written of letters and keys, by column
//! - `open`: connecting to the groups of a database that a server has prepared

mod administer;
mod change;
mod columns;
mod ending;
mod failures;
mod leases;
mod letters;
mod members;
mod open;
mod pages;
mod sessions;
mod step;
mod view;
mod work;

use std::sync::Arc;

pub use work::PostgresWork;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio_util::sync::DropGuard;

use super::PostgresStore;
use super::connect::Connector;
use super::fence::Fence;
use super::load;
use super::pool::{Pool, PooledConnection};
use super::statements::{self, UserSessions};
use super::writer::CommitEffects;
use tidewire_store::error::StoreError;
use tidewire_store::groups::{
    Acked, Batch, Begun, Claim, Ending, Failure, GroupChange, GroupError, GroupSettings, GroupView,
    Grouped, Groups, Holdings, LeaseRef, LetterPage, LetterSelection, LetterState, LogPage,
    MemberReport, Renewed, SharedGroups, Start, Wants,
};
use tidewire_store::log::PageLimit;
use tidewire_store::offset::{Epoch, Position};
use tidewire_store::sql::Statements;

use sessions::WorkSessions;
use step::{administer, failed_store, read, transact};

/// Sessions of a node that batches of its own are worked off in.
const WORK_CONNECTIONS: usize = 8;

/// The groups of a database. A node's store has them, and a worker connects to them alone.
#[derive(Debug)]
pub struct PostgresGroups {
    /// Knows the log's epoch.
    fence: Arc<Fence>,
    pool: Pool,
    /// For statements that come with acks.
    user_sessions: UserSessions,
    sessions: Arc<WorkSessions>,
    grown: watch::Receiver<u64>,
    signals: watch::Receiver<u64>,
    /// Ends the listener of a worker.
    _stop: Option<DropGuard>,
}

impl PostgresGroups {
    /// Those of a store that is open.
    pub(super) fn of_store(
        connector: &Arc<Connector>,
        pool: &Pool,
        user_sessions: &UserSessions,
        effects: &CommitEffects,
    ) -> PostgresGroups {
        PostgresGroups {
            fence: Arc::clone(&connector.fence),
            pool: pool.clone(),
            user_sessions: user_sessions.clone(),
            sessions: Arc::new(WorkSessions::new(connector, WORK_CONNECTIONS)),
            grown: effects.grown.subscribe(),
            signals: effects.group_signals.subscribe(),
            _stop: None,
        }
    }

    /// Those of a database that a Tidewire of this version has prepared. Has so many sessions for work, and
    /// a few for everything else.
    pub async fn connect(url: &str, connections: usize) -> Result<Arc<PostgresGroups>, GroupError> {
        open::connect(url, connections).await
    }

    /// Lets go of the database, as far as it is not the store's.
    pub(super) fn close(&self) {
        self.sessions.close();
    }
}

impl Grouped for PostgresStore {
    fn groups(self: Arc<Self>) -> SharedGroups {
        Arc::clone(&self.groups) as SharedGroups
    }
}

#[async_trait]
impl Groups for PostgresGroups {
    fn log_epoch(&self) -> Epoch {
        self.fence.epoch()
    }

    async fn log_tip(&self) -> Result<Position, StoreError> {
        self.pool.read(|client| async move { load::tip(&client).await }).await
    }

    fn log_grown(&self) -> watch::Receiver<u64> {
        self.grown.clone()
    }

    fn group_signals(&self) -> watch::Receiver<u64> {
        self.signals.clone()
    }

    async fn put_group(
        &self,
        group: &str,
        wish: &GroupSettings,
    ) -> Result<(GroupView, bool), GroupError> {
        let found =
            |client: PooledConnection| async move { administer::found(&client, group, wish).await };
        if let Some(group) = read(&self.pool, "look for a group", found).await? {
            return Ok((group, false));
        }
        let make = |client: PooledConnection| async move {
            administer::make(&client, self.fence.epoch(), group, wish).await
        };
        administer(&self.pool, "make a group", make).await
    }

    async fn change_group(
        &self,
        group: &str,
        change: &GroupChange,
    ) -> Result<GroupView, GroupError> {
        let change =
            |client: PooledConnection| async move { change::change(&client, group, change).await };
        administer(&self.pool, "change a group", change).await
    }

    async fn finish_change(&self, group: &str) -> Result<bool, GroupError> {
        let finish = |client: PooledConnection| async move { change::finish(&client, group).await };
        administer(&self.pool, "change a group's partitions", finish).await
    }

    async fn reset_group(
        &self,
        group: &str,
        to: Start,
        partition: Option<u32>,
        drop_letters: bool,
    ) -> Result<GroupView, GroupError> {
        let reset = |client: PooledConnection| async move {
            change::reset(&client, self.fence.epoch(), group, to, partition, drop_letters).await
        };
        administer(&self.pool, "reset a group", reset).await
    }

    async fn remove_group(&self, group: &str) -> Result<bool, StoreError> {
        let remove = |client: PooledConnection| async move { change::remove(&client, group).await };
        let removed = administer(&self.pool, "remove a group", remove).await;
        removed.map_err(step::store_error)
    }

    async fn group(&self, group: &str) -> Result<Option<GroupView>, StoreError> {
        let look = |client: PooledConnection| async move {
            view::group(&client, group).await.map_err(failed_store("look at a group"))
        };
        self.pool.read(look).await
    }

    async fn list_groups(&self) -> Result<Vec<GroupView>, StoreError> {
        let look = |client: PooledConnection| async move {
            view::groups(&client).await.map_err(failed_store("list the groups"))
        };
        self.pool.read(look).await
    }

    async fn renew_member(
        &self,
        member: &MemberReport,
        lease_ms: u64,
    ) -> Result<Renewed, GroupError> {
        let renew = |client: PooledConnection| async move {
            members::renew(&client, member, lease_ms).await
        };
        read(&self.pool, "renew a member's lease", renew).await
    }

    async fn remove_member(&self, group: &str, member: &str) -> Result<(), StoreError> {
        let remove =
            |client: PooledConnection| async move { members::remove(&client, group, member).await };
        let removed = read(&self.pool, "remove a member", remove).await;
        removed.map_err(step::store_error)
    }

    async fn log_page(
        &self,
        after: Position,
        up_to: Position,
        wants: &Arc<Wants>,
    ) -> Result<LogPage, StoreError> {
        let page = |client: PooledConnection| async move {
            pages::page(&client, after, up_to, wants).await.map_err(failed_store("read the log"))
        };
        self.pool.read(page).await
    }

    async fn place_at(&self, start: Start) -> Result<Position, GroupError> {
        let place = |client: PooledConnection| async move {
            pages::place_at(&client, self.fence.epoch(), start).await
        };
        read(&self.pool, "find a place in the log", place).await
    }

    async fn holdings(&self, group: &str, partition: u32) -> Result<Holdings, GroupError> {
        let look = |client: PooledConnection| async move {
            view::holdings(&client, group, partition).await
        };
        read(&self.pool, "look at a partition", look).await
    }

    async fn begin(&self, claim: &Claim) -> Result<Begun, GroupError> {
        work::begin(&self.sessions, claim).await
    }

    async fn note_failures(
        &self,
        at: &Claim,
        failures: &[Failure],
        retry_in_ms: u64,
    ) -> Result<(), GroupError> {
        let note = |client: PooledConnection| async move {
            failures::note(&client, at, failures, retry_in_ms).await
        };
        transact(&self.pool, "note failures", note).await
    }

    async fn skip(&self, at: &Claim, to: Position) -> Result<bool, GroupError> {
        let skip = |client: PooledConnection| async move { failures::skip(&client, at, to).await };
        read(&self.pool, "move a partition", skip).await
    }

    async fn set_trouble(&self, at: &Claim, trouble: Option<&str>) -> Result<(), GroupError> {
        let set = |client: PooledConnection| async move {
            failures::set_trouble(&client, at, trouble).await
        };
        read(&self.pool, "note a partition's trouble", set).await
    }

    async fn letters_due(
        &self,
        group: &str,
        partition: u32,
        limit: PageLimit,
    ) -> Result<Option<Batch>, StoreError> {
        let due = |client: PooledConnection| async move {
            letters::due(&client, group, partition, limit)
                .await
                .map_err(failed_store("read letters"))
        };
        self.pool.read(due).await
    }

    async fn lease(
        &self,
        at: &Claim,
        to: Position,
        lease_ms: u64,
    ) -> Result<Option<u64>, GroupError> {
        let lease = |client: PooledConnection| async move {
            leases::lease(&client, at, to, lease_ms).await
        };
        // Sent twice because an answer was lost, the second finds it taken, and the lease ends by itself.
        read(&self.pool, "lease a partition", lease).await
    }

    async fn extend_lease(&self, lease: &LeaseRef, lease_ms: u64) -> Result<(), GroupError> {
        let extend = |client: PooledConnection| async move {
            leases::extend(&client, lease, lease_ms).await
        };
        read(&self.pool, "extend a lease", extend).await
    }

    async fn ack(
        &self,
        lease: &LeaseRef,
        ending: &Ending,
        statements: Vec<Statements>,
    ) -> Result<Acked, GroupError> {
        if statements.is_empty() {
            let ack =
                |client: PooledConnection| async move { leases::ack(&client, lease, ending).await };
            let done = match ending::is_plain(ending) {
                true => read(&self.pool, "acknowledge a batch", ack).await?,
                false => transact(&self.pool, "acknowledge a batch", ack).await?,
            };
            return Ok(match done {
                Some(next) => Acked::Done { next, offset: None },
                None => Acked::Before,
            });
        }
        let before = self.log_tip().await?;
        let (acked, mark) =
            leases::ack_with(&self.user_sessions, lease, ending, &statements).await?;
        let offset = match mark {
            Some(mark) => {
                let marked = statements::marked(&self.pool, self.grown.clone(), mark, before);
                marked.await.unwrap_or_else(leases::unmarked)
            }
            None => None,
        };
        Ok(leases::is_done(acked, offset))
    }

    async fn nack(
        &self,
        lease: &LeaseRef,
        failures: &[Failure],
        ending: &Ending,
        retry_in_ms: u64,
    ) -> Result<(), GroupError> {
        let nack = |client: PooledConnection| async move {
            leases::nack(&client, lease, failures, ending, retry_in_ms).await
        };
        transact(&self.pool, "give a batch back", nack).await
    }

    async fn letters(
        &self,
        group: &str,
        after: Position,
        limit: PageLimit,
        state: Option<LetterState>,
    ) -> Result<LetterPage, StoreError> {
        let list = |client: PooledConnection| async move {
            let listed = letters::list(&client, group, after, limit, state).await;
            listed.map_err(failed_store("list letters"))
        };
        self.pool.read(list).await
    }

    async fn redrive(&self, group: &str, which: &LetterSelection) -> Result<u64, GroupError> {
        let redrive =
            |client: PooledConnection| async move { letters::redrive(&client, group, which).await };
        administer(&self.pool, "redrive letters", redrive).await
    }

    async fn drop_letters(
        &self,
        group: &str,
        which: &LetterSelection,
        with_parked: bool,
    ) -> Result<u64, GroupError> {
        let drop = |client: PooledConnection| async move {
            letters::give_up(&client, group, which, with_parked).await
        };
        administer(&self.pool, "drop letters", drop).await
    }
}
