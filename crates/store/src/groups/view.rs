//! The types of the groups' interface: settings, views, endings of batches, letters and errors.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::ERROR_BYTES_MAX;
use super::filter::Filter;
use super::key::Key;
use super::page::GroupEvent;
use crate::error::StoreError;
use crate::offset::{Offset, Position};
use crate::sql::SqlError;

/// Where a group begins, or is set to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Start {
    /// With the oldest event that the log still has.
    #[default]
    Beginning,
    /// With the next event that comes.
    Now,
    /// After an event.
    After(Offset),
    /// With the first event made at or after a time, in milliseconds of the Unix epoch.
    Time(i64),
}

/// What becomes of events behind one that could not be handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDead {
    /// Those of the same host and user wait, so that their order holds.
    Park,
    /// They go on.
    Skip,
}

impl OnDead {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            OnDead::Park => "park",
            OnDead::Skip => "skip",
        }
    }

    /// Reads the word.
    pub fn parse(word: &str) -> Option<OnDead> {
        [OnDead::Park, OnDead::Skip].into_iter().find(|choice| choice.as_str() == word)
    }
}

/// What a failure means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Try again, until the attempts are used up.
    Retry,
    /// No attempt will help: a dead letter.
    Dead,
    /// Nobody should go on.
    Stop,
}

impl Verdict {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Retry => "retry",
            Verdict::Dead => "dead",
            Verdict::Stop => "stop",
        }
    }

    /// Reads the word.
    pub fn parse(word: &str) -> Option<Verdict> {
        [Verdict::Retry, Verdict::Dead, Verdict::Stop]
            .into_iter()
            .find(|verdict| verdict.as_str() == word)
    }
}

/// What a group shall be. None: the default for a new group, whatever it has for one that is there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupSettings {
    /// How many partitions; 8.
    pub partitions: Option<u32>,
    /// What it reads; everything.
    pub filter: Option<Filter>,
    /// Where a new group begins.
    pub start: Start,
    /// Runs of a key's events before they are given up; 5.
    pub max_attempts: Option<u32>,
    /// What becomes of those behind them; they are parked.
    pub on_dead: Option<OnDead>,
}

/// What shall be otherwise about a group. None: as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupChange {
    /// How many partitions.
    pub partitions: Option<u32>,
    /// What it reads.
    pub filter: Option<Filter>,
    /// Runs of a key's events before they are given up.
    pub max_attempts: Option<u32>,
    /// What becomes of those behind them.
    pub on_dead: Option<OnDead>,
    /// Whether it stands still. Going on also clears other reasons but lost events.
    pub paused: Option<bool>,
    /// Goes on after events were lost to retention.
    pub accept_loss: bool,
    /// Clears the trouble of all partitions.
    pub clear_trouble: bool,
}

/// A group as it is.
#[derive(Debug, Clone)]
pub struct GroupView {
    /// Its name.
    pub group: String,
    /// Its number of partitions.
    pub total: u32,
    /// The number it is being changed to,
    pub wanted: Option<u32>,
    /// and where every partition must stand for that.
    pub barrier: Option<Position>,
    /// What it reads.
    pub filter: Filter,
    /// Runs of a key's events before they are given up.
    pub max_attempts: u32,
    /// What becomes of those behind them.
    pub on_dead: OnDead,
    /// Why all of it stands still: a code.
    pub stopped: Option<String>,
    /// Up to here retention took events that it had not seen.
    pub lost_to: Position,
    /// When it was made.
    pub created_at_ms: i64,
    /// Its partitions, by number.
    pub partitions: Vec<PartitionView>,
    /// Its living members, in the order of joining.
    pub members: Vec<MemberView>,
    /// Letters of events that could not be handled.
    pub dead: u64,
    /// Letters of events behind them.
    pub parked: u64,
}

impl GroupView {
    /// Without its lists, which may be long.
    pub fn alone(&self) -> GroupView {
        GroupView {
            group: self.group.clone(),
            filter: self.filter.clone(),
            stopped: self.stopped.clone(),
            partitions: Vec::new(),
            members: Vec::new(),
            ..*self
        }
    }
}

/// A partition as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionView {
    /// Its number.
    pub partition: u32,
    /// The first offset that is not consumed.
    pub next: Position,
    /// Counts what happened to it besides its advance.
    pub generation: u64,
    /// Who moved it last, or has it by a lease.
    pub member: Option<String>,
    /// When it moved.
    pub moved_at_ms: Option<i64>,
    /// What is left of its lease; negative once it is over.
    pub lease_ms: Option<i64>,
    /// Its `next` if the lease ends well.
    pub leased_to: Option<Position>,
    /// It is not to be tried before so long.
    pub retry_in_ms: Option<u64>,
    /// Keys with failed attempts.
    pub failing: u32,
    /// Keys that are parked.
    pub parked: u32,
    /// Letters wait to be worked off again.
    pub redrive: bool,
    /// Why it stands still: a code, a colon, and what to do.
    pub trouble: Option<String>,
}

