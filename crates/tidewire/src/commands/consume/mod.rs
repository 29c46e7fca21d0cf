//! `tidewire consume`: works for a consumer group, with whatever program or web service does the work.
//!
//! - [`exec`]: a process for each host and user of a batch; [`webhook`]: a signed request for each batch
//!
//! The group must be there. What is done may be repeated: when we die, or fall silent for longer than the
//! lease, the batch in hand is someone else's.
//!
//! - `process`: one run of a command
//! - `program`: whether there is a program to run, before anyone counts on it

mod exec;
mod process;
mod program;
mod webhook;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures_util::future::join_all;
use tidewire_client::consume::{Outcome, Worker, WorkerError, WorkerOptions, WorkerStats};
use tidewire_client::{Claimed, Client};
use tidewire_consumer::Settings;
use tokio::sync::watch;

use crate::cli::ConsumeFlags;
use crate::server::signals::Signals;
use exec::Exec;
use webhook::Webhook;

/// How long the work of one host and user may take, or of one request, unless it is said.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The longest that the server holds a question for work: `groups.wait_ms_max` as it comes.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The longest wait before a batch comes again that the server takes: `groups.retry_ms_max` as it comes.
const RETRY_MAX: Duration = Duration::from_secs(30);

/// What does the work.
enum Handler {
    Exec(Exec),
    Webhook(Box<Webhook>),
}

impl Handler {
    async fn handle(&self, claimed: &Claimed) -> Outcome {
        match self {
            Handler::Exec(exec) => exec.handle(claimed).await,
            Handler::Webhook(webhook) => webhook.handle(claimed).await,
        }
    }
}

pub(crate) async fn run(flags: ConsumeFlags) -> anyhow::Result<ExitCode> {
    let settings = settings(&flags)?;
    let options = options(&flags, settings.as_ref());
    let timeout = flags.timeout.or(settings.as_ref().map(|settings| settings.handler_timeout));
    let timeout = timeout.unwrap_or(TIMEOUT);
    let handler = match &flags.webhook {
        Some(url) => Handler::Webhook(Box::new(Webhook::new(url, timeout)?)),
        None => Handler::Exec(Exec::new(&flags.exec, timeout)?),
    };
    let client = super::client(&flags.client)?;
    let mut signals = Signals::listen()?;
    agree(&client, &options.group, settings.as_ref()).await?;

    let (stop, stopping) = watch::channel(false);
    let workers = (0..flags.concurrency).map(|number| {
        let mut options = options.clone();
        if flags.concurrency > 1 {
            options.member = options.member.map(|member| format!("{member}-{number}"));
        }
        let worker = Worker::new(client.clone(), options);
        let (handler, stop, stopping) = (&handler, &stop, stopping.clone());
        async move {
            let ended = worker.run(stopping, async |claimed| handler.handle(claimed).await).await;
            // If one must not go on, none does.
            stop.send_replace(true);
            ended
        }
    });
    let mut work = std::pin::pin!(join_all(workers));
    let ended = tokio::select! {
        ended = &mut work => ended,
        signal = signals.next(|| {}) => {
            eprintln!("tidewire: {signal}: finishing the current batch; a second signal ends at once");
            stop.send_replace(true);
            tokio::select! {
                ended = &mut work => ended,
                // What runs is dropped with the work, and the batch comes again when its lease is over.
                signal = signals.next(|| {}) => return Ok(ExitCode::from(signal.exit_code())),
            }
        }
    };
    report(&options.group, ended)
}

/// What was done, or why it did not go on.
fn report(group: &str, ended: Vec<Result<WorkerStats, WorkerError>>) -> anyhow::Result<ExitCode> {
    let mut total = WorkerStats::default();
    for stats in ended {
        let stats = stats.with_context(|| format!("cannot work for the group {group}"))?;
        total.batches += stats.batches;
        total.events += stats.events;
        total.failed += stats.failed;
        total.lost += stats.lost;
    }
    let WorkerStats { batches, events, failed, lost } = total;
    eprintln!(
        "tidewire: {events} events in {batches} batches for {group}; {failed} batches failed, {lost} were lost"
    );
    Ok(ExitCode::SUCCESS)
}

/// What the file says, if there is one.
fn settings(flags: &ConsumeFlags) -> anyhow::Result<Option<Settings>> {
    let Some(file) = &flags.config else { return Ok(None) };
    let shown = file.display();
    let text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read {shown} (--config)"))?;
    Settings::from_yaml(&text).map(Some).with_context(|| format!("cannot use {shown} (--config)"))
}

