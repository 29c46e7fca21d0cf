//! Consumer groups in the embedded store, for workers in the server's own process and for leases.
//!
//! - `administer`: making and removing groups
//! - `change`: changing groups that are there
//! - `runtime`: the state of groups in memory
//! - `ending`: how a batch ends
//! - `failures`: what is noted of a partition apart from batches
//! - `leases`: batches leased to workers
//! - `letters`: events that were set aside
//! - `members`: members and their heartbeats
//! - `pages`: stretches of the log, and the positions that starts mean
//! - `sessions`: the transaction of a handler, served on the writer's thread
//! - `view`: groups, partitions and members as their rows tell them
//! - `work`: a partition that a member of this process works on

//!
//! The file has one process, so partitions that somebody works on are a set in memory ([`runtime`]); all else is
//! in the rows, as in PostgreSQL, and changes by steps of the one writer. More partitions give order and
//! isolation here, not speed.
//!
//! - `view`: what is told; `pages`: the log as groups read it; `administer`, `change`, `members`
//! - `work`: a member's hold on a partition; `sessions`: its transaction, on the writer's thread;
//!   `ending`: letters, parked keys, attempts and the advance
//! - `failures`, `leases`, `letters`: the rest of what happens to a partition

mod administer;
mod change;
mod ending;
mod failures;
mod leases;
mod letters;
mod members;
mod pages;
mod runtime;
mod sessions;
mod view;
mod work;

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::Connection;
use tokio::sync::watch;

use super::SqliteStore;
use super::error::{broken, now_ms};
use super::writer::Writer;
use tidewire_store::error::StoreError;
use tidewire_store::groups::{
    Acked, Batch, Begun, Claim, Ending, Failure, GroupChange, GroupError, GroupSettings, GroupView,
    Grouped, Groups, Holdings, LeaseRef, LetterPage, LetterSelection, LetterState, LogPage,
    MemberReport, Renewed, SharedGroups, Start, Wants,
};
use tidewire_store::log::{Log, PageLimit};
use tidewire_store::offset::{Epoch, Position};
use tidewire_store::sql::Statements;

pub(crate) use runtime::GroupRuntime;
use view::PartitionReadiness;
pub(crate) use view::names;
use work::SqliteWork;

impl Grouped for SqliteStore {
    fn groups(self: Arc<Self>) -> SharedGroups {
        self
    }
}

#[async_trait]
impl Groups for SqliteStore {
    fn log_epoch(&self) -> Epoch {
        self.epoch
    }

    async fn log_tip(&self) -> Result<Position, StoreError> {
        self.tip().await
    }

    fn log_grown(&self) -> watch::Receiver<u64> {
        self.grown.clone()
    }

    fn group_signals(&self) -> watch::Receiver<u64> {
        self.runtime.signals()
    }

    async fn put_group(
        &self,
        group: &str,
        wish: &GroupSettings,
    ) -> Result<(GroupView, bool), GroupError> {
        let (epoch, group, wish) = (self.epoch, group.to_owned(), wish.clone());
        let put = move |writer: &mut Writer| administer::put(writer, epoch, &group, &wish);
        let (view, made) = self.exclusively(put).await?;
        if made {
            self.runtime.signal();
        }
        Ok((view, made))
    }

    async fn change_group(
        &self,
        group: &str,
        change: &GroupChange,
    ) -> Result<GroupView, GroupError> {
        let (group, change) = (group.to_owned(), change.clone());
        self.signalling(move |writer| change::change(writer, &group, &change)).await
    }

    async fn finish_change(&self, group: &str) -> Result<bool, GroupError> {
        let group = group.to_owned();
        let finish = move |writer: &mut Writer| change::finish(writer, &group);
        let done = self.exclusively(finish).await?;
        if done {
            // Who looks because of a signal may ask for this again, so only news is told.
            self.runtime.signal();
        }
        Ok(done)
    }