/// How a member works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberKind {
    /// With the library, in transactions of its own.
    Library,
    /// Over HTTP, by leases.
    Http,
}

impl MemberKind {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            MemberKind::Library => "library",
            MemberKind::Http => "http",
        }
    }

    /// Reads the word.
    pub fn parse(word: &str) -> Option<MemberKind> {
        [MemberKind::Library, MemberKind::Http].into_iter().find(|kind| kind.as_str() == word)
    }
}

/// What a member says of itself.
#[derive(Debug, Clone)]
pub struct MemberReport {
    /// Its group.
    pub group: String,
    /// Its name.
    pub member: String,
    /// How it works.
    pub kind: MemberKind,
    /// The one partition it wants, if it wants only one.
    pub pinned: Option<u32>,
    /// What it counted, a JSON object.
    pub counts: Box<RawValue>,
}

/// A living member.
#[derive(Debug, Clone)]
pub struct MemberView {
    /// What it said last.
    pub report: MemberReport,
    /// When it joined.
    pub joined_at_ms: i64,
    /// What is left of its lease.
    pub lease_ms: u64,
}

/// The answer to a sign of life.
#[derive(Debug, Clone)]
pub struct Renewed {
    /// The group, with all who live.
    pub group: GroupView,
    /// When the member joined, as the store has it.
    pub joined_at_ms: i64,
}

/// How a batch ends.
#[derive(Debug, Clone, Default)]
pub struct Ending {
    /// The partition's `next`.
    pub next: Position,
    /// Events that could not be handled.
    pub dead: Vec<Letter>,
    /// Events behind those.
    pub park: Vec<Arc<GroupEvent>>,
    /// Keys that are parked from now on, and from where.
    pub parked_from: Vec<(Key, Position)>,
    /// Letters that were worked off, and are gone.
    pub redriven: Vec<Position>,
    /// The key that is parked no more, if it has no letters left.
    pub free: Option<Key>,
    /// The key whose letters failed again for good: they wait for a person again.
    pub give_up: Option<Key>,
    /// Keys whose failed attempts are forgotten.
    pub settled: Vec<Key>,
}

/// An event that could not be handled.
#[derive(Debug, Clone)]
pub struct Letter {
    /// The event.
    pub event: Arc<GroupEvent>,
    /// Why.
    pub error: String,
    /// How often it was tried.
    pub attempts: u32,
}

/// What is kept of an error's text: its beginning, without zero bytes, which PostgreSQL's texts cannot have.
pub fn kept_error(text: &str) -> String {
    let mut kept = String::with_capacity(text.len().min(ERROR_BYTES_MAX));
    for letter in text.chars() {
        let letter = if letter == '\0' { char::REPLACEMENT_CHARACTER } else { letter };
        if kept.len() + letter.len_utf8() > ERROR_BYTES_MAX {
            break;
        }
        kept.push(letter);
    }
    kept
}

/// Why letters cannot be dropped that are of a batch which is still to be handed out again.
pub fn not_passed() -> GroupError {
    let text = "these letters are of events that their partition has not passed yet, so they would come \
                again; let the group go on, which may mean to resume it, and drop them then";
    GroupError::Invalid(text.to_owned())
}

/// A failed run of a key's events.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Whose.
    pub key: Key,
    /// The first of them.
    pub first: Position,
    /// What it means.
    pub verdict: Verdict,
    /// What happened.
    pub error: String,
}

/// A lease, by what its token says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRef {
    /// The group.
    pub group: String,
    /// The partition.
    pub partition: u32,
    /// The generation that the lease was given.
    pub generation: u64,
}

/// What an ack did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acked {
    /// The partition moved.
    Done {
        /// Its `next`.
        next: Position,
        /// A place in the log by which what the statements changed is there, if there were any.
        offset: Option<Position>,
    },
    /// The same ack came before. Nothing was done again.
    Before,
}

/// What a letter is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LetterState {
    /// It could not be handled.
    Dead,
    /// It waits behind one that could not.
    Parked,
}

