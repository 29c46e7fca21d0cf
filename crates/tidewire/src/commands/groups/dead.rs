//! Dead letters: `tidewire groups dead list`, `redrive` and `drop`.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context as _;
use serde::Deserialize;
use tidewire_client::groups::{Letter, LetterSelection};

use super::super::ask;
use super::super::table::{self, Column, to_the_second};
use super::json;
use crate::cli::{DeadCommand, DropLettersFlags, ListLettersFlags, RedriveFlags, WhichLetters};

pub(super) async fn run(command: DeadCommand) -> anyhow::Result<ExitCode> {
    match command {
        DeadCommand::List(flags) => list(flags).await,
        DeadCommand::Redrive(flags) => redrive(flags).await,
        DeadCommand::Drop(flags) => give_up(flags).await,
    }
}

async fn list(flags: ListLettersFlags) -> anyhow::Result<ExitCode> {
    let client = crate::commands::client(&flags.client)?;
    let group = &flags.group;
    let wanted = flags.limit as usize;
    let mut letters: Vec<Letter> = Vec::new();
    let mut after = flags.after.clone();
    let more = loop {
        let limit = flags.limit.saturating_sub(u32::try_from(letters.len()).unwrap_or(u32::MAX));
        let page = client.letters(group, after.as_deref(), limit, flags.state.as_deref()).await;
        let page = page.with_context(|| format!("cannot list the letters of {group}"))?;
        letters.extend(page.letters);
        match page.next_after {
            Some(next) if letters.len() < wanted => after = Some(next),
            next => break next,
        }
    };
    let mut out = io::stdout().lock();
    if flags.json {
        letters.iter().try_for_each(|letter| json(&mut out, letter))?;
    } else {
        print(&mut out, &letters)?;
    }
    if let Some(next) = more {
        eprintln!("There are more: --after {next}");
    }
    Ok(ExitCode::SUCCESS)
}

async fn redrive(flags: RedriveFlags) -> anyhow::Result<ExitCode> {
    let group = &flags.group;
    let client = crate::commands::client(&flags.client)?;
    let keys = client.redrive_letters(group, &which(flags.which)).await;
    match keys.with_context(|| format!("cannot redrive letters of {group}"))? {
        0 => eprintln!("There is no letter to redrive."),
        1 => eprintln!("The events of 1 host and user are to be handled again, in order."),
        keys => {
            eprintln!("The events of {keys} hosts and users are to be handled again, in order.")
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn give_up(flags: DropLettersFlags) -> anyhow::Result<ExitCode> {
    let group = &flags.group;
    let which = which(flags.which);
    let whose = match &which {
        LetterSelection::All => "all events".to_owned(),
        LetterSelection::Key { host, user } => {
            let named = |name: &Option<String>| name.clone().unwrap_or_default();
            format!("the events of host {:?} and user {:?}", named(host), named(user))
        }
        LetterSelection::Offset(offset) => format!("the event {offset}"),
    };
    let behind = if flags.with_parked { ", and those that wait behind" } else { "" };
    let what = format!("This drops {whose} that {group} could not handle{behind}.");
    if !ask::may(flags.yes, &what)? {
        return Ok(ExitCode::FAILURE);
    }
    let client = crate::commands::client(&flags.client)?;
    let letters = client.drop_letters(group, &which, flags.with_parked).await;
    let letters = letters.with_context(|| format!("cannot drop letters of {group}"))?;
    let s = if letters == 1 { "" } else { "s" };
    eprintln!("{letters} event{s} dropped.");
    Ok(ExitCode::SUCCESS)
}

fn which(flags: WhichLetters) -> LetterSelection {
    match flags {
        WhichLetters { all: true, .. } => LetterSelection::All,
        WhichLetters { offset: Some(offset), .. } => LetterSelection::Offset(offset),
        WhichLetters { host, user, .. } => LetterSelection::Key { host, user },
    }
}

const HEAD: [Column; 9] = [
    Column::left("offset"),
    Column::left("state"),
    Column::left("host"),
    Column::left("user"),
    Column::left("stream"),
    Column::right("partition"),
    Column::right("attempts"),
    Column::left("since"),
    Column::left("error"),
];

/// Characters of an error that are shown: its beginning says what it is.
const ERROR_CHARS_MAX: usize = 80;

fn print(out: &mut impl Write, letters: &[Letter]) -> io::Result<()> {
    let rows: Vec<[String; 9]> = letters.iter().map(row).collect();
    table::print(out, &HEAD, &rows)
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Event {
    offset: String,
    stream_id: String,
    host_id: Option<String>,
    user_id: Option<String>,
}

fn row(letter: &Letter) -> [String; 9] {
    let event: Event = serde_json::from_str(letter.event.get()).unwrap_or_default();
    let or_dash = |text: Option<String>| match text {
        Some(text) if !text.is_empty() => text,
        _ => "-".to_owned(),
    };
    let state =
        if letter.redrive { format!("{}, redriven", letter.state) } else { letter.state.clone() };
    [
        event.offset,
        state,
        or_dash(event.host_id),
        or_dash(event.user_id),
        event.stream_id,
        letter.partition.to_string(),
        letter.attempts.to_string(),
        to_the_second(&letter.died_at),
        or_dash(letter.error.as_deref().map(shortened)),
    ]
}

/// The beginning of an error, on one line.
fn shortened(error: &str) -> String {
    let line = error.split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = line.chars().take(ERROR_CHARS_MAX).collect();
    if short.len() < line.len() { format!("{short}…") } else { short }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn letters_are_listed_with_the_beginning_of_their_error() {
        let letter = |offset: &str, state: &str, error: Option<String>| -> Letter {
            let event = json!({ "offset": offset, "stream_id": "table/orders", "host_id": "acme",
                                "user_id": null, "after_data": { "id": 7 } });
            let document = json!({ "partition": 3, "state": state, "error": error, "attempts": 2,
                "died_at": "2026-11-15T12:00:09.000Z", "redrive": error.is_none(), "event": event });
            serde_json::from_value(document).expect("a letter")
        };
        let letters = [
            letter("0001_0000000000000041", "dead", Some(format!("no such\n{}", "x".repeat(99)))),
            letter("0001_0000000000000042", "parked", None),
        ];
        let mut out = Vec::new();
        print(&mut out, &letters).expect("memory takes it");
        insta::assert_snapshot!(String::from_utf8(out).expect("text"));
    }
}
