//! `tidewire publish`: appends a message, and creates the stream if it does not exist.

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use tidewire_client::Client;
use tidewire_client::message::{JSON, is_json};

use crate::cli::PublishFlags;

const TEXT: &str = "text/plain";

/// The data that was given, or what the standard input holds.
pub(crate) fn read(data: &str) -> anyhow::Result<Vec<u8>> {
    if data != "-" {
        return Ok(data.as_bytes().to_owned());
    }
    if std::io::stdin().is_terminal() {
        eprintln!("tidewire: reading the message from the keyboard; end it with Ctrl-D");
    }
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes).context("cannot read the standard input")?;
    Ok(bytes)
}

/// Appends, and prints where the stream continues.
pub(crate) async fn run(flags: PublishFlags, data: Vec<u8>) -> anyhow::Result<ExitCode> {
    ensure!(!data.is_empty(), "there is nothing to publish: the data is empty");
    let client = super::client(&flags.client)?;
    let asked = if flags.json { Some(JSON.to_owned()) } else { flags.content_type };
    let content_type = prepare(&client, &flags.stream, asked, &data).await;
    let content_type =
        content_type.with_context(|| format!("cannot publish to {}", flags.stream))?;
    let appended = client
        .append(&flags.stream, &content_type, data, None)
        .await
        .with_context(|| format!("cannot publish to {} as {content_type}", flags.stream))?;
    writeln!(std::io::stdout().lock(), "{}", appended.next_offset)?;
    Ok(ExitCode::SUCCESS)
}

/// Makes sure of the stream; the type to append with.
async fn prepare(
    client: &Client,
    stream: &str,
    asked: Option<String>,
    data: &[u8],
) -> anyhow::Result<String> {
    match client.describe(stream).await {
        Ok(found) => {
            let why = if asked.is_some() { "it is to be" } else { "the stream holds" };
            let content_type = asked.unwrap_or(found.content_type);
            check(&content_type, data).with_context(|| format!("{why} {content_type}"))?;
            Ok(content_type)
        }
        Err(error) if error.status() == Some(404) => {
            let content_type = asked.unwrap_or_else(|| guess(data).to_owned());
            // Before it is made: a stream that was made by mistake keeps its type.
            check(&content_type, data)
                .context("the stream does not exist, and could not be created")?;
            client.create(stream, &content_type).await?;
            eprintln!("tidewire: created the stream {stream} ({content_type})");
            if content_type == TEXT && is_broken_json(data) {
                eprintln!(
                    "note: the message looks like JSON but is not valid; --json refuses that"
                );
            }
            Ok(content_type)
        }
        Err(error) => Err(error.into()),
    }
}

/// Refuses what is not JSON and shall be.
fn check(content_type: &str, data: &[u8]) -> anyhow::Result<()> {
    if !is_json(content_type) {
        return Ok(());
    }
    let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(data) else { return Ok(()) };
    // The usual reason: the shell has taken the quotes away.
    let advice = match data.trim_ascii_start().first() {
        Some(b'{' | b'[') => "in a shell, put it in single quotes: '{\"text\": \"hi\"}'",
        _ => "a text in JSON has double quotes, which a shell wants in single ones: '\"hi\"'",
    };
    bail!("the message is not JSON: {error}; {advice}")
}

/// Whether it looks as if it were meant for JSON.
fn is_broken_json(data: &[u8]) -> bool {
    is_structured(data) && guess(data) != JSON
}

fn is_structured(data: &[u8]) -> bool {
    matches!(data.trim_ascii_start().first(), Some(b'{' | b'['))
}

/// Only what cannot be meant as plain text counts as JSON: `42` may be either.
fn guess(data: &[u8]) -> &'static str {
    let valid = || serde_json::from_slice::<serde::de::IgnoredAny>(data).is_ok();
    if is_structured(data) && valid() { JSON } else { TEXT }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_json_is_refused_where_json_is_wanted() {
        let refused = |data: &[u8]| check(JSON, data).expect_err("no JSON").to_string();
        assert!(
            refused(b"{text: hi}").contains("put it in single quotes"),
            "{}",
            refused(b"{text: hi}")
        );
        assert!(refused(b"hi").contains("double quotes"), "{}", refused(b"hi"));
        let several = check("application/json; charset=utf-8", b"{} x").expect_err("two values");
        assert!(several.to_string().contains("is not JSON"), "{several}");
        check(JSON, b"[1, 2]").expect("JSON");
        check(TEXT, b"{text: hi}").expect("any text");
    }

    #[test]
    fn objects_and_arrays_are_taken_for_json() {
        for (data, content_type) in [
            (&br#" {"a": 1}"#[..], JSON),
            (b"[1]", JSON),
            (b"{not json", TEXT),
            (b"42", TEXT),
            (b"hello", TEXT),
            (b"\xff", TEXT),
        ] {
            assert_eq!(guess(data), content_type, "{data:?}");
        }
    }
}
