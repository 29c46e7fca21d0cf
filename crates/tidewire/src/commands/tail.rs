//! `tidewire tail`: prints a stream's messages as they arrive.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context as _;
use tidewire_client::Client;

use crate::cli::TailFlags;

/// Follows until Ctrl-C, or until the stream is closed.
pub(crate) async fn run(flags: TailFlags) -> anyhow::Result<ExitCode> {
    let client = Client::new(&flags.client.url, flags.client.token.as_deref())?;
    let mut follow = client.follow(&flags.stream, flags.from)?;
    let ended = tokio::signal::ctrl_c();
    tokio::pin!(ended);
    loop {
        let batch = tokio::select! {
            ended = &mut ended => {
                ended.context("cannot wait for Ctrl-C")?;
                return Ok(ExitCode::SUCCESS);
            }
            batch = follow.next() => batch,
        };
        let batch = batch.with_context(|| format!("cannot follow {}", flags.stream))?;
        let Some(batch) = batch else {
            eprintln!("tidewire: the stream {} is closed", flags.stream);
            return Ok(ExitCode::SUCCESS);
        };
        let messages = batch.messages.iter().map(AsRef::as_ref);
        print(&mut std::io::stdout().lock(), messages, follow.is_json())?;
    }
}

fn print<'a>(
    out: &mut impl Write,
    messages: impl Iterator<Item = &'a [u8]>,
    json: bool,
) -> std::io::Result<()> {
    for message in messages {
        if json && message.contains(&b'\n') {
            // In JSON a line break stands only between tokens, where a space means the same.
            let flat = |byte: &u8| {
                if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }
            };
            out.write_all(&message.iter().map(flat).collect::<Vec<u8>>())?;
        } else {
            out.write_all(message)?;
        }
        if json || !message.ends_with(b"\n") {
            out.write_all(b"\n")?;
        }
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(messages: &[&str], json: bool) -> String {
        let mut out = Vec::new();
        let messages = messages.iter().map(|message| message.as_bytes());
        print(&mut out, messages, json).expect("memory takes it");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn every_message_ends_its_line() {
        assert_eq!(printed(&["one", "two\n", "three"], false), "one\ntwo\nthree\n");
    }

    #[test]
    fn a_json_message_takes_one_line() {
        assert_eq!(printed(&["{\n  \"a\": 1\r\n}", "2"], true), "{   \"a\": 1  }\n2\n");
    }
}