    async fn reset_group(
        &self,
        group: &str,
        to: Start,
        partition: Option<u32>,
        drop_letters: bool,
    ) -> Result<GroupView, GroupError> {
        let (epoch, group) = (self.epoch, group.to_owned());
        self.signalling(move |writer| {
            change::reset(writer, epoch, &group, to, partition, drop_letters)
        })
        .await
    }

    async fn remove_group(&self, group: &str) -> Result<bool, StoreError> {
        let group = group.to_owned();
        self.signalling(move |writer| administer::remove(writer, &group)).await
    }

    async fn group(&self, group: &str) -> Result<Option<GroupView>, StoreError> {
        let group = group.to_owned();
        let look = move |connection: &mut Connection| {
            let snapshot = connection.transaction().map_err(broken("begin a read"))?;
            view::whole(&snapshot, &group).map_err(broken("look for a group"))
        };
        self.readers.run(look).await
    }

    async fn list_groups(&self) -> Result<Vec<GroupView>, StoreError> {
        let look = |connection: &mut Connection| {
            let snapshot = connection.transaction().map_err(broken("begin a read"))?;
            view::all(&snapshot).map_err(broken("list groups"))
        };
        self.readers.run(look).await
    }

    async fn renew_member(
        &self,
        member: &MemberReport,
        lease_ms: u64,
    ) -> Result<Renewed, GroupError> {
        let (member, asked_ms) = (member.clone(), now_ms());
        let renew = move |writer: &mut Writer| members::renew(writer, &member, asked_ms, lease_ms);
        let (renewed, joined) = self.exclusively(renew).await?;
        if joined {
            self.runtime.signal();
        }
        Ok(renewed)
    }

    async fn remove_member(&self, group: &str, member: &str) -> Result<(), StoreError> {
        let (group, member) = (group.to_owned(), member.to_owned());
        self.signalling(move |writer| members::remove(writer, &group, &member)).await
    }

    async fn log_page(
        &self,
        after: Position,
        up_to: Position,
        wants: &Arc<Wants>,
    ) -> Result<LogPage, StoreError> {
        let wants = Arc::clone(wants);
        self.readers.run(move |connection| pages::read(connection, after, up_to, &wants)).await
    }

    async fn place_at(&self, start: Start) -> Result<Position, GroupError> {
        let epoch = self.epoch;
        let look = move |connection: &mut Connection| Ok(pages::place_at(connection, epoch, start));
        self.readers.run(look).await?
    }

    async fn holdings(&self, group: &str, partition: u32) -> Result<Holdings, GroupError> {
        let group = group.to_owned();
        let look = move |connection: &mut Connection| {
            let snapshot = connection.transaction().map_err(broken("begin a read"))?;
            view::holdings(&snapshot, &group, partition).map_err(broken("look at a partition"))
        };
        self.readers.run(look).await?.ok_or(GroupError::NotFound)
    }

    async fn begin(&self, claim: &Claim) -> Result<Begun, GroupError> {
        let Some(held) = self.runtime.hold(&claim.group, claim.partition) else {
            return Ok(Begun::Taken);
        };
        let (group, partition) = (claim.group.clone(), claim.partition);
        let look = move |connection: &mut Connection| {
            Ok(PartitionReadiness::load(connection, &group, partition))
        };
        let readiness = self.readers.run(look).await??;
        Ok(match readiness.filter(|now| now.is_free(now_ms())) {
            None => Begun::Taken,
            Some(now) if !now.is_as(claim) => Begun::Moved,
            Some(_) => {
                let (runtime, queue) = (Arc::clone(&self.runtime), Arc::clone(&self.queue));
                Begun::Work(Box::new(SqliteWork::new(claim.clone(), runtime, queue, held)))
            }
        })
    }

