//! The state of groups: `tidewire groups list`, `describe` and `lag`.

use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use tidewire_client::Group;
use tidewire_client::groups::{Member, Partition};

use super::super::CLEAR;
use super::super::table::{self, Column, escaped, to_the_second};
use super::json;
use crate::cli::{DescribeGroupFlags, LagFlags, ListGroupsFlags};

/// How often the lag is asked for again.
const LAG_PERIOD: Duration = Duration::from_secs(1);

pub(super) async fn list(flags: ListGroupsFlags) -> anyhow::Result<ExitCode> {
    let client = crate::commands::client(&flags.client)?;
    let groups = client.groups().await.context("cannot list the groups")?;
    let mut out = io::stdout().lock();
    if flags.json {
        groups.iter().try_for_each(|group| json(&mut out, group))?;
    } else {
        print_list(&mut out, &groups)?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn describe(flags: DescribeGroupFlags) -> anyhow::Result<ExitCode> {
    let client = crate::commands::client(&flags.client)?;
    let group = client.group(&flags.group).await;
    let group = group.with_context(|| format!("cannot describe the group {}", flags.group))?;
    let mut out = io::stdout().lock();
    if flags.json {
        json(&mut out, &group)?
    } else {
        print_whole(&mut out, &group)?
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn lag(flags: LagFlags) -> anyhow::Result<ExitCode> {
    let client = crate::commands::client(&flags.client)?;
    let redraws = flags.follow && !flags.json && io::stdout().is_terminal();
    let mut ended = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        let group = client.group(&flags.group).await;
        let group = group.with_context(|| format!("cannot tell the lag of {}", flags.group))?;
        let mut out = io::stdout().lock();
        if redraws {
            out.write_all(CLEAR.as_bytes())?;
        }
        if flags.json {
            group.partitions.iter().try_for_each(|partition| json(&mut out, partition))?;
        } else {
            print_lag(&mut out, &group)?;
        }
        out.flush()?;
        drop(out);
        if !flags.follow {
            return Ok(ExitCode::SUCCESS);
        }
        tokio::select! {
            ended = &mut ended => {
                ended.context("cannot wait for Ctrl-C")?;
                return Ok(ExitCode::SUCCESS);
            }
            () = tokio::time::sleep(LAG_PERIOD) => {}
        }
    }
}

/// What a group reads, for people.
pub(in crate::commands) fn reads(group: &Group) -> String {
    let kinds = [("tables", &group.tables), ("streams", &group.streams)];
    let named: Vec<String> = kinds
        .iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(kind, names)| format!("{kind} {}", names.join(", ")))
        .collect();
    if named.is_empty() { "everything".to_owned() } else { named.join("; ") }
}

const LIST: [Column; 8] = [
    Column::left("group"),
    Column::right("partitions"),
    Column::right("members"),
    Column::right("lag"),
    Column::right("age"),
    Column::right("dead"),
    Column::right("parked"),
    Column::left("state"),
];

fn print_list(out: &mut impl Write, groups: &[Group]) -> io::Result<()> {
    let rows: Vec<[String; 8]> = groups
        .iter()
        .map(|group| {
            [
                group.group.clone(),
                group.total_partitions.to_string(),
                group.member_count.to_string(),
                count(group.lag_events),
                age(group.lag_seconds),
                group.dead_letters.to_string(),
                group.parked_letters.to_string(),
                state(group),
            ]
        })
        .collect();
    table::print(out, &LIST, &rows)
}

fn print_whole(out: &mut impl Write, group: &Group) -> io::Result<()> {
    writeln!(out, "group       {}", escaped(&group.group))?;
    writeln!(out, "reads       {}", escaped(&reads(group)))?;
    writeln!(out, "state       {}", escaped(&state(group)))?;
    if let Some(stopped) = group.stopped.as_ref().filter(|stopped| !stopped.text.is_empty()) {
        writeln!(out, "because     {}", escaped(&stopped.text))?;
    }
    if let Some(lost_to) = &group.lost_to {
        writeln!(out, "lost to     {}", escaped(lost_to))?;
    }
    let then = if group.on_dead == "skip" {
        "set aside, and later ones go on"
    } else {
        "set aside, and later ones of the same host and user wait"
    };
    writeln!(out, "failures    tried {} times, then {then}", group.max_attempts)?;
    let (dead, parked) = (group.dead_letters, group.parked_letters);
    writeln!(out, "letters     {dead} dead, {parked} parked")?;
    writeln!(out, "made        {}", to_the_second(&group.created_at))?;
    writeln!(out)?;
    print_lag(out, group)?;
    let troubles = group.partitions.iter().filter_map(|partition| {
        partition.trouble.as_ref().map(|trouble| (partition.partition, trouble))
    });
    for (partition, trouble) in troubles {
        let (code, text) = (escaped(&trouble.code), escaped(&trouble.text));
        writeln!(out, "partition {partition} is stopped: {code}: {text}")?;
    }
    if group.members.is_empty() {
        return writeln!(out, "\nNo member works for it.");
    }
    writeln!(out)?;
    print_members(out, &group.members)
}

const LAG: [Column; 8] = [
    Column::right("partition"),
    Column::left("consumed"),
    Column::right("lag"),
    Column::right("age"),
    Column::left("member"),
    Column::left("moved"),
    Column::right("parked"),
    Column::left("state"),
];

fn print_lag(out: &mut impl Write, group: &Group) -> io::Result<()> {
    let row = |partition: &Partition| {
        [
            partition.partition.to_string(),
            partition.consumed.clone(),
            lag_of(partition),
            age(partition.lag_seconds),
            partition.member.clone().unwrap_or_else(|| "-".to_owned()),
            partition.moved_at.as_deref().map_or_else(|| "-".to_owned(), to_the_second),
            partition.parked_keys.to_string(),
            state_of(partition),
        ]
    };
    let rows: Vec<[String; 8]> = group.partitions.iter().map(row).collect();
    table::print(out, &LAG, &rows)
}

const MEMBERS: [Column; 5] = [
    Column::left("member"),
    Column::left("kind"),
    Column::left("partition"),
    Column::left("since"),
    Column::right("lease"),
];

fn print_members(out: &mut impl Write, members: &[Member]) -> io::Result<()> {
    let row = |member: &Member| {
        [
            member.member.clone(),
            member.kind.clone(),
            member.pinned.map_or_else(|| "any".to_owned(), |pinned| pinned.to_string()),
            to_the_second(&member.joined_at),
            crate::commands::seconds(member.lease_ms.max(0).unsigned_abs()),
        ]
    };
    let rows: Vec<[String; 5]> = members.iter().map(row).collect();
    table::print(out, &MEMBERS, &rows)
}

fn state(group: &Group) -> String {
    match (&group.stopped, group.wanted_partitions) {
        (Some(stopped), _) => stopped.code.clone(),
        (None, Some(wanted)) => format!("changing to {wanted} partitions"),
        (None, None) => "working".to_owned(),
    }
}

fn state_of(partition: &Partition) -> String {
    let wait = |ms: u64| crate::commands::seconds(ms);
    match partition {
        Partition { trouble: Some(trouble), .. } => trouble.code.clone(),
        Partition { retry_in_ms: Some(ms @ 1..), .. } => format!("failed, waits {}", wait(*ms)),
        Partition { lease_ms: Some(ms @ 1..), .. } => {
            format!("leased for {}", wait(ms.unsigned_abs()))
        }
        Partition { redrive: true, .. } => "redriving".to_owned(),
        Partition { failing: 1.., .. } => "failing".to_owned(),
        _ => "-".to_owned(),
    }
}

/// Events where they were counted; else offsets, which are no fewer.
fn lag_of(partition: &Partition) -> String {
    match partition.lag_events {
        Some(events) => events.to_string(),
        None => format!("<= {}", partition.lag_offsets),
    }
}

fn count(events: Option<u64>) -> String {
    events.map_or_else(|| "many".to_owned(), |events| events.to_string())
}

fn age(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.1} s"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn billing() -> Group {
        let partition = |number: u32, more: serde_json::Value| {
            let mut document = json!({
                "partition": number, "consumed": "0001_0000000000000044", "lag_offsets": 12,
                "lag_events": 3, "lag_seconds": 4.26, "member": null, "moved_at": null,
            });
            for (name, value) in more.as_object().expect("an object") {
                document[name] = value.clone();
            }
            document
        };
        let document = json!({
            "group": "billing", "total_partitions": 4, "tables": ["orders"], "streams": ["doc/*"],
            "max_attempts": 3, "on_dead": "park", "created_at": "2026-11-15T12:00:00.000Z",
            "member_count": 1, "dead_letters": 2, "parked_letters": 5, "lag_events": 12,
            "lag_seconds": 4.26,
            "partitions": [
                partition(0, json!({ "member": "worker-1", "moved_at": "2026-11-15T12:00:07.123Z",
                                     "lease_ms": 12_345 })),
                partition(1, json!({ "lag_events": null, "lag_offsets": 200_000 })),
                partition(2, json!({ "trouble": { "code": "transaction_too_large",
                                                  "text": "it has 20000 events" } })),
                partition(3, json!({ "retry_in_ms": 1_500, "parked_keys": 1 })),
            ],
            "members": [{ "member": "worker-1", "kind": "http", "pinned": null, "lease_ms": 3_000,
                          "joined_at": "2026-11-15T11:00:00.000Z", "report": {} }],
        });
        serde_json::from_value(document).expect("a group")
    }

    #[test]
    fn a_group_is_shown_with_what_stands_in_its_way() {
        let mut out = Vec::new();
        print_whole(&mut out, &billing()).expect("memory takes it");
        insta::assert_snapshot!(String::from_utf8(out).expect("text"));
    }

    #[test]
    fn groups_are_listed_with_their_lag() {
        let idle = Group {
            group: "audit".to_owned(),
            lag_events: None,
            stopped: Some(tidewire_client::groups::StopReason {
                code: "paused".to_owned(),
                text: String::new(),
            }),
            ..billing()
        };
        let mut out = Vec::new();
        print_list(&mut out, &[idle, billing()]).expect("memory takes it");
        insta::assert_snapshot!(String::from_utf8(out).expect("text"));
    }
}
