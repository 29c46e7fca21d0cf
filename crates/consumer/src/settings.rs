//! The settings of a member, from the builder or from a file.

use std::fmt;
use std::time::Duration;

use tidewire_store::groups::{
    Filter, GROUP_NAME_BYTES_MAX, OnDead, PARTITIONS_MAX, Start, is_group_name,
};

/// What can be set about a member. The fields are those of [`Builder`](crate::Builder).
#[derive(Clone, PartialEq)]
pub struct Settings {
    /// The group's name.
    pub group: String,
    /// A batch ends with the first whole transaction at or past so many events.
    pub batch_size: usize,
    /// How many partitions; none: as the group has, 8 for a new one.
    pub partitions: Option<u32>,
    /// The one partition to work on.
    pub pinned: Option<u32>,
    /// Watched tables to read.
    pub tables: Vec<String>,
    /// Patterns of other streams to read.
    pub streams: Vec<String>,
    /// Where a new group begins.
    pub start: Start,
    /// Runs of a key's events before they are set aside.
    pub max_attempts: Option<u32>,
    /// What becomes of events behind those.
    pub on_dead: Option<OnDead>,
    /// The wait before the first repetition,
    pub retry: Duration,
    /// and the longest.
    pub retry_max: Duration,
    /// How long the handler may take for one host and user.
    pub handler_timeout: Duration,
    /// How often to look for work when no notification arrives.
    pub wait_period: Duration,
    /// Events of one partition that a source transaction may have, as a batch is in memory whole,
    pub transaction_events_max: usize,
    /// and their bytes.
    pub transaction_bytes_max: usize,
    /// Connections for work.
    pub connections: usize,
    /// The member's name.
    pub member: Option<String>,
    /// Whether signals stop it.
    pub signals: bool,
    /// The database, where the file says it: for the program, to give to
    /// [`Consumer::builder`](crate::Consumer::builder).
    pub database: Option<String>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            group: String::new(),
            batch_size: 100,
            partitions: None,
            pinned: None,
            tables: Vec::new(),
            streams: Vec::new(),
            start: Start::Beginning,
            max_attempts: None,
            on_dead: None,
            retry: Duration::from_millis(100),
            retry_max: Duration::from_secs(30),
            handler_timeout: Duration::from_secs(60),
            wait_period: Duration::from_secs(10),
            transaction_events_max: 10_000,
            transaction_bytes_max: 64 << 20,
            connections: 8,
            member: None,
            signals: true,
            database: None,
        }
    }
}

impl fmt::Debug for Settings {
    /// Says of the database only whether there is one: its URL may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("group", &self.group)
            .field("batch_size", &self.batch_size)
            .field("partitions", &self.partitions)
            .field("pinned", &self.pinned)
            .field("tables", &self.tables)
            .field("streams", &self.streams)
            .field("start", &self.start)
            .field("max_attempts", &self.max_attempts)
            .field("on_dead", &self.on_dead)
            .field("retry", &self.retry)
            .field("retry_max", &self.retry_max)
            .field("handler_timeout", &self.handler_timeout)
            .field("wait_period", &self.wait_period)
            .field("transaction_events_max", &self.transaction_events_max)
            .field("transaction_bytes_max", &self.transaction_bytes_max)
            .field("connections", &self.connections)
            .field("member", &self.member)
            .field("signals", &self.signals)
            .field("database", &self.database.as_ref().map(|_| "(hidden)"))
            .finish()
    }
}

/// What is wrong with a file, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SettingsError(pub(crate) String);

/// The largest batch that can be asked for. Larger ones gain nothing, and hold locks for longer.
const BATCH_SIZE_MAX: usize = 10_000;
/// Sessions for work that a member may have.
const CONNECTIONS_MAX: usize = 1_000;
/// Attempts that a key may be given.
const ATTEMPTS_MAX: u32 = 1_000_000;
/// Longer waits are mistakes of the unit.
const WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

