//! `tidewire doctor`: checks a server from outside and from inside, and prints each problem with what to do.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;
use tidewire_client::{Check, Checkup, Client, ClientError};

use crate::cli::DoctorFlags;

/// Clocks that differ by more make tokens expire too early or too late, and times in logs mislead.
const SKEW_MAX: Duration = Duration::from_secs(5);

pub(crate) async fn run(flags: DoctorFlags) -> anyhow::Result<ExitCode> {
    let client = super::client(&flags.client)?;
    let checks = look(&client).await;
    let healthy = !checks.iter().any(|check| check.status == "bad");
    let mut out = io::stdout().lock();
    if flags.json {
        let document = json!({ "server": client.url(), "healthy": healthy, "checks": checks });
        writeln!(out, "{document}")?;
    } else {
        print(&mut out, &checks)?;
    }
    Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn look(client: &Client) -> Vec<Check> {
    let asked = now_ms();
    let answer = client.doctor().await;
    let answered = now_ms();
    match answer {
        Ok(checkup) => {
            let mut checks =
                vec![server(client, &checkup), check("credential", "good", "it may administer")];
            checks.push(clock(checkup.time_ms, asked, answered));
            checks.extend(checkup.checks);
            checks
        }
        Err(error) => unanswered(client, &error),
    }
}

fn server(client: &Client, checkup: &Checkup) -> Check {
    let Checkup { version, node, .. } = checkup;
    let text = format!("{} is Tidewire {version}, the node {node}", client.url());
    let own = env!("CARGO_PKG_VERSION");
    if version == own {
        return check("server", "good", text);
    }
    let todo = vec![format!("this command is of version {own}: use one of the server's")];
    Check { todo, ..check("server", "note", text) }
}

/// What can be said of a server that did not answer as it should.
fn unanswered(client: &Client, error: &ClientError) -> Vec<Check> {
    let todo: Vec<String> = super::hints::of(error).into_iter().collect();
    let (answers, told) = (format!("{} answers", client.url()), error.to_string());
    match error {
        ClientError::Refused { status: 401, .. } => {
            vec![
                check("server", "good", answers),
                Check { todo, ..check("credential", "bad", told) },
            ]
        }
        ClientError::Refused { status: 403, .. } => {
            let todo =
                vec!["use the admin key, or a key that was made with --can admin".to_owned()];
            vec![
                check("server", "good", answers),
                Check { todo, ..check("credential", "bad", told) },
            ]
        }
        _ => vec![Check { todo, ..check("server", "bad", told) }],
    }
}

/// The server's clock was read at some moment between the two of ours.
fn clock(server_ms: i64, asked_ms: i64, answered_ms: i64) -> Check {
    let skew_ms = match server_ms {
        early if early < asked_ms => early - asked_ms,
        late if late > answered_ms => late - answered_ms,
        _ => 0,
    };
    if Duration::from_millis(skew_ms.unsigned_abs()) <= SKEW_MAX {
        return check("clock", "good", "the server's and this machine's agree");
    }
    let how = if skew_ms < 0 { "behind" } else { "ahead of" };
    let seconds = skew_ms.unsigned_abs() / 1_000;
    let text = format!("the server's is {seconds} s {how} this machine's");
    let todo = vec!["set both by NTP: tokens expire by the server's clock".to_owned()];
    Check { todo, ..check("clock", "bad", text) }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn check(name: &str, status: &str, text: impl Into<String>) -> Check {
    Check {
        name: name.to_owned(),
        status: status.to_owned(),
        text: text.into(),
        todo: Vec::new(),
        run: Vec::new(),
    }
}

/// A line for each, and below it what to do, so that it can be copied.
fn print(out: &mut impl Write, checks: &[Check]) -> io::Result<()> {
    const STATUS: usize = 4;
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
    let indent = STATUS + width + 4;
    for Check { name, status, text, todo, run } in checks {
        writeln!(out, "{status:STATUS$}  {name:width$}  {text}")?;
        for what in todo {
            let end = if run.is_empty() { "" } else { ":" };
            writeln!(out, "{:indent$}→ {what}{end}", "")?;
        }
        for statement in run {
            writeln!(out, "{:indent$}    {statement};", "")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_may_differ_by_the_time_of_the_question() {
        assert_eq!(clock(1_500, 1_000, 2_000).status, "good");
        assert_eq!(clock(90_000, 1_000, 95_000).status, "good", "a slow answer is no skew");
        assert_eq!(clock(6_999, 1_000, 2_000).status, "good");
        let ahead = clock(62_000, 1_000, 2_000);
        assert_eq!(
            (&*ahead.status, &*ahead.text),
            ("bad", "the server's is 60 s ahead of this machine's")
        );
        let behind = clock(-9_000, 1_000, 2_000);
        assert_eq!(
            (&*behind.status, &*behind.text),
            ("bad", "the server's is 10 s behind this machine's")
        );
    }

    #[test]
    fn what_to_do_stands_below_what_is_wrong() {
        let run = ["CREATE ROLE \"tidewire_live\" NOLOGIN", "GRANT \"tidewire_live\" TO \"app\""];
        let checks = [
            check("server", "good", "http://127.0.0.1:4437 is Tidewire 0.1.0, the node n1"),
            Check {
                todo: vec![
                    "the role app may not replicate".to_owned(),
                    "wal_level is replica".to_owned(),
                ],
                ..check("capture", "note", "outbox: the write-ahead log cannot be read")
            },
            Check {
                todo: vec!["let a superuser run this in the database".to_owned()],
                run: run.map(str::to_owned).to_vec(),
                ..check(
                    "live queries",
                    "bad",
                    "the database does not let the server read for them yet",
                )
            },
        ];
        let mut out = Vec::new();
        print(&mut out, &checks).expect("memory takes it");
        insta::assert_snapshot!(String::from_utf8(out).expect("text"));
    }
}