    async fn note_failures(
        &self,
        at: &Claim,
        failures: &[Failure],
        retry_in_ms: u64,
    ) -> Result<(), GroupError> {
        let (runtime, at, failures) = (Arc::clone(&self.runtime), at.clone(), failures.to_vec());
        let note = move |writer: &mut Writer| {
            failures::note(writer, &runtime, &at, &failures, retry_in_ms)
        };
        self.exclusively(note).await
    }

    async fn skip(&self, at: &Claim, to: Position) -> Result<bool, GroupError> {
        let (runtime, at) = (Arc::clone(&self.runtime), at.clone());
        self.exclusively(move |writer| failures::skip(writer, &runtime, &at, to)).await
    }

    async fn set_trouble(&self, at: &Claim, trouble: Option<&str>) -> Result<(), GroupError> {
        let (at, trouble) = (at.clone(), trouble.map(str::to_owned));
        self.signalling(move |writer| failures::set_trouble(writer, &at, trouble.as_deref())).await
    }

    async fn letters_due(
        &self,
        group: &str,
        partition: u32,
        limit: PageLimit,
    ) -> Result<Option<Batch>, StoreError> {
        let group = group.to_owned();
        self.readers.run(move |connection| letters::due(connection, &group, partition, limit)).await
    }

    async fn lease(
        &self,
        at: &Claim,
        to: Position,
        lease_ms: u64,
    ) -> Result<Option<u64>, GroupError> {
        let (runtime, at) = (Arc::clone(&self.runtime), at.clone());
        self.exclusively(move |writer| leases::lease(writer, &runtime, &at, to, lease_ms)).await
    }

    async fn extend_lease(&self, lease: &LeaseRef, lease_ms: u64) -> Result<(), GroupError> {
        let lease = lease.clone();
        self.exclusively(move |writer| leases::extend(writer, &lease, lease_ms)).await
    }

    async fn ack(
        &self,
        lease: &LeaseRef,
        ending: &Ending,
        statements: Vec<Statements>,
    ) -> Result<Acked, GroupError> {
        let (lease, ending) = (lease.clone(), ending.clone());
        let account = statements.first().map(|first| first.actor.account.clone());
        let ack = move |writer: &mut Writer| leases::ack(writer, &lease, &ending, statements);
        let Some(account) = account else { return self.signalling(ack).await };
        let acked = self.exclusively_for(account, ack).await?;
        self.runtime.signal();
        Ok(acked)
    }

    async fn nack(
        &self,
        lease: &LeaseRef,
        failures: &[Failure],
        ending: &Ending,
        retry_in_ms: u64,
    ) -> Result<(), GroupError> {
        let (lease, failures, ending) = (lease.clone(), failures.to_vec(), ending.clone());
        self.signalling(move |writer| leases::nack(writer, &lease, &failures, &ending, retry_in_ms))
            .await
    }

    async fn letters(
        &self,
        group: &str,
        after: Position,
        limit: PageLimit,
        state: Option<LetterState>,
    ) -> Result<LetterPage, StoreError> {
        let group = group.to_owned();
        let look = move |connection: &mut Connection| {
            letters::list(connection, &group, after, limit, state).map_err(broken("list letters"))
        };
        self.readers.run(look).await
    }

    async fn redrive(&self, group: &str, which: &LetterSelection) -> Result<u64, GroupError> {
        let (group, which) = (group.to_owned(), which.clone());
        self.signalling(move |writer| letters::redrive(writer, &group, &which)).await
    }

    async fn drop_letters(
        &self,
        group: &str,
        which: &LetterSelection,
        with_parked: bool,
    ) -> Result<u64, GroupError> {
        let (group, which) = (group.to_owned(), which.clone());
        self.signalling(move |writer| letters::drop_some(writer, &group, &which, with_parked)).await
    }
}

impl SqliteStore {
    /// A step of the writer after which members look again.
    async fn signalling<T, E, F>(&self, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        F: FnOnce(&mut Writer) -> Result<T, E> + Send + 'static,
    {
        let done = self.exclusively(work).await?;
        self.runtime.signal();
        Ok(done)
    }
}