impl Settings {
    /// Reads the YAML of a `db-event-consumer.yml`.
    ///
    /// | key | default | |
    /// |---|---|---|
    /// | `groupId` | | the group's name |
    /// | `batchSize` | 100 | a batch ends with the first whole transaction at or past so many events |
    /// | `totalPartitions` | 8 | how many partitions the group has |
    /// | `partitionId` | | works on this one only; default or `null`: shares all of them with the other members |
    /// | `waitPeriodMs` | 10000 | how often to look for work when no notification arrives |
    /// | `topicId` | 1 | the whole log; there is no other |
    /// | `database` | | the URL of the database, for the program to give to `Consumer::builder` |
    /// | `tables`, `streams` | everything | names of tables, patterns of other streams |
    /// | `start` | `beginning` | `beginning`, `now`, an offset, or a time such as `2026-01-31T12:00:00Z` |
    /// | `maxAttempts`, `onDead` | 5, `park` | runs before events are set aside; `park` or `skip` those behind them |
    /// | `retryMs`, `retryMaxMs` | 100, 30000 | the wait before the first repetition, and the longest |
    /// | `handlerTimeoutMs` | 60000 | for one host and user |
    /// | `transactionEventsMax`, `transactionBytesMax` | 10000, 67108864 | the largest source transaction |
    pub fn from_yaml(text: &str) -> Result<Settings, SettingsError> {
        crate::yaml::read(text)
    }

    /// What is wrong with them, if anything.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !is_group_name(&self.group) {
            return Err(format!(
                "a group has a name of 1 to {GROUP_NAME_BYTES_MAX} bytes, without slashes and control \
                 characters, not {:?}: set it with `group` (`groupId` in a file)",
                self.group
            ));
        }
        if self.member.as_deref().is_some_and(|member| !is_group_name(member)) {
            return Err(format!(
                "a member has a name of 1 to {GROUP_NAME_BYTES_MAX} bytes, without slashes and control \
                 characters"
            ));
        }
        let counts = [
            ("batchSize", self.batch_size, BATCH_SIZE_MAX),
            ("connections", self.connections, CONNECTIONS_MAX),
            ("transactionEventsMax", self.transaction_events_max, usize::MAX),
            ("transactionBytesMax", self.transaction_bytes_max, usize::MAX),
            ("totalPartitions", self.partitions.unwrap_or(1) as usize, PARTITIONS_MAX as usize),
            ("maxAttempts", self.max_attempts.unwrap_or(1) as usize, ATTEMPTS_MAX as usize),
        ];
        for (name, value, max) in counts {
            if !(1..=max).contains(&value) {
                return Err(format!("{name} is 1 to {max}, not {value}"));
            }
        }
        if let (Some(pinned), Some(total)) = (self.pinned, self.partitions)
            && pinned >= total
        {
            return Err(format!(
                "partitionId is 0 to {}, for there are {total} partitions, not {pinned}",
                total - 1
            ));
        }
        let waits = [
            ("retryMs", self.retry),
            ("retryMaxMs", self.retry_max),
            ("handlerTimeoutMs", self.handler_timeout),
            ("waitPeriodMs", self.wait_period),
        ];
        for (name, wait) in waits {
            if wait.is_zero() || wait > WAIT_MAX {
                return Err(format!(
                    "{name} is 1 to {}, not {}",
                    WAIT_MAX.as_millis(),
                    wait.as_millis()
                ));
            }
        }
        self.filter().map_or(Ok(()), |filter| filter.check())
    }

    /// What the group reads, if that is said.
    pub(crate) fn filter(&self) -> Option<Filter> {
        let filter = Filter { tables: self.tables.clone(), streams: self.streams.clone() };
        (!filter.is_all()).then_some(filter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_make_no_sense_are_refused_by_name() {
        let good = Settings { group: "g".to_owned(), ..Settings::default() };
        assert_eq!(good.check(), Ok(()));
        for (bad, name) in [
            (Settings { group: "a/b".to_owned(), ..good.clone() }, "a group has a name"),
            (Settings { batch_size: 0, ..good.clone() }, "batchSize"),
            (Settings { batch_size: 10_001, ..good.clone() }, "batchSize"),
            (Settings { partitions: Some(1_025), ..good.clone() }, "totalPartitions"),
            (Settings { partitions: Some(8), pinned: Some(8), ..good.clone() }, "partitionId"),
            (Settings { max_attempts: Some(0), ..good.clone() }, "maxAttempts"),
            (Settings { wait_period: Duration::ZERO, ..good.clone() }, "waitPeriodMs"),
            (Settings { streams: vec!["table/t".to_owned()], ..good.clone() }, "under tables"),
        ] {
            let wrong = bad.check().expect_err(name);
            assert!(wrong.contains(name), "{wrong}");
        }
    }
}
