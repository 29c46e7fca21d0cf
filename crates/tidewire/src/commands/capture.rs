//! `tidewire capture`: the source of row changes.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context as _;
use tidewire_client::{Capture, Repair};

use crate::cli::{CaptureCommand, CaptureFlags};

pub(crate) async fn run(flags: CaptureFlags) -> anyhow::Result<ExitCode> {
    let client = super::client(&flags.client)?;
    let capture = match flags.command {
        None | Some(CaptureCommand::Status) => {
            client.capture().await.context("cannot see how changes are captured")?
        }
        Some(CaptureCommand::Switch { mode }) => {
            let switched = client.switch_capture(&mode).await;
            switched.with_context(|| format!("cannot switch to {mode}"))?
        }
    };
    let mut out = io::stdout().lock();
    if flags.json {
        serde_json::to_writer(&mut out, &capture).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
    } else {
        print(&mut out, &capture)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print(out: &mut impl Write, capture: &Capture) -> io::Result<()> {
    let Capture { mode, reason, advice, leader, waiting, waiting_ms, failed, dead, .. } = capture;
    writeln!(out, "mode      {mode}")?;
    if !reason.is_empty() {
        writeln!(out, "because   {reason}")?;
    }
    if let Some(leader) = leader {
        writeln!(out, "leader    {leader}")?;
    }
    writeln!(out, "waiting   {waiting} rows, the oldest for {}", super::seconds(*waiting_ms))?;
    writeln!(out, "failed    {failed} rows are tried again, {dead} were given up")?;
    if let Some(bytes) = capture.retained_wal_bytes {
        writeln!(out, "kept WAL  {}.{} MiB", bytes >> 20, ((bytes & 0xf_ffff) * 10) >> 20)?;
    }
    for repair in &capture.repairs {
        let Repair { table, why, at, events } = repair;
        let at = at.as_deref().unwrap_or("-");
        let told = match events {
            Some(events) => format!("{events} events carry the difference"),
            None => "its readers were told to read it again".to_owned(),
        };
        writeln!(out, "repaired  {table} at {at}: {why}; {told}")?;
    }
    for advice in advice {
        writeln!(out, "advice    {advice}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_is_shown() {
        let capture = Capture {
            mode: "outbox".to_owned(),
            reason: "wal_level is replica".to_owned(),
            advice: vec!["set wal_level = logical and restart PostgreSQL".to_owned()],
            leader: Some("node-1".to_owned()),
            waiting: 3,
            waiting_ms: 40,
            failed: 1,
            dead: 0,
            retained_wal_bytes: Some(3 << 19),
            repairs: vec![Repair {
                table: "orders".to_owned(),
                why: "the triggers that capture its changes were disabled or dropped".to_owned(),
                at: Some("2026-01-02T03:04:05Z".to_owned()),
                events: Some(12),
            }],
        };
        let mut out = Vec::new();
        print(&mut out, &capture).expect("memory takes it");
        insta::assert_snapshot!(String::from_utf8(out).expect("text"));
    }
}
