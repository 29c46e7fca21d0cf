//! Consumer groups: workers that share the log, each event's effects once.
//!
//! ```text
//!  log  ──┬──┬──┬──┬──┬──┬──┬──┬──┬──┬──▶        host ─ SHA-256 ─▶ partition
//!          a  b  a  c  c  a  b  c  a  b
//!          0  1  0  1  1  0  1  1  0  1          a: 0   b, c: 1
//!                   │           │
//!   partition 0 ────▶ next      │                a batch: from `next` on, one partition's events, by
//!   partition 1 ────────────────▶ next           key (host, user), whole source transactions
//! ```
//!
//! - **The row of `consumer_offsets` is the truth about a partition and its lock.** Who works on it holds
//!   the row's lock in the transaction that has the handler's writes and the advance, or a lease that is
//!   written in the row. All else that changes about a partition raises its `generation`, and what a
//!   member remembers is good for one.
//! - **Events are read outside of that transaction**, once for all partitions of a member ([`Pages`]).
//!   That is right because events never change, reads are prefixes, and `next` is compared under the lock.
//! - **A batch ends at a boundary**: a place where no source transaction is open. So the events of one
//!   transaction that a partition has are never torn ([`assemble`]).
//! - **A key that cannot be handled is parked**: the failing transaction's events of that key become dead
//!   letters, those behind them are copied beside them, and the rest of the partition goes on.
//!
//! Two drive groups: the library, in transactions of its own, and the server, by leases. What both decide is decided
//! here, from what is known ([`holdings`]) and without a clock: whether a partition is handed out and of what
//! ([`decide`]), what is in a batch ([`assemble`]) and how much ([`limits`]), when a key has failed for good, and what
//! follows from that ([`ending`]).
//!
//! The other parts: [`key`] and [`filter`] say what is whose; [`page`] and [`Pages`] are the log as it is read;
//! [`share`] says who works on what; [`retry`] when to try again; [`view`] is what is told and asked; [`work`] is an
//! open transaction that holds a partition.
//!
//! - `letters`: letters of one key that are worked off together
//! - `pages`: pages of the log that were read, shared by the partitions of a member

pub mod assemble;
pub mod decide;
pub mod ending;
pub mod filter;
pub mod holdings;
pub mod key;
mod letters;
pub mod limits;
pub mod page;
mod pages;
pub mod retry;
pub mod share;
pub mod view;
pub mod work;

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;

use crate::error::StoreError;
use crate::log::PageLimit;
use crate::offset::{Epoch, Position};
use crate::sql::Statements;

pub use assemble::{Assembled, Assembler, Batch, KeyEvents, TooLarge};
pub use decide::{Decision, Source, decide};
pub use ending::DeadEvents;
pub use filter::Filter;
pub use holdings::{Claim, Holdings};
pub use key::{Key, partition_of};
pub use letters::LetterBatch;
pub use limits::Limits;
pub use page::{Entry, GroupEvent, LogPage, Wants};
pub use pages::Pages;
pub use retry::retry_in;
pub use share::{LiveMember, shares};
pub use view::not_passed;
pub use view::{
    Acked, Ending, Failure, GroupChange, GroupError, GroupSettings, GroupView, LeaseRef, Letter,
    LetterPage, LetterSelection, LetterState, LetterView, MemberKind, MemberReport, MemberView,
    OnDead, PartitionView, Renewed, Start, Verdict, kept_error,
};
pub use work::{Begun, Work};

