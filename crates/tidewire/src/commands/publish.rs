//! `tidewire publish`: appends a message, and creates the stream if there is none.

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use tidewire_client::message::JSON;
use tidewire_client::{Client, ClientError};

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
    let content_type = prepare(&client, &flags.stream, asked, &data)
        .await
        .with_context(|| format!("cannot publish to {}", flags.stream))?;
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
) -> Result<String, ClientError> {
    match client.describe(stream).await {
        Ok(found) => Ok(asked.unwrap_or(found.content_type)),
        Err(error) if error.status() == Some(404) => {
            let content_type = asked.unwrap_or_else(|| guess(data).to_owned());
            client.create(stream, &content_type).await?;
            eprintln!("tidewire: created the stream {stream} ({content_type})");
            Ok(content_type)
        }
        Err(error) => Err(error),
    }
}

/// Only what cannot be meant as plain text counts as JSON: `42` may be either.
fn guess(data: &[u8]) -> &'static str {
    let structured = matches!(data.trim_ascii_start().first(), Some(b'{' | b'['));
    let valid = || serde_json::from_slice::<serde::de::IgnoredAny>(data).is_ok();
    if structured && valid() { JSON } else { TEXT }
}

#[cfg(test)]
mod tests {
    use super::*;

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
