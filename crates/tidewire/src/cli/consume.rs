//! The flags of `tidewire consume`.

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
    /// The group; it must exist: create it with `tidewire groups create`
    #[arg(long, required_unless_present = "config")]
    pub(crate) group: Option<String>,
    /// Run this command for each host and user of a batch; its events are lines of JSON on the
    /// standard input. The command and its arguments come last
    ///
    /// Exit code 0: done. 65: these events can never be handled. 78: stop, so that tidewire consume
    /// ends too. Any other, or a signal: try again. The standard error is kept as the reason. The command
    /// gets TIDEWIRE_GROUP, TIDEWIRE_PARTITION, TIDEWIRE_HOST_ID, TIDEWIRE_USER_ID and
    /// TIDEWIRE_ATTEMPT in its environment.
    #[arg(long, value_name = "COMMAND", num_args = 1.., allow_hyphen_values = true)]
    pub(crate) exec: Vec<OsString>,
    /// Post each batch to this URL, signed as Standard Webhooks has it, with TIDEWIRE_WEBHOOK_SECRET
    ///
    /// 2xx: done, except what the body lists under failed. 410 or 422: these events can never be
    /// handled. Anything else: the request is sent again, up to 5 times while the batch is held.
    #[arg(long, value_name = "URL")]
    pub(crate) webhook: Option<String>,
    /// A db-event-consumer.yml with the group and its settings; flags override the file
    ///
    /// It reads groupId, batchSize, partitionId, waitPeriodMs, handlerTimeoutMs, retryMs and retryMaxMs (30 s at
    /// most). If totalPartitions, tables or streams differ from the group's, this command ends. The library
    /// reads all other keys; set what they say of a group with `tidewire groups`.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// A batch ends with the first whole transaction at or past so many events [default: 100]
    #[arg(long, value_name = "EVENTS")]
    pub(crate) batch_size: Option<u32>,
    /// Work on one partition only
    #[arg(long, value_name = "NUMBER")]
    pub(crate) partition: Option<u32>,
    /// How long a batch is held without a sign of life: 30s, 5m; renewed during the work [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) lease: Option<Duration>,
    /// How long the command may run, or the URL may take, each time: 90s, 15m [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
    /// How many batches to work on at once, each of another partition
    #[arg(long, value_name = "BATCHES", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=CONCURRENCY_MAX))]
    pub(crate) concurrency: u16,
    /// The worker's name in the group [default: the machine's name and the process id]
    #[arg(long, value_name = "NAME")]
    pub(crate) member: Option<String>,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// A group has no more partitions, so no more batches can run at once.
const CONCURRENCY_MAX: i64 = 1_024;