/// What was said, before what the file says, before what is usual.
fn options(flags: &ConsumeFlags, settings: Option<&Settings>) -> WorkerOptions {
    let group = flags.group.clone().or(settings.map(|settings| settings.group.clone()));
    let mut options = WorkerOptions::new(group.unwrap_or_default());
    options.member = Some(flags.member.clone().unwrap_or_else(own_name));
    if let Some(settings) = settings {
        options.batch_size = u32::try_from(settings.batch_size).ok();
        options.partition = settings.pinned;
        options.wait = settings.wait_period.min(WAIT_MAX);
        options.retry = Some((settings.retry.min(RETRY_MAX), settings.retry_max.min(RETRY_MAX)));
        if let (Some(member), None) = (&settings.member, &flags.member) {
            options.member = Some(member.clone());
        }
    }
    options.batch_size = flags.batch_size.or(options.batch_size);
    options.partition = flags.partition.or(options.partition);
    options.lease = flags.lease.unwrap_or(options.lease);
    options
}

/// The machine's name and the process's number: what an operator looks for.
fn own_name() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{host}-{}", std::process::id())
}

/// A file that says another number of partitions than the group has, or that it reads something else, is of another
/// group, or was not followed by a change: to work as if nothing was wrong would leave events to nobody. Whoever may
/// not ask is not told.
async fn agree(client: &Client, group: &str, settings: Option<&Settings>) -> anyhow::Result<()> {
    let Some(settings) = settings else { return Ok(()) };
    let reads = !settings.tables.is_empty() || !settings.streams.is_empty();
    if settings.partitions.is_none() && !reads {
        return Ok(());
    }
    let Ok(known) = client.group(group).await else { return Ok(()) };
    if let Some(wanted) = settings.partitions
        && known.total_partitions != wanted
    {
        bail!(
            "the group {group} has {} partitions, and totalPartitions says {wanted}: correct the file, or \
             `tidewire groups change {group} --partitions {wanted}`",
            known.total_partitions
        );
    }
    if reads && !(same(&settings.tables, &known.tables) && same(&settings.streams, &known.streams))
    {
        bail!(
            "the group {group} reads {}, but the file names other tables or streams: correct the file, or \
             `tidewire groups change {group}` with --tables and --streams",
            super::groups::reads(&known)
        );
    }
    Ok(())
}

/// Whether two lists name the same.
fn same(one: &[String], other: &[String]) -> bool {
    let set = |names: &[String]| names.iter().cloned().collect::<BTreeSet<String>>();
    set(one) == set(other)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn flags(words: &[&str]) -> ConsumeFlags {
        let cli = Cli::try_parse_from(["tidewire", "consume"].iter().chain(words));
        match cli.expect("well formed").command {
            Command::Consume(flags) => flags,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_said_goes_before_what_the_file_says() {
        let settings = Settings {
            group: "of-the-file".to_owned(),
            batch_size: 7,
            pinned: Some(3),
            wait_period: Duration::from_secs(500),
            retry: Duration::from_secs(40),
            retry_max: Duration::from_secs(600),
            ..Settings::default()
        };
        let of_file = options(&flags(&["--config", "f", "--exec", "cat"]), Some(&settings));
        assert_eq!(of_file.group, "of-the-file");
        assert_eq!((of_file.batch_size, of_file.partition), (Some(7), Some(3)));
        assert_eq!(of_file.wait, WAIT_MAX);
        assert_eq!(of_file.retry, Some((RETRY_MAX, RETRY_MAX)), "more would be refused");
        let words = ["--group", "g", "--batch-size", "9", "--partition", "0", "--lease", "5s"];
        let said = flags(&[&words[..], &["--config", "f", "--exec", "cat"]].concat());
        let said = options(&said, Some(&settings));
        assert_eq!(said.group, "g");
        assert_eq!((said.batch_size, said.partition), (Some(9), Some(0)));
        assert_eq!(said.lease, Duration::from_secs(5));
    }

    #[test]
    fn the_command_and_its_arguments_come_last() {
        let flags = flags(&["--group", "g", "--exec", "sh", "-c", "exit 65", "--url", "x"]);
        assert_eq!(flags.exec, ["sh", "-c", "exit 65", "--url", "x"]);
        assert_ne!(flags.client.url, "x");
    }

    #[test]
    fn someone_must_do_the_work_and_only_one() {
        use clap::error::ErrorKind::{ArgumentConflict, MissingRequiredArgument};
        for (words, kind) in [
            (&["--group", "g"][..], MissingRequiredArgument),
            (&["--exec", "cat"], MissingRequiredArgument),
            (&["--group", "g", "--webhook", "http://h", "--exec", "cat"], ArgumentConflict),
        ] {
            let words = ["tidewire", "consume"].iter().chain(words);
            assert_eq!(Cli::try_parse_from(words).expect_err("refused").kind(), kind);
        }
    }
}
