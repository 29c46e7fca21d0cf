//! A process for each host and user of a batch: events in, an exit code out.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::time::Duration;

use anyhow::Context as _;
use rustix::io::Errno;
use tidewire_client::Claimed;
use tidewire_client::consume::Outcome;
use tidewire_client::groups::KeyEvents;
use tokio::process::Command;

use super::super::one_line;
use super::process::{self, End};
use super::program;

/// The events can never be handled: `EX_DATAERR` of sysexits.h.
const DEAD: i32 = 65;
/// Nobody should go on: `EX_CONFIG` of sysexits.h.
const STOP: i32 = 78;

/// A command, to be run again and again.
#[derive(Debug)]
pub(super) struct Exec {
    program: OsString,
    arguments: Vec<OsString>,
    timeout: Duration,
}

/// How a key's events went.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Done,
    Retry(String),
    Dead(String),
    Stop(String),
}

impl Exec {
    pub(super) fn new(words: &[OsString], timeout: Duration) -> anyhow::Result<Exec> {
        let (program, arguments) = words.split_first().context("--exec needs a command")?;
        // Else it would show when the first events come, which may be tomorrow.
        program::find(program, std::env::var_os("PATH").as_deref())?;
        if let Some(flag) = arguments.iter().find(|word| is_ours(word)) {
            let (flag, program) = (flag.display(), program.display());
            eprintln!(
                "tidewire: {flag} is handed to {program}, because it comes after --exec; put tidewire's own flags \
                 before it"
            );
        }
        Ok(Exec { program: program.clone(), arguments: arguments.to_vec(), timeout })
    }

    /// Works off a batch, key by key. The first that fails ends it, because the whole batch comes again.
    pub(super) async fn handle(&self, claimed: &Claimed) -> Outcome {
        for key in &claimed.groups {
            match self.run(claimed, key).await {
                Verdict::Done => {}
                Verdict::Retry(error) => return Outcome::Failed(vec![key.failed(&error, None)]),
                Verdict::Dead(error) => {
                    return Outcome::Failed(vec![key.failed(&error, Some("dead"))]);
                }
                Verdict::Stop(why) => return Outcome::Stop(why),
            }
        }
        Outcome::Done(Vec::new())
    }

    async fn run(&self, claimed: &Claimed, key: &KeyEvents) -> Verdict {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .env("TIDEWIRE_GROUP", &claimed.group)
            .env("TIDEWIRE_PARTITION", claimed.partition.to_string())
            .env("TIDEWIRE_HOST_ID", key.host_id.as_deref().unwrap_or_default())
            .env("TIDEWIRE_USER_ID", key.user_id.as_deref().unwrap_or_default())
            .env("TIDEWIRE_ATTEMPT", key.attempt.to_string());
        match process::run(command, lines(key), self.timeout).await {
            Ok(end) => verdict(&end, self.timeout),
            Err(error) => {
                not_run(&error, format!("cannot run {}: {error}", self.program.display()))
            }
        }
    }
}

/// Whether a word looks like one of our own flags.
fn is_ours(word: &OsString) -> bool {
    const FLAGS: [&str; 6] =
        ["--url", "--token", "--ca", "--group", "--concurrency", "--batch-size"];
    word.to_str().is_some_and(|word| FLAGS.contains(&word.split('=').next().unwrap_or(word)))
}

/// A program that is not there, or is none, is a mistake of who started us. An environment that cannot be is one
/// of the events: the host or the user in it is too long, or has a zero byte. All else may pass.
fn not_run(error: &io::Error, why: String) -> Verdict {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::NotADirectory => {
            Verdict::Stop(why)
        }
        ErrorKind::InvalidInput | ErrorKind::ArgumentListTooLong => {
            Verdict::Dead(format!("{why} (with the host and the user in its environment)"))
        }
        _ if Errno::from_io_error(error) == Some(Errno::NOEXEC) => Verdict::Stop(why),
        _ => Verdict::Retry(why),
    }
}

/// The events, each on a line of its own.
fn lines(key: &KeyEvents) -> Vec<u8> {
    let mut lines = Vec::new();
    for event in &key.events {
        lines.extend(one_line(event.get().as_bytes()));
        lines.push(b'\n');
    }
    lines
}

