//! How changes are captured.

use std::time::Duration;

use serde::Deserialize;
use tidewire_options::{default_of, ms};

use crate::wal::WalLimits;

/// Where the events of rows are to come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// From the write-ahead log where that is possible, else from triggers.
    Auto,
    /// From the write-ahead log.
    Wal,
    /// From triggers.
    Outbox,
}

impl Default for Source {
    fn default() -> Source {
        default_of("capture")
    }
}

/// Which channels besides the nodes' own are notified when the log grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wake {
    /// None.
    Auto,
    /// The channels `cdc_outbox` and `event_channel`, which other systems listen to.
    Always,
}

impl Default for Wake {
    fn default() -> Wake {
        default_of("wake")
    }
}

/// How a node takes part in capture. What is skipped stands elsewhere than in the table of the sequencer.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaptureOptions {
    /// Where the events of rows are to come from.
    #[serde(skip)]
    pub source: Source,
    /// Whom the log's growth is told to. The elected node's word counts.
    #[serde(skip)]
    pub wake: Wake,
    /// By which others know this node.
    #[serde(skip)]
    pub node: String,
    /// Rows that get their offsets in one commit. It holds the lock that all appends need, so that
    /// many make those wait, and few cost more commits.
    pub batch_rows_max: usize,
    /// Bytes of rows in one commit, roughly.
    pub batch_bytes_max: usize,
    /// How often to look for staged rows while there is work.
    #[serde(rename = "poll_ms", deserialize_with = "ms")]
    pub poll: Duration,
    /// How often to look while there is none, whoever says that there is some or does not.
    #[serde(rename = "idle_poll_ms", deserialize_with = "ms")]
    pub idle_poll: Duration,
    /// After so long without work the sequencer sleeps, and the next writer has to wake it.
    #[serde(rename = "sleep_after_ms", deserialize_with = "ms")]
    pub sleep_after: Duration,
    /// How often a node that does not work tries to be the one that does.
    #[serde(rename = "election_poll_ms", deserialize_with = "ms")]
    pub election_poll: Duration,
    /// How often to look at the watched tables for changes of their columns.
    #[serde(rename = "check_ms", deserialize_with = "ms")]
    pub check: Duration,
    /// A row that could not be published so many times is given up.
    pub attempts_max: u32,
    /// The wait before a row's second attempt; it doubles with each, up to five minutes.
    #[serde(rename = "retry_ms", deserialize_with = "ms")]
    pub retry: Duration,
    /// How long it may take to compare a table with the log, while writers of the table wait.
    #[serde(skip, default = "compare_max")]
    pub compare_max: Duration,
    /// What the database may keep of its write-ahead log for us.
    #[serde(skip)]
    pub wal: WalLimits,
}

impl CaptureOptions {
    /// The usual ones.
    pub fn new(node: impl Into<String>) -> CaptureOptions {
        CaptureOptions { node: node.into(), ..default_of("sequencer") }
    }
}

/// So long writers of a table wait without much harm. No setting: whoever follows a table that takes longer is
/// told to read it again, which is always right.
fn compare_max() -> Duration {
    Duration::from_secs(5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_the_default_file_are_what_is_declared_here() {
        let options = CaptureOptions::new("a");
        assert_eq!((options.source, options.wake), (Source::Auto, Wake::Auto));
        assert_eq!(options.poll, Duration::from_millis(2));
        assert_eq!(options.wal.max_bytes, 8 << 30);
    }
}
