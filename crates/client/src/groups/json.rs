//! The JSON of groups, their partitions, members, batches and letters.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// A group as it is. Lists of groups have neither partitions nor members.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Its name.
    pub group: String,
    /// Its number of partitions.
    pub total_partitions: u32,
    /// The number it is being changed to,
    #[serde(default)]
    pub wanted_partitions: Option<u32>,
    /// and where every partition must stand for that.
    #[serde(default)]
    pub barrier: Option<String>,
    /// The watched tables that it reads.
    #[serde(default)]
    pub tables: Vec<String>,
    /// Patterns of the streams that it reads. Everything, if both are empty.
    #[serde(default)]
    pub streams: Vec<String>,
    /// Failed runs of a key's events before they are given up.
    #[serde(default)]
    pub max_attempts: u32,
    /// What becomes of events behind those: `park` or `skip`.
    #[serde(default)]
    pub on_dead: String,
    /// Why all of it stands still.
    #[serde(default)]
    pub stopped: Option<StopReason>,
    /// Up to here retention took events that it had not seen.
    #[serde(default)]
    pub lost_to: Option<String>,
    /// When it was made.
    #[serde(default)]
    pub created_at: String,
    /// How many members live.
    #[serde(default)]
    pub member_count: u64,
    /// Events that could not be handled.
    #[serde(default)]
    pub dead_letters: u64,
    /// Events that wait behind them.
    #[serde(default)]
    pub parked_letters: u64,
    /// Events that are not consumed; none if there are too many to count.
    #[serde(default)]
    pub lag_events: Option<u64>,
    /// How old the oldest of them is.
    #[serde(default)]
    pub lag_seconds: Option<f64>,
    /// Its partitions, by number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<Partition>,
    /// Its living members.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<Member>,
}

/// Why something stands still.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopReason {
    /// For programs.
    pub code: String,
    /// For people.
    #[serde(default)]
    pub text: String,
}

/// A partition as it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Partition {
    /// Its number.
    pub partition: u32,
    /// Everything that it has up to this offset is done.
    pub consumed: String,
    /// Offsets of the log behind that, of all partitions.
    #[serde(default)]
    pub lag_offsets: u64,
    /// Those of its own; none if there are too many to count.
    #[serde(default)]
    pub lag_events: Option<u64>,
    /// How old the oldest of them is.
    #[serde(default)]
    pub lag_seconds: Option<f64>,
    /// Counts what happened to it besides its progress.
    #[serde(default)]
    pub generation: u64,
    /// Who had it last,
    #[serde(default)]
    pub member: Option<String>,
    /// and when it moved.
    #[serde(default)]
    pub moved_at: Option<String>,
    /// What is left of a lease; negative once it is over.
    #[serde(default)]
    pub lease_ms: Option<i64>,
    /// Where the lease leads.
    #[serde(default)]
    pub leased_to: Option<String>,
    /// It is not handed out before so long.
    #[serde(default)]
    pub retry_in_ms: Option<u64>,
    /// Keys with failed attempts.
    #[serde(default)]
    pub failing: u64,
    /// Keys that wait behind a dead letter.
    #[serde(default)]
    pub parked_keys: u64,
    /// Whether letters are being worked off again.
    #[serde(default)]
    pub redrive: bool,
    /// Why it stands still.
    #[serde(default)]
    pub trouble: Option<StopReason>,
}

/// A living member.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// Its name.
    pub member: String,
    /// How it works: `library` or `http`.
    #[serde(default)]
    pub kind: String,
    /// The one partition it wants.
    #[serde(default)]
    pub pinned: Option<u32>,
    /// When it joined.
    #[serde(default)]
    pub joined_at: String,
    /// What is left of its lease.
    #[serde(default)]
    pub lease_ms: i64,
    /// What it counted.
    #[serde(default)]
    pub report: Value,
}

/// A place in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogPosition {
    /// The oldest event that the log still has.
    Beginning,
    /// The next event that comes.
    Now,
    /// After an offset.
    Offset(String),
    /// The first event made at a time or later.
    Time(String),
}

/// What a group shall be, or what shall be otherwise about it. What is none is as usual, or stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct GroupSettings {
    /// How many partitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitions: Option<u32>,
    /// The watched tables that it reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tables: Option<Vec<String>>,
    /// Patterns of the streams that it reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<Vec<String>>,
    /// Where a new group begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<LogPosition>,
    /// Failed runs of a key's events before they are given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// What becomes of events behind those: `park` or `skip`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_dead: Option<String>,
    /// Of a group that is there: whether it stands still.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
}

