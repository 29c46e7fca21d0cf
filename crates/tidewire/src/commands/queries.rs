//! `tidewire queries`: lists the live queries of all servers that share the database, or ends one.

use std::collections::HashMap;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::Value;
use serde_json::value::RawValue;

use super::table::{self, Column, to_the_second};
use crate::cli::{QueriesCommand, QueriesFlags};

const LIST: &str =
    "SELECT live_id, node, user_id, plan, changes, lag_ms, queue_depth, created_at, query
    FROM system.live_queries WHERE user_id = $1 OR $1 = '' ORDER BY live_id";

pub(crate) async fn run(flags: QueriesFlags) -> anyhow::Result<ExitCode> {
    let client = super::client(&flags.client)?;
    if let Some(QueriesCommand::Kill { live_id }) = flags.command {
        let kill = format!("KILL LIVE QUERY '{}'", live_id.replace('\'', "''"));
        client.sql(&kill, &[]).await.with_context(|| format!("cannot end {live_id}"))?;
        eprintln!("Asked {live_id} to end.");
        return Ok(ExitCode::SUCCESS);
    }
    let user = Value::from(flags.user.unwrap_or_default());
    let answer = client.sql(LIST, &[user]).await.context("cannot list the live queries")?;
    let mut out = io::stdout().lock();
    if flags.json {
        for row in &answer.rows {
            let members = answer.columns.iter().filter_map(|column| {
                let value = row.get(&column.name)?;
                Some(format!("{}:{}", Value::from(column.name.as_str()), value.get()))
            });
            writeln!(out, "{{{}}}", members.collect::<Vec<_>>().join(","))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<[String; COLUMNS]> = answer.rows.iter().map(row).collect();
    table::print(&mut out, &HEAD, &rows)?;
    Ok(ExitCode::SUCCESS)
}

const COLUMNS: usize = 9;

const HEAD: [Column; COLUMNS] = [
    Column::left("live id"),
    Column::left("node"),
    Column::left("user"),
    Column::left("plan"),
    Column::right("changes"),
    Column::right("lag ms"),
    Column::right("queued"),
    Column::left("since"),
    Column::left("query"),
];

/// Characters of a query that are shown: enough to know it by.
const QUERY_CHARS_MAX: usize = 60;

fn row(values: &HashMap<String, Box<RawValue>>) -> [String; COLUMNS] {
    let text = |name: &str| match values.get(name).map(|value| serde_json::from_str(value.get())) {
        Some(Ok(Value::String(text))) => text,
        Some(Ok(Value::Null) | Err(_)) | None => String::new(),
        Some(Ok(value)) => value.to_string(),
    };
    let words: Vec<String> = text("query").split_whitespace().map(ToOwned::to_owned).collect();
    let query = words.join(" ");
    let short: String = query.chars().take(QUERY_CHARS_MAX).collect();
    let query = if short.len() < query.len() { format!("{short}…") } else { short };
    [
        text("live_id"),
        text("node"),
        text("user_id"),
        text("plan"),
        text("changes"),
        text("lag_ms"),
        text("queue_depth"),
        to_the_second(&text("created_at")),
        query,
    ]
}
