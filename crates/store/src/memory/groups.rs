//! Consumer groups, which this store does not have: their work is transactions of SQL. None can be
//! made, so whoever asks for one is told that it is not there.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;

use super::MemoryStore;
use super::tables::without;
use crate::error::StoreError;
use crate::groups::{
    Acked, Batch, Begun, Claim, Ending, Failure, GroupChange, GroupError, GroupSettings, GroupView,
    Grouped, Groups, Holdings, LeaseRef, LetterPage, LetterSelection, LetterState, LogPage,
    MemberReport, Renewed, SharedGroups, Start, Wants,
};
use crate::log::{Log, PageLimit};
use crate::offset::{Epoch, Position};
use crate::sql::Statements;

/// No groups.
#[derive(Debug)]
struct NoGroups {
    store: Arc<MemoryStore>,
    /// Says nothing: nobody comes and nobody goes.
    signals: watch::Sender<u64>,
}

impl Grouped for MemoryStore {
    fn groups(self: Arc<Self>) -> SharedGroups {
        Arc::new(NoGroups { store: self, signals: watch::Sender::new(0) })
    }
}

#[async_trait]
impl Groups for NoGroups {
    fn log_epoch(&self) -> Epoch {
        self.store.epoch()
    }

    async fn log_tip(&self) -> Result<Position, StoreError> {
        self.store.tip().await
    }

    fn log_grown(&self) -> watch::Receiver<u64> {
        self.store.grown()
    }

    fn group_signals(&self) -> watch::Receiver<u64> {
        self.signals.subscribe()
    }

    async fn put_group(
        &self,
        _group: &str,
        _wish: &GroupSettings,
    ) -> Result<(GroupView, bool), GroupError> {
        Err(without("consumer groups").into())
    }

    async fn change_group(
        &self,
        _group: &str,
        _change: &GroupChange,
    ) -> Result<GroupView, GroupError> {
        Err(GroupError::NotFound)
    }

    async fn finish_change(&self, _group: &str) -> Result<bool, GroupError> {
        Err(GroupError::NotFound)
    }

    async fn reset_group(
        &self,
        _group: &str,
        _to: Start,
        _partition: Option<u32>,
        _drop_letters: bool,
    ) -> Result<GroupView, GroupError> {
        Err(GroupError::NotFound)
    }

    async fn remove_group(&self, _group: &str) -> Result<bool, StoreError> {
        Ok(false)
    }

    async fn group(&self, _group: &str) -> Result<Option<GroupView>, StoreError> {
        Ok(None)
    }

    async fn list_groups(&self) -> Result<Vec<GroupView>, StoreError> {
        Ok(Vec::new())
    }

    async fn renew_member(
        &self,
        _member: &MemberReport,
        _lease_ms: u64,
    ) -> Result<Renewed, GroupError> {
        Err(GroupError::NotFound)
    }

    async fn remove_member(&self, _group: &str, _member: &str) -> Result<(), StoreError> {
        Ok(())
    }

    async fn log_page(
        &self,
        _after: Position,
        _up_to: Position,
        _wants: &Arc<Wants>,
    ) -> Result<LogPage, StoreError> {
        Err(without("consumer groups"))
    }

    async fn place_at(&self, _start: Start) -> Result<Position, GroupError> {
        Err(without("consumer groups").into())
    }

    async fn holdings(&self, _group: &str, _partition: u32) -> Result<Holdings, GroupError> {
        Err(GroupError::NotFound)
    }

    async fn begin(&self, _claim: &Claim) -> Result<Begun, GroupError> {
        Err(GroupError::NotFound)
    }

    async fn note_failures(
        &self,
        _at: &Claim,
        _failures: &[Failure],
        _retry_in_ms: u64,
    ) -> Result<(), GroupError> {
        Err(GroupError::NotFound)
    }

    async fn skip(&self, _at: &Claim, _to: Position) -> Result<bool, GroupError> {
        Err(GroupError::NotFound)
    }

    async fn set_trouble(&self, _at: &Claim, _trouble: Option<&str>) -> Result<(), GroupError> {
        Err(GroupError::NotFound)
    }

    async fn letters_due(
        &self,
        _group: &str,
        _partition: u32,
        _limit: PageLimit,
    ) -> Result<Option<Batch>, StoreError> {
        Ok(None)
    }

    async fn lease(
        &self,
        _at: &Claim,
        _to: Position,
        _lease_ms: u64,
    ) -> Result<Option<u64>, GroupError> {
        Err(GroupError::NotFound)
    }

    async fn extend_lease(&self, _lease: &LeaseRef, _lease_ms: u64) -> Result<(), GroupError> {
        Err(GroupError::NotFound)
    }

    async fn ack(
        &self,
        _lease: &LeaseRef,
        _ending: &Ending,
        _statements: Vec<Statements>,
    ) -> Result<Acked, GroupError> {
        Err(GroupError::NotFound)
    }

    async fn nack(
        &self,
        _lease: &LeaseRef,
        _failures: &[Failure],
        _ending: &Ending,
        _retry_in_ms: u64,
    ) -> Result<(), GroupError> {
        Err(GroupError::NotFound)
    }

    async fn letters(
        &self,
        _group: &str,
        _after: Position,
        _limit: PageLimit,
        _state: Option<LetterState>,
    ) -> Result<LetterPage, StoreError> {
        Ok(LetterPage { letters: Vec::new(), more: false })
    }

    async fn redrive(&self, _group: &str, _which: &LetterSelection) -> Result<u64, GroupError> {
        Err(GroupError::NotFound)
    }

    async fn drop_letters(
        &self,
        _group: &str,
        _which: &LetterSelection,
        _with_parked: bool,
    ) -> Result<u64, GroupError> {
        Err(GroupError::NotFound)
    }
}
