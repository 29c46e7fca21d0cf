//! `tidewire tail`: prints the messages of streams as they arrive.

use std::future::ready;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use anyhow::Context as _;
use tidewire_client::{LiveEvent, LiveOptions, Update};

use super::connecting::Connecting;
use crate::cli::TailFlags;

/// Follows until Ctrl-C, or until every stream has ended.
pub(crate) async fn run(flags: TailFlags) -> anyhow::Result<ExitCode> {
    let client = super::client(&flags.client)?;
    let mut live = client.live(LiveOptions::default())?;
    for (number, stream) in flags.streams.iter().enumerate() {
        live.subscribe(&number.to_string(), stream, flags.from.clone())
            .with_context(|| format!("cannot follow {stream}"))?;
    }
    for (number, table) in (flags.streams.len()..).zip(&flags.tables) {
        let (number, filter) = (number.to_string(), flags.filter.as_deref());
        live.subscribe_table(&number, table, filter, flags.from.clone())
            .with_context(|| format!("cannot follow the table {table}"))?;
    }
    let tables = flags.tables.iter().map(|table| format!("table/{table}"));
    let streams: Vec<String> = flags.streams.iter().cloned().chain(tables).collect();
    let mut tail = Tail::new(BufWriter::new(io::stdout().lock()), &streams);
    let mut unflushed = false;
    let mut connecting = Connecting::default();
    let ended = tokio::signal::ctrl_c();
    tokio::pin!(ended);
    loop {
        let update = tokio::select! {
            // In this order, so that a flood can be ended, and is written out in large pieces.
            biased;
            ended = &mut ended => {
                ended.context("cannot wait for Ctrl-C")?;
                tail.out.flush()?;
                return Ok(ExitCode::SUCCESS);
            }
            update = live.next() => update,
            () = ready(()), if unflushed => {
                tail.out.flush()?;
                unflushed = false;
                continue;
            }
        };
        let following = || format!("cannot follow {}", streams.join(", "));
        let Some(update) = update.with_context(following)? else {
            tail.out.flush()?;
            return Ok(if tail.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        };
        tail.take(connecting.take(update).with_context(following)?)?;
        unflushed = true;
    }
}

/// Where messages go, and what has been said besides.
struct Tail<'a, W: Write> {
    out: W,
    /// The number of each is the name of its subscription, because a name may be too long for one.
    /// Of several, each line begins with the stream's name.
    streams: &'a [String],
    /// What was said last.
    said: String,
    /// The connection is lost, and that was said.
    lost: bool,
    /// All that was asked for is, or was, followed.
    ok: bool,
}

impl<'a, W: Write> Tail<'a, W> {
    fn new(out: W, streams: &'a [String]) -> Tail<'a, W> {
        Tail { out, streams, said: String::new(), lost: false, ok: true }
    }

    fn take(&mut self, update: Update) -> io::Result<()> {
        match update {
            Update::Event(event) => return self.print(&event),
            Update::Disconnected { error, .. } if !self.lost => {
                self.lost = true;
                self.say(format!("{error}; trying again"))?;
            }
            Update::Connected { .. } if self.lost => {
                self.lost = false;
                self.say("connected again".to_owned())?;
            }
            Update::Ended { stream, reason, what, .. } => match reason.as_str() {
                "stream_closed" => self.say(format!("the stream {stream} is closed"))?,
                "stream_deleted" => {
                    self.ok = false;
                    self.say(format!("the stream {stream} was deleted"))?;
                }
                other => {
                    self.ok = false;
                    let what = what.map_or_else(String::new, |what| format!(": {what}"));
                    self.say(format!("{stream} ended ({other}){what}"))?;
                }
            },
            Update::SchemaChanged { stream, what, .. } => {
                self.say(format!("the columns of {stream} changed: {what}"))?;
            }
            // What is wrong with the connection itself ends it, with an error that says the same.
            Update::Problem { query_id: Some(query_id), problem } => {
                let number = query_id.parse::<usize>().ok();
                let stream = number.and_then(|number| self.streams.get(number));
                let stream = stream.map_or(&*query_id, String::as_str);
                let lasting = problem.temporary != Some(true);
                self.ok &= !lasting;
                let then = if lasting { "" } else { "; trying again" };
                self.say(format!("cannot follow {stream}: {problem}{then}"))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Says something to the person, after what came before it, and not twice in a row.
    fn say(&mut self, text: String) -> io::Result<()> {
        self.out.flush()?;
        if self.said != text {
            eprintln!("tidewire: {text}");
            self.said = text;
        }
        Ok(())
    }

    fn print(&mut self, event: &LiveEvent) -> io::Result<()> {
        let message = &event.payload[..];
        if event.is_json && message.contains(&b'\n') {
            self.lines(&event.stream, &super::one_line(message))
        } else {
            self.lines(&event.stream, message)
        }
    }

    /// Writes a message and ends its last line.
    fn lines(&mut self, stream: &str, message: &[u8]) -> io::Result<()> {
        let lines = message.strip_suffix(b"\n").unwrap_or(message);
        if self.streams.len() > 1 {
            for line in lines.split(|byte| *byte == b'\n') {
                self.out.write_all(stream.as_bytes())?;
                self.out.write_all(b"\t")?;
                self.out.write_all(line)?;
                self.out.write_all(b"\n")?;
            }
            Ok(())
        } else {
            self.out.write_all(lines)?;
            self.out.write_all(b"\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(messages: &[&'static str], is_json: bool, streams: usize) -> String {
        let streams = vec!["doc".to_owned(); streams];
        let mut tail = Tail::new(Vec::new(), &streams);
        for message in messages {
            let event = LiveEvent {
                query_id: "0".into(),
                stream: "doc".into(),
                offset: String::new(),
                payload: message.as_bytes().into(),
                is_json,
            };
            tail.take(Update::Event(event)).expect("memory takes it");
        }
        String::from_utf8(tail.out).expect("text")
    }

    #[test]
    fn every_message_ends_its_line() {
        assert_eq!(printed(&["one", "two\n", "", "three"], false, 1), "one\ntwo\n\nthree\n");
    }

    #[test]
    fn a_json_message_takes_one_line() {
        assert_eq!(printed(&["{\n  \"a\": 1\r\n}", "2"], true, 1), "{   \"a\": 1  }\n2\n");
    }

    #[test]
    fn of_several_streams_every_line_is_named() {
        assert_eq!(printed(&["one\ntwo\n", "3"], false, 2), "doc\tone\ndoc\ttwo\ndoc\t3\n");
    }
}
