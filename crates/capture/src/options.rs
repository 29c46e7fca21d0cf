//! How changes are captured.

use std::time::Duration;

use crate::wal::WalLimits;

/// Where the events of rows are to come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// From the write-ahead log where that is possible, else from triggers.
    Auto,
    /// From the write-ahead log.
    Wal,
    /// From triggers.
    Outbox,
}

impl Source {
    /// Reads the word that configurations have for it.
    pub fn parse(word: &str) -> Option<Source> {
        match word {
            "auto" => Some(Source::Auto),
            "wal" => Some(Source::Wal),
            "outbox" => Some(Source::Outbox),
            _ => None,
        }
    }
}

/// Which channels besides the nodes' own are notified when the log grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// None.
    Auto,
    /// The channels `cdc_outbox` and `event_channel`, which other systems listen to.
    Always,
}

impl Wake {
    /// Reads the word that configurations have for it.
    pub fn parse(word: &str) -> Option<Wake> {
        match word {
            "auto" => Some(Wake::Auto),
            "always" => Some(Wake::Always),
            _ => None,
        }
    }
}

/// How a node takes part in capture.
#[derive(Debug, Clone)]
pub struct CaptureOptions {
    /// Where the events of rows are to come from.
    pub source: Source,
    /// Whom the log's growth is told to. The elected node's word counts.
    pub wake: Wake,
    /// By which others know this node.
    pub node: String,
    /// Rows that get their offsets in one commit. It holds the lock that all appends need, so that
    /// many make those wait, and few cost more commits.
    pub batch_rows_max: usize,
    /// Bytes of rows in one commit, roughly.
    pub batch_bytes_max: usize,
    /// How often to look for staged rows while there is work.
    pub poll: Duration,
    /// How often to look while there is none, whoever says that there is some or does not.
    pub idle_poll: Duration,
    /// After so long without work the sequencer sleeps, and the next writer has to wake it.
    pub sleep_after: Duration,
    /// How often a node that does not work tries to be the one that does.
    pub election_poll: Duration,
    /// How often to look at the watched tables for changes of their columns.
    pub check: Duration,
    /// A row that could not be published so many times is given up.
    pub attempts_max: u32,
    /// The wait before a row's second attempt; it doubles with each, up to five minutes.
    pub retry: Duration,
    /// How long it may take to compare a table with the log, while writers of the table wait.
    pub compare_max: Duration,
    /// What the database may keep of its write-ahead log for us.
    pub wal: WalLimits,
}

impl CaptureOptions {
    /// So long writers of a table wait without much harm. No setting: whoever follows a table that takes longer is
    /// told to read it again, which is always right.
    pub const COMPARE_MAX: Duration = Duration::from_secs(5);

    /// The usual ones.
    pub fn new(node: impl Into<String>) -> CaptureOptions {
        CaptureOptions {
            source: Source::Auto,
            wake: Wake::Auto,
            node: node.into(),
            batch_rows_max: 1_000,
            batch_bytes_max: 32 << 20,
            poll: Duration::from_millis(2),
            idle_poll: Duration::from_millis(100),
            sleep_after: Duration::from_millis(10),
            election_poll: Duration::from_millis(500),
            check: Duration::from_secs(1),
            attempts_max: 10,
            retry: Duration::from_secs(1),
            compare_max: CaptureOptions::COMPARE_MAX,
            wal: WalLimits::default(),
        }
    }
}