/// The code of the error of a transaction that was open for longer than SQLite's other writers wait. It is the
/// whole batch's: which statement or end finds out says nothing about a key.
pub const HELD_TOO_LONG: &str = "sql_held_too_long";
/// Partitions that a group may have.
pub const PARTITIONS_MAX: u32 = 1_024;
/// Bytes of a group's name, and of a member's.
pub const GROUP_NAME_BYTES_MAX: usize = 255;
/// Bytes that are kept of an error's text.
pub const ERROR_BYTES_MAX: usize = 8_192;
/// Offsets that one page of the log spans at most.
pub const PAGE_OFFSETS: u64 = 1_000;
/// Bytes of events that one page holds; a single larger event still makes a page.
pub const PAGE_BYTES_MAX: usize = 8 << 20;
/// Bytes of events that one answer of [`Groups::letters`] holds; a single larger letter still makes one.
pub const LETTERS_BYTES_MAX: usize = 64 << 20;
/// Savepoints that a transaction is given: a PostgreSQL session keeps 64 of them in memory, and past that
/// every snapshot of the server pays.
pub const SAVEPOINTS_MAX: usize = 60;
/// Letters of events that could not be handled, and parked ones, that a group may have. Past the first the
/// group stops: a bad deploy must not turn the log into letters.
pub const DEAD_LETTERS_MAX: u64 = 1_000;
/// See [`DEAD_LETTERS_MAX`].
pub const PARKED_LETTERS_MAX: u64 = 100_000;
/// Groups that a store may have.
pub const GROUPS_MAX: u64 = 100;
/// Living members of each kind that a group may have.
pub const MEMBERS_MAX: u64 = 1_000;

/// The groups of a store, shared by all who work in them.
pub type SharedGroups = Arc<dyn Groups>;

/// What has groups: every store with a database. One without says that there are none.
pub trait Grouped {
    /// Its groups.
    fn groups(self: Arc<Self>) -> SharedGroups;
}

/// Whether a text can be the name of a group or a member.
pub fn is_group_name(name: &str) -> bool {
    (1..=GROUP_NAME_BYTES_MAX).contains(&name.len())
        && !name.contains('/')
        && !name.chars().any(char::is_control)
}

/// The groups of consumers. See the [module documentation](self) for what holds.
#[async_trait]
pub trait Groups: Send + Sync + Debug {
    /// Which history the log holds.
    fn log_epoch(&self) -> Epoch;

    /// The highest position that is durable.
    async fn log_tip(&self) -> Result<Position, StoreError>;

    /// Changes whenever the log may have grown. A hint: who waits for it also looks now and then.
    fn log_grown(&self) -> watch::Receiver<u64>;

    /// Changes whenever someone may have joined, left, let go of a partition, or changed a group. A hint.
    fn group_signals(&self) -> watch::Receiver<u64>;

    /// Makes a group, and says whether it was made. The same wish again is fine; one with another number of
    /// partitions or filter than the group has is [`GroupError::Differs`]. Rows of `consumer_offsets` that
    /// are there before the group are taken over if they are exactly its partitions.
    async fn put_group(
        &self,
        group: &str,
        wish: &GroupSettings,
    ) -> Result<(GroupView, bool), GroupError>;

    /// Changes a group, under the locks of all its partitions. Another number of partitions is only begun:
    /// nothing at or past a barrier is handed out until all stand there.
    async fn change_group(
        &self,
        group: &str,
        change: &GroupChange,
    ) -> Result<GroupView, GroupError>;

    /// Ends a change of the number of partitions, if all stand at the barrier. Says whether it did.
    async fn finish_change(&self, group: &str) -> Result<bool, GroupError>;

    /// Sets a group, or one partition, to another place. Leases end, failed attempts are forgotten, parked
    /// keys too if their letters are dropped.
    async fn reset_group(
        &self,
        group: &str,
        to: Start,
        partition: Option<u32>,
        drop_letters: bool,
    ) -> Result<GroupView, GroupError>;

    /// Removes a group with everything that is known of it. Says whether it was there.
    async fn remove_group(&self, group: &str) -> Result<bool, StoreError>;

    /// A group, with its partitions, living members and numbers of letters.
    async fn group(&self, group: &str) -> Result<Option<GroupView>, StoreError>;

    /// All groups, by name.
    async fn list_groups(&self) -> Result<Vec<GroupView>, StoreError>;