impl LetterState {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            LetterState::Dead => "dead",
            LetterState::Parked => "parked",
        }
    }

    /// Reads the word.
    pub fn parse(word: &str) -> Option<LetterState> {
        [LetterState::Dead, LetterState::Parked].into_iter().find(|state| state.as_str() == word)
    }
}

/// A letter as it lies there.
#[derive(Debug, Clone)]
pub struct LetterView {
    /// The event, why, and how often. Of parked ones the text is empty.
    pub letter: Letter,
    /// Its partition.
    pub partition: u32,
    /// What it is.
    pub state: LetterState,
    /// Since when.
    pub died_at_ms: i64,
    /// Its key is to be worked off again.
    pub redrive: bool,
}

/// Some letters in order.
#[derive(Debug, Clone, Default)]
pub struct LetterPage {
    /// As many as fit.
    pub letters: Vec<LetterView>,
    /// Whether there are more after them, by the word of the statement that read them.
    pub more: bool,
}

/// Which letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LetterSelection {
    /// All of the group's.
    All,
    /// Those of one host and user.
    Key(Key),
    /// One event's.
    Offset(Position),
}

/// Why something did not happen to a group.
#[derive(Debug, Clone, thiserror::Error)]
pub enum GroupError {
    /// There is no such group, or no such partition of it.
    #[error("there is no such group, or no such partition of it")]
    NotFound,
    /// It is there, with other settings; the text says which.
    #[error("{0}")]
    Differs(String),
    /// What was asked makes no sense; the text says why.
    #[error("{0}")]
    Invalid(String),
    /// It stands still, and the text says what to do.
    #[error("{code}: {text}")]
    Stopped {
        /// For programs.
        code: String,
        /// For people.
        text: String,
    },
    /// Somebody else has the partition since.
    #[error("the lease is lost: another worker has taken the partition, or it was reset")]
    Fenced,
    /// The partition is not as it was.
    #[error("the partition moved meanwhile")]
    Moved,
    /// The number of partitions is being changed; later it will go.
    #[error("the number of partitions is being changed, or the group is busy; try again")]
    Changing,
    /// More of something than there may be.
    #[error("there are {max} already, which is the limit {limit}")]
    TooMany {
        /// The limit's name.
        limit: &'static str,
        /// Its value.
        max: u64,
    },
    /// The handler's SQL ended the transaction, so its effects and the advance are torn apart.
    #[error(
        "the handler's SQL ended the batch's transaction (COMMIT or ROLLBACK): remove it, the batch \
         commits by itself"
    )]
    EndedByHandler,
    /// It passes by itself: a lost connection, a deadlock.
    #[error("{0}")]
    Transient(String),
    /// The role may not; the text says what to grant.
    #[error("{0}")]
    Rights(String),
    /// A statement that was sent along failed.
    #[error(transparent)]
    Sql(#[from] SqlError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl GroupError {
    /// Whether the same may succeed later without anyone changing anything.
    pub fn temporary(&self) -> bool {
        match self {
            GroupError::Transient(_) | GroupError::Changing | GroupError::Moved => true,
            GroupError::Store(error) | GroupError::Sql(SqlError::Store(error)) => error.temporary(),
            _ => false,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A group that gives keys so many attempts.
    pub(in crate::groups) fn group(max_attempts: u32) -> GroupView {
        GroupView {
            group: "g".to_owned(),
            total: 1,
            wanted: None,
            barrier: None,
            filter: Filter::default(),
            max_attempts,
            on_dead: OnDead::Park,
            stopped: None,
            lost_to: Position::START,
            created_at_ms: 0,
            partitions: Vec::new(),
            members: Vec::new(),
            dead: 0,
            parked: 0,
        }
    }

    /// A partition that nothing happened to.
    pub(in crate::groups) fn partition() -> PartitionView {
        PartitionView {
            partition: 0,
            next: Position::new(1),
            generation: 1,
            member: None,
            moved_at_ms: None,
            lease_ms: None,
            leased_to: None,
            retry_in_ms: None,
            failing: 0,
            parked: 0,
            redrive: false,
            trouble: None,
        }
    }

    #[test]
    fn an_error_is_cut_between_letters_and_has_no_zero_bytes() {
        assert_eq!(kept_error("a\0b"), "a\u{fffd}b");
        assert_eq!(kept_error(&"x".repeat(ERROR_BYTES_MAX)).len(), ERROR_BYTES_MAX);
        let kept = kept_error(&"\u{20ac}".repeat(1_000_000));
        assert_eq!(kept.len(), ERROR_BYTES_MAX - ERROR_BYTES_MAX % 3);
        assert!(kept.chars().all(|letter| letter == '\u{20ac}'));
    }
}
