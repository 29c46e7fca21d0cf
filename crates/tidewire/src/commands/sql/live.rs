//! `tidewire sql --live`: a query's result and its changes.
//!
//! A terminal shows the whole result again after each change. Any other output gets all rows first, then a line for
//! each inserted, deleted or changed row; with --json every line is an object.

use std::collections::HashMap;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tidewire_client::{
    Client, ClientError, Live, LiveOptions, Problem, QueryResult, RowChange, SqlAnswer, Update,
};

use super::super::CLEAR;
use super::super::connecting::Connecting;
use super::{Form, explain, grid};

/// The subscription's name.
const QUERY: &str = "sql";

/// Follows until Ctrl-C, or until the query has ended.
pub(super) async fn run(
    client: &Client,
    sql: &str,
    params: &[Value],
    form: Form,
    on_terminal: bool,
) -> anyhow::Result<ExitCode> {
    let mut live = client.live(LiveOptions::default())?;
    live.query(QUERY, sql, params)?;
    let redraws = on_terminal && form != Form::Json;
    let mut follower = Follower { out: io::stdout().lock(), sql, form, redraws, lost: false };
    let mut connecting = Connecting::default();
    let ended = tokio::signal::ctrl_c();
    tokio::pin!(ended);
    loop {
        let update = tokio::select! {
            // In this order, so that a flood can be ended.
            biased;
            ended = &mut ended => {
                ended.context("cannot wait for Ctrl-C")?;
                return Ok(ExitCode::SUCCESS);
            }
            update = live.next() => update.context("cannot follow the query")?,
        };
        let Some(update) = update else { return Ok(ExitCode::FAILURE) };
        let update = connecting.take(update).context("cannot follow the query")?;
        follower.take(update, &live)?;
        follower.out.flush()?;
    }
}

/// Where the result goes, and what has been said besides.
struct Follower<'a, W: Write> {
    out: W,
    sql: &'a str,
    form: Form,
    /// The whole result is drawn again and again.
    redraws: bool,
    /// The connection is lost, and that was said.
    lost: bool,
}

impl<W: Write> Follower<'_, W> {
    fn take(&mut self, update: Update, live: &Live) -> anyhow::Result<()> {
        match update {
            Update::ResultBegan { .. } => {
                if let Some(result) = live.result(QUERY) {
                    self.all(result)?;
                }
            }
            Update::ResultChanged { changes, offset, .. } => match live.result(QUERY) {
                Some(result) if self.redraws => self.all(result)?,
                _ => self.changes(&changes, offset.as_deref())?,
            },
            Update::Disconnected { error, .. } if !self.lost => {
                self.lost = true;
                eprintln!("tidewire: {error}; trying again");
            }
            Update::Connected { .. } if self.lost => {
                self.lost = false;
                eprintln!("tidewire: connected again");
            }
            Update::Ended { reason, what, .. } => {
                let what = what.map_or_else(String::new, |what| format!(": {what}"));
                eprintln!("tidewire: the query ended ({reason}){what}");
            }
            Update::Problem { query_id: Some(_), problem } => self.problem(problem),
            _ => {}
        }
        Ok(())
    }

    fn problem(&self, problem: Problem) {
        let then = if problem.temporary == Some(true) { "; trying again" } else { "" };
        // Shown at its place in the text, as an answer over HTTP is.
        let error =
            ClientError::Refused { status: 400, problem: Box::new(problem), retry_after: None };
        eprintln!("tidewire: {}{then}", explain(self.sql, &error));
    }

    fn all(&mut self, result: &QueryResult) -> anyhow::Result<()> {
        match self.form {
            Form::Drawn(layout) => {
                if self.redraws {
                    self.out.write_all(CLEAR.as_bytes())?;
                }
                grid::draw(&mut self.out, &answer(result)?, layout)?;
            }
            Form::Json | Form::Csv => {
                let rows: Vec<&str> = result.rows().iter().map(|row| &**row).collect();
                let head = json!({ "change_type": "ALL", "offset": result.offset() }).to_string();
                let head = head.trim_end_matches('}');
                writeln!(self.out, "{head},\"rows\":[{}]}}", rows.join(","))?;
            }
        }
        Ok(())
    }

    fn changes(&mut self, changes: &[RowChange], offset: Option<&str>) -> io::Result<()> {
        for change in changes {
            let (kind, sign, row, old) = match change {
                RowChange::Inserted(row) => ("INSERT", '+', row, None),
                RowChange::Updated { old, new } => ("UPDATE", '~', new, Some(old)),
                RowChange::Deleted(row) => ("DELETE", '-', row, None),
            };
            if self.form == Form::Json {
                let head = json!({ "change_type": kind, "offset": offset }).to_string();
                let head = head.trim_end_matches('}');
                let old = old.map_or_else(String::new, |old| format!(",\"old_row\":{old}"));
                writeln!(self.out, "{head},\"row\":{row}{old}}}")?;
            } else {
                let was = old.map_or_else(String::new, |old| format!("  was {old}"));
                writeln!(self.out, "{sign} {row}{was}")?;
            }
        }
        Ok(())
    }
}

/// A result as an answer to SQL is.
fn answer(result: &QueryResult) -> anyhow::Result<SqlAnswer> {
    let rows: Result<Vec<HashMap<String, Box<RawValue>>>, _> =
        result.rows().iter().map(|row| serde_json::from_str(row)).collect();
    Ok(SqlAnswer {
        columns: result.about().columns.clone(),
        row_count: result.rows().len() as u64,
        rows: rows.context("a row is not understood")?,
        offset: result.offset().map(ToOwned::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(form: Form) -> String {
        let mut follower = Follower { out: Vec::new(), sql: "", form, redraws: false, lost: false };
        let [one, two] = [r#"{"n":1}"#, r#"{"n":2}"#].map(tidewire_client::RowText::from);
        let changes = [
            RowChange::Deleted(one.clone()),
            RowChange::Updated { old: one, new: two.clone() },
            RowChange::Inserted(two),
        ];
        follower.changes(&changes, Some("5")).expect("memory takes it");
        String::from_utf8(follower.out).expect("text")
    }

    #[test]
    fn programs_get_an_object_for_each_row_that_changed() {
        assert_eq!(
            printed(Form::Json),
            "{\"change_type\":\"DELETE\",\"offset\":\"5\",\"row\":{\"n\":1}}\n\
             {\"change_type\":\"UPDATE\",\"offset\":\"5\",\"row\":{\"n\":2},\"old_row\":{\"n\":1}}\n\
             {\"change_type\":\"INSERT\",\"offset\":\"5\",\"row\":{\"n\":2}}\n"
        );
    }

    #[test]
    fn people_get_a_line_with_a_sign() {
        assert_eq!(
            printed(Form::Drawn(grid::Layout::Table)),
            "- {\"n\":1}\n~ {\"n\":2}  was {\"n\":1}\n+ {\"n\":2}\n"
        );
    }
}