fn verdict(end: &End, timeout: Duration) -> Verdict {
    let how = match (end.timed_out, end.code, end.signal) {
        (true, ..) => format!("it took longer than {timeout:?}"),
        (false, Some(0), _) => return Verdict::Done,
        (false, Some(code), _) => format!("exit code {code}"),
        (false, None, Some(signal)) => format!("ended by signal {signal}"),
        (false, None, None) => "it ended in an unknown way".to_owned(),
    };
    let said = end.errors.trim();
    let error = if said.is_empty() { how } else { format!("{how}: {said}") };
    match end.code {
        Some(DEAD) if !end.timed_out => Verdict::Dead(error),
        Some(STOP) if !end.timed_out => Verdict::Stop(error),
        _ => Verdict::Retry(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch() -> Claimed {
        let document = serde_json::json!({
            "token": "t", "group": "g", "partition": 3, "lease_ms": 1000, "from": "a", "to": "b",
            "groups": [
                { "host_id": "h", "user_id": null, "attempt": 2,
                  "events": [{ "n": 1 }, { "n": 2 }] },
                { "host_id": "h", "user_id": "u", "events": [{ "n": 3 }] },
            ],
        });
        serde_json::from_value(document).expect("a batch")
    }

    async fn outcome(script: &str) -> Outcome {
        let words = ["sh", "-c", script].map(OsString::from);
        let exec = Exec::new(&words, Duration::from_secs(60)).expect("a command");
        exec.handle(&batch()).await
    }

    async fn failed(script: &str) -> (usize, String, Option<String>) {
        match outcome(script).await {
            Outcome::Failed(failed) => {
                (failed.len(), failed[0].error.clone(), failed[0].verdict.clone())
            }
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn the_exit_code_decides() {
        assert!(matches!(outcome("cat > /dev/null").await, Outcome::Done(_)));
        let retry = (1, "exit code 3: it said so".to_owned(), None);
        assert_eq!(failed("echo it said so >&2; exit 3").await, retry);
        let dead = (1, "exit code 65".to_owned(), Some("dead".to_owned()));
        assert_eq!(failed("exit 65").await, dead);
        assert_eq!(failed("kill -9 $$").await.1, "ended by signal 9");
        let stop = outcome("echo no disk >&2; exit 78").await;
        assert!(matches!(stop, Outcome::Stop(why) if why == "exit code 78: no disk"));
    }

    #[tokio::test]
    async fn it_gets_the_events_of_a_key_and_whose_they_are() {
        let script = r#"test "$(cat)" = '{"n":1}
{"n":2}' && test "$TIDEWIRE_GROUP.$TIDEWIRE_PARTITION" = g.3 &&
            test "$TIDEWIRE_HOST_ID.$TIDEWIRE_USER_ID.$TIDEWIRE_ATTEMPT" = h..2 || exit 9; exit 65"#;
        assert_eq!(failed(script).await.1, "exit code 65");
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_stops_the_work() {
        Exec::new(&["no-such-program".into()], Duration::from_secs(60)).expect_err("none");
        // It may go later.
        let program = "no-such-program".into();
        let exec = Exec { program, arguments: Vec::new(), timeout: Duration::from_secs(60) };
        let outcome = exec.handle(&batch()).await;
        assert!(matches!(outcome, Outcome::Stop(why) if why.starts_with("cannot run no-such")));
        let stop = |error: Errno| not_run(&error.into(), String::new());
        assert_eq!(stop(Errno::NOEXEC), Verdict::Stop(String::new()));
        assert_eq!(stop(Errno::AGAIN), Verdict::Retry(String::new()), "that passes");
    }

    #[tokio::test]
    async fn an_id_that_no_environment_holds_is_set_aside_and_stops_nobody() {
        for user in ["u".repeat(1 << 20), "a\0b".to_owned()] {
            let mut batch = batch();
            batch.groups[0].user_id = Some(user);
            let words = ["cat".into()];
            let exec = Exec::new(&words, Duration::from_secs(60)).expect("a command");
            match exec.handle(&batch).await {
                Outcome::Failed(failed) => {
                    assert_eq!(failed.len(), 1);
                    assert_eq!(failed[0].verdict.as_deref(), Some("dead"), "{}", failed[0].error);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