    /// A member says that it lives, for so long; a new one joins. Members long dead are removed.
    async fn renew_member(
        &self,
        member: &MemberReport,
        lease_ms: u64,
    ) -> Result<Renewed, GroupError>;

    /// A member leaves.
    async fn remove_member(&self, group: &str, member: &str) -> Result<(), StoreError>;

    /// Reads the log in `(after, up_to]`: each event's header, and whole events of the wanted partitions that
    /// the filter takes. May end early, at [`PAGE_BYTES_MAX`]; `scanned_to` says where.
    async fn log_page(
        &self,
        after: Position,
        up_to: Position,
        wants: &Arc<Wants>,
    ) -> Result<LogPage, StoreError>;

    /// The `next` that a start means now.
    async fn place_at(&self, start: Start) -> Result<Position, GroupError>;

    /// What must be known to work on a partition.
    async fn holdings(&self, group: &str, partition: u32) -> Result<Holdings, GroupError>;

    /// Takes a partition, for a transaction.
    async fn begin(&self, claim: &Claim) -> Result<Begun, GroupError>;

    /// Notes failed runs of keys, and when the partition may be tried again. [`GroupError::Moved`] if
    /// someone else was there.
    async fn note_failures(
        &self,
        at: &Claim,
        failures: &[Failure],
        retry_in_ms: u64,
    ) -> Result<(), GroupError>;

    /// Moves a partition that has no events of its own up to a place. Says whether it did.
    async fn skip(&self, at: &Claim, to: Position) -> Result<bool, GroupError>;

    /// Says why a partition stands still, or that it does not.
    async fn set_trouble(&self, at: &Claim, trouble: Option<&str>) -> Result<(), GroupError>;

    /// The first letters of one key that is to be worked off again. A batch without events means that the key
    /// has no letters left, and is to be freed. Letters whose events the partition has not passed yet make
    /// their key wait until it has.
    async fn letters_due(
        &self,
        group: &str,
        partition: u32,
        limit: PageLimit,
    ) -> Result<Option<Batch>, StoreError>;

    /// Leases a partition up to a place, if it is free and as it was claimed. Returns the generation that
    /// the lease is known by. Who has it calls itself a member for as long.
    async fn lease(
        &self,
        at: &Claim,
        to: Position,
        lease_ms: u64,
    ) -> Result<Option<u64>, GroupError>;

    /// Makes a lease end later.
    async fn extend_lease(&self, lease: &LeaseRef, lease_ms: u64) -> Result<(), GroupError>;

    /// Ends a lease by an advance, with statements that commit with it or not at all. Past its deadline a
    /// lease holds for as long as nobody took the partition.
    async fn ack(
        &self,
        lease: &LeaseRef,
        ending: &Ending,
        statements: Vec<Statements>,
    ) -> Result<Acked, GroupError>;

    /// Ends a lease without an advance: with failures to note, and what follows where events failed for good
    /// ([`Ending::of_failures`]), whose `next` is not looked at.
    async fn nack(
        &self,
        lease: &LeaseRef,
        failures: &[Failure],
        ending: &Ending,
        retry_in_ms: u64,
    ) -> Result<(), GroupError>;

    /// Letters after an offset, in order. They are held in memory: their bytes are
    /// [`LETTERS_BYTES_MAX`] at most.
    async fn letters(
        &self,
        group: &str,
        after: Position,
        limit: PageLimit,
        state: Option<LetterState>,
    ) -> Result<LetterPage, StoreError>;

    /// Marks letters to be worked off again, in order, with those behind them. Returns how many keys.
    async fn redrive(&self, group: &str, which: &LetterSelection) -> Result<u64, GroupError>;

    /// Gives up letters. What was parked behind them is given up too, or goes on. Letters whose events the
    /// partition has not passed yet stay; if there are only such, it is refused. Returns how many letters.
    async fn drop_letters(
        &self,
        group: &str,
        which: &LetterSelection,
        with_parked: bool,
    ) -> Result<u64, GroupError>;
}