/// What a member wants.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ClaimRequest {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// The batch ends with the first transaction that brings it to so many events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_size: Option<u32>,
    /// How long it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    /// How long to wait for work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// Only of this partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<u32>,
}

/// A batch, and the right to work on it.
#[derive(Debug, Clone, Deserialize)]
pub struct Claimed {
    /// Proves that the batch is ours.
    pub token: String,
    /// The group.
    pub group: String,
    /// The partition.
    pub partition: u32,
    /// For how long.
    pub lease_ms: u64,
    /// The batch is what the partition has after this offset,
    pub from: String,
    /// and up to this one.
    pub to: String,
    /// These are letters that are worked off again.
    #[serde(default)]
    pub redrive: bool,
    /// The events, by key.
    pub groups: Vec<KeyEvents>,
}

/// The events of one host and user, in order.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct KeyEvents {
    /// The host.
    pub host_id: Option<String>,
    /// The user.
    pub user_id: Option<String>,
    /// How often these events failed before.
    #[serde(default)]
    pub attempt: u32,
    /// The events, with every byte as the server sent it.
    pub events: Vec<Box<RawValue>>,
}

/// A key whose events could not be handled.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The host.
    #[serde(default)]
    pub host_id: Option<String>,
    /// The user.
    #[serde(default)]
    pub user_id: Option<String>,
    /// The event that is to blame, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<String>,
    /// Why.
    #[serde(default)]
    pub error: String,
    /// `retry` or `dead`; the former if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
}

/// SQL to run in the transaction that says that a batch is done.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Statement {
    /// The statement.
    pub sql: String,
    /// What stands for `$1` and so on.
    pub params: Vec<Value>,
}

/// What an ack did.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Acked {
    /// Everything that the partition has up to this offset is done.
    #[serde(default)]
    pub consumed: Option<String>,
    /// Where in the log what the statements changed is.
    #[serde(default)]
    pub offset: Option<String>,
    /// The same ack came before, and nothing was done again.
    #[serde(default)]
    pub repeated: bool,
}

/// An event that was set aside.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Letter {
    /// Its partition.
    pub partition: u32,
    /// `dead` or `parked`.
    pub state: String,
    /// Why.
    #[serde(default)]
    pub error: Option<String>,
    /// How often it was tried.
    #[serde(default)]
    pub attempts: u32,
    /// Since when it lies there.
    #[serde(default)]
    pub died_at: String,
    /// It is to be worked off again.
    #[serde(default)]
    pub redrive: bool,
    /// The event, as the server sent it.
    pub event: Box<RawValue>,
}

/// Letters of a group.
#[derive(Debug, Clone, Deserialize)]
pub struct Letters {
    /// In the order of the log.
    pub letters: Vec<Letter>,
    /// After which offset there are more, if there are.
    #[serde(default)]
    pub next_after: Option<String>,
}

/// Which letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LetterSelection {
    /// All of the group's.
    All,
    /// Those of one host and user.
    Key {
        /// The host, if it has one.
        host: Option<String>,
        /// The user, if it has one.
        user: Option<String>,
    },
    /// The one of this event.
    Offset(String),
}

impl LetterSelection {
    pub(super) fn document(&self) -> Value {
        match self {
            LetterSelection::All => json!({ "all": true }),
            LetterSelection::Key { host, user } => json!({ "host_id": host, "user_id": user }),
            LetterSelection::Offset(offset) => json!({ "offset": offset }),
        }
    }
}

impl Claimed {
    /// How many events it has.
    pub fn events(&self) -> usize {
        self.groups.iter().map(|group| group.events.len()).sum()
    }

    /// Its keys, as failed: all of them, or as many as one nack names.
    pub fn all_failed(&self, error: &str, verdict: Option<&str>) -> Vec<Failed> {
        self.groups
            .iter()
            .take(super::FAILED_MAX)
            .map(|group| group.failed(error, verdict))
            .collect()
    }
}

impl KeyEvents {
    /// As failed.
    pub fn failed(&self, error: &str, verdict: Option<&str>) -> Failed {
        Failed {
            host_id: self.host_id.clone(),
            user_id: self.user_id.clone(),
            offset: None,
            error: error.to_owned(),
            verdict: verdict.map(ToOwned::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_written_as_the_protocol_has_them() {
        for (place, written) in [
            (LogPosition::Beginning, json!("beginning")),
            (LogPosition::Now, json!("now")),
            (LogPosition::Offset("0001_1".to_owned()), json!({ "offset": "0001_1" })),
            (LogPosition::Time("2026-01-31".to_owned()), json!({ "time": "2026-01-31" })),
        ] {
            assert_eq!(json!(place), written);
        }
    }
}
