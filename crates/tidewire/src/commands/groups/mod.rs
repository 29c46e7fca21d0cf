//! `tidewire groups`: consumer groups of a running server, for operators.
//!
//! - [`show`]: how they are doing; [`dead`]: events that were set aside; the rest, which changes them, is here

mod dead;
mod show;

pub(super) use show::reads;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use serde::Serialize;
use tidewire_client::{Group, GroupSettings, LogPosition};

use super::ask;
use crate::cli::{
    ChangeGroupFlags, CreateGroupFlags, GroupsCommand, RemoveGroupFlags, ResetGroupFlags,
    ResumeGroupFlags,
};

pub(crate) async fn run(command: GroupsCommand) -> anyhow::Result<ExitCode> {
    match command {
        GroupsCommand::List(flags) => show::list(flags).await,
        GroupsCommand::Describe(flags) => show::describe(flags).await,
        GroupsCommand::Lag(flags) => show::lag(flags).await,
        GroupsCommand::Create(flags) => create(flags).await,
        GroupsCommand::Change(flags) => change(flags).await,
        GroupsCommand::Reset(flags) => reset(flags).await,
        GroupsCommand::Resume(flags) => resume(flags).await,
        GroupsCommand::Delete(flags) => remove(flags).await,
        GroupsCommand::Dead(command) => dead::run(command).await,
    }
}

async fn create(flags: CreateGroupFlags) -> anyhow::Result<ExitCode> {
    let group = &flags.group;
    let filtered = !flags.tables.is_empty() || !flags.streams.is_empty();
    let settings = GroupSettings {
        partitions: flags.partitions,
        tables: filtered.then(|| flags.tables.clone()),
        streams: filtered.then(|| flags.streams.clone()),
        start: flags.start.as_deref().map(position).transpose()?,
        max_attempts: flags.max_attempts,
        on_dead: flags.on_dead,
        paused: None,
    };
    let made = super::client(&flags.client)?.put_group(group, &settings).await;
    let (made, new) = made.with_context(|| format!("cannot make the group {group}"))?;
    if flags.json {
        json(&mut io::stdout().lock(), &made)?;
        return Ok(ExitCode::SUCCESS);
    }
    warn_of_stars(&flags.streams);
    let what = if new { "is made" } else { "is there already, and stays as it is" };
    let (parts, reads) = (made.total_partitions, show::reads(&made));
    eprintln!("The group {group} {what}: {parts} partitions; it reads {reads}.");
    Ok(ExitCode::SUCCESS)
}

async fn change(flags: ChangeGroupFlags) -> anyhow::Result<ExitCode> {
    let group = &flags.group;
    let filtered = flags.everything || !flags.tables.is_empty() || !flags.streams.is_empty();
    let settings = GroupSettings {
        partitions: flags.partitions,
        tables: filtered.then(|| flags.tables.clone()),
        streams: filtered.then(|| flags.streams.clone()),
        start: None,
        max_attempts: flags.max_attempts,
        on_dead: flags.on_dead,
        paused: flags.pause.then_some(true),
    };
    let changed = super::client(&flags.client)?.change_group(group, &settings).await;
    let changed = changed.with_context(|| format!("cannot change the group {group}"))?;
    if flags.json {
        json(&mut io::stdout().lock(), &changed)?;
        return Ok(ExitCode::SUCCESS);
    }
    warn_of_stars(&flags.streams);
    eprintln!("{}", told(&changed));
    Ok(ExitCode::SUCCESS)
}

/// In keys' scopes `chat-*` is a pattern; here it is the name of one stream, which hardly anybody means.
fn warn_of_stars(streams: &[String]) {
    for stream in streams.iter().filter(|stream| has_literal_star(stream)) {
        eprintln!(
            "{stream:?} is taken literally: * is a wildcard only where it is a whole segment."
        );
    }
}

fn has_literal_star(pattern: &str) -> bool {
    pattern.split('/').any(|segment| segment.contains('*') && !matches!(segment, "*" | "**"))
}

/// What a person wants to know after a change.
fn told(group: &Group) -> String {
    let name = &group.group;
    match (group.wanted_partitions, &group.stopped) {
        (Some(wanted), _) => format!(
            "The group {name} gets {wanted} partitions instead of {}, when all of them have come to {}.",
            group.total_partitions,
            group.barrier.as_deref().unwrap_or("one place")
        ),
        (None, Some(stopped)) => format!(
            "The group {name} is changed, and is stopped ({}): resume it with `tidewire groups resume {name}`.",
            stopped.code
        ),
        (None, None) => format!("The group {name} is changed."),
    }
}

