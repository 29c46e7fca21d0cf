//! `tidewire consume`, as it is written.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};

use tidewire_options::duration;

use super::ClientFlags;

/// Which group to work for, and what does the work.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("handler").required(true).args(["exec", "webhook"]))]
pub(crate) struct ConsumeFlags {
    /// The group, which must be there: `tidewire groups create` makes one
    #[arg(long, required_unless_present = "config")]
    pub(crate) group: Option<String>,
    /// Run this for each host and user of a batch, with its events as lines of JSON on the standard
    /// input. It and its arguments come last
    ///
    /// Exit code 0: done. 65: these events can never be handled. 78: nobody should go on, so this command
    /// ends too. Any other, or a signal: try again. What it writes to its standard error is kept as the
    /// reason. It finds TIDEWIRE_GROUP, TIDEWIRE_PARTITION, TIDEWIRE_HOST_ID, TIDEWIRE_USER_ID and
    /// TIDEWIRE_ATTEMPT in its environment.
    #[arg(long, value_name = "COMMAND", num_args = 1.., allow_hyphen_values = true)]
    pub(crate) exec: Vec<OsString>,
    /// Post each batch to this URL, signed as Standard Webhooks has it, with TIDEWIRE_WEBHOOK_SECRET
    ///
    /// 2xx: done, or what the body lists under failed is not. 410 or 422: these events can never be
    /// handled. Anything else is tried again, 5 times in hand.
    #[arg(long, value_name = "URL")]
    pub(crate) webhook: Option<String>,
    /// A db-event-consumer.yml with the group and how to work; flags go before what it says
    ///
    /// groupId, batchSize, partitionId, waitPeriodMs, handlerTimeoutMs, retryMs and retryMaxMs (30 s at most) count.
    /// If totalPartitions, or tables and streams, are not as the group has them, this command ends. All other
    /// keys are for the library: what they say of a group is said to `tidewire groups`.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// A batch ends with the first whole transaction at or past so many events [default: 100]
    #[arg(long, value_name = "EVENTS")]
    pub(crate) batch_size: Option<u32>,
    /// Work on one partition only
    #[arg(long, value_name = "NUMBER")]
    pub(crate) partition: Option<u32>,
    /// How long others wait for us if we fall silent: 30s, 5m; renewed while we work [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) lease: Option<Duration>,
    /// How long the command may run, or the URL may take, each time: 90s, 15m [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
    /// Batches at once, of different partitions
    #[arg(long, value_name = "BATCHES", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=CONCURRENCY_MAX))]
    pub(crate) concurrency: u16,
    /// The name by which the group knows us [default: the machine's, and the process's number]
    #[arg(long, value_name = "NAME")]
    pub(crate) member: Option<String>,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// A group has no more partitions, so more batches at once there are not.
const CONCURRENCY_MAX: i64 = 1_024;