async fn reset(flags: ResetGroupFlags) -> anyhow::Result<ExitCode> {
    let to = position(&flags.to)?;
    let group = &flags.group;
    let of = match flags.partition {
        Some(partition) => format!("partition {partition} of the group {group}"),
        None => format!("the group {group}"),
    };
    let letters =
        if flags.drop_letters { ", and drops the events that were set aside" } else { "" };
    let place = described(&to);
    let what =
        format!("This sets {of} to {place}{letters}: events between are missed or repeated.");
    if !ask::may(flags.yes, &what)? {
        return Ok(ExitCode::FAILURE);
    }
    let client = super::client(&flags.client)?;
    let reset = client.reset_group(group, &to, flags.partition, flags.drop_letters).await;
    reset.with_context(|| format!("cannot reset {of}"))?;
    eprintln!("Set {of} to {place}.");
    Ok(ExitCode::SUCCESS)
}

async fn resume(flags: ResumeGroupFlags) -> anyhow::Result<ExitCode> {
    let group = &flags.group;
    let resumed = super::client(&flags.client)?.resume_group(group, flags.accept_loss).await;
    let resumed = resumed.with_context(|| format!("cannot resume the group {group}"))?;
    if let Some(stopped) = &resumed.stopped {
        let hint = if stopped.code == "events_lost" { ": say --accept-loss to go on" } else { "" };
        bail!("the group {group} is still stopped ({}): {}{hint}", stopped.code, stopped.text);
    }
    eprintln!("The group {group} is resumed.");
    Ok(ExitCode::SUCCESS)
}

async fn remove(flags: RemoveGroupFlags) -> anyhow::Result<ExitCode> {
    let group = &flags.group;
    let what = format!(
        "This removes the group {group}: its progress, and the events that were set aside."
    );
    if !ask::may(flags.yes, &what)? {
        return Ok(ExitCode::FAILURE);
    }
    let removed = super::client(&flags.client)?.remove_group(group).await;
    removed.with_context(|| format!("cannot remove the group {group}"))?;
    eprintln!("The group {group} is removed.");
    Ok(ExitCode::SUCCESS)
}

/// Reads a position in the log.
fn position(text: &str) -> anyhow::Result<LogPosition> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text {
        "beginning" => return Ok(LogPosition::Beginning),
        "now" => return Ok(LogPosition::Now),
        _ => {}
    }
    if let Some((epoch, position)) = text.split_once('_')
        && digits(epoch)
        && digits(position)
    {
        return Ok(LogPosition::Offset(text.to_owned()));
    }
    if text.split_once('-').is_some_and(|(year, _)| digits(year)) {
        return Ok(LogPosition::Time(text.to_owned()));
    }
    bail!(
        "{text:?} is not a position in the log: give beginning, now, an offset such as 0001_0000000000000042, \
         or a time such as 2026-01-31T08:00:00Z"
    )
}

fn described(position: &LogPosition) -> String {
    match position {
        LogPosition::Beginning => "the beginning of what the log has".to_owned(),
        LogPosition::Now => "the end of the log".to_owned(),
        LogPosition::Offset(offset) => format!("behind {offset}"),
        LogPosition::Time(time) => format!("the first event of {time} or later"),
    }
}

/// One JSON object, on a line.
fn json(out: &mut impl Write, document: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, document).map_err(io::Error::from)?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_within_a_segment_is_literal() {
        for (pattern, literal) in
            [("doc/*", false), ("**", false), ("a/**/b", false), ("chat-*", true), ("a/***", true)]
        {
            assert_eq!(has_literal_star(pattern), literal, "{pattern}");
        }
    }

    #[test]
    fn positions_are_told_apart_by_their_form() {
        let offset = "0001_0000000000000042";
        for (text, expected) in [
            ("beginning", LogPosition::Beginning),
            ("now", LogPosition::Now),
            (offset, LogPosition::Offset(offset.to_owned())),
            ("2026-01-31T08:00:00Z", LogPosition::Time("2026-01-31T08:00:00Z".to_owned())),
        ] {
            assert_eq!(position(text).expect("a position"), expected);
        }
        for bad in ["", "start", "begining", "42", "-1", "1_x", "yesterday-1"] {
            let refused = position(bad).expect_err(bad).to_string();
            assert!(refused.contains("beginning, now"), "{bad}: {refused}");
        }
    }
}
