//! `tidewire watch` and `tidewire unwatch`: choose the tables whose changes are streams.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context as _;
use tidewire_client::{NewWatch, Watch};

use super::table::{self, Column, to_the_second};
use crate::cli::{UnwatchFlags, WatchFlags};

pub(crate) async fn run(flags: WatchFlags) -> anyhow::Result<ExitCode> {
    let client = super::client(&flags.client)?;
    let mut out = io::stdout().lock();
    let Some(table) = flags.table else {
        let watches = client.watches().await.context("cannot list the watched tables")?;
        list(&mut out, &watches, flags.json)?;
        return Ok(ExitCode::SUCCESS);
    };
    let WatchFlags { key, entity, host_column, user_column, json, .. } = flags;
    let watch = NewWatch { table, key_columns: key, entity, host_column, user_column };
    let watched = client.watch(&watch).await;
    let watched = watched.with_context(|| format!("cannot watch {}", watch.table))?;
    if json {
        list(&mut out, &[watched], true)?;
    } else {
        writeln!(out, "{}", watched.stream)?;
        eprintln!("Watching {}; {}.", watched.table, told_apart(&watched));
        for note in &watched.notes {
            eprintln!("Note: {note}.");
        }
        if !watched.live_query_needs.is_empty() {
            eprint!("{}", live_query_needs(&watched.live_query_needs));
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn unwatch(flags: UnwatchFlags) -> anyhow::Result<ExitCode> {
    let client = super::client(&flags.client)?;
    for table in flags.tables {
        let unwatched = client.unwatch(&table).await;
        unwatched.with_context(|| format!("cannot stop watching {table}"))?;
        eprintln!("{table} is no longer watched, and its stream has ended.");
    }
    Ok(ExitCode::SUCCESS)
}

/// What to run, to be copied as it stands.
fn live_query_needs(statements: &[String]) -> String {
    let mut text = "Live queries of it do not work yet. Let a superuser, or the owner of what is named, run this in \
                    the database:\n\n"
        .to_owned();
    for statement in statements {
        text.push_str(&format!("  {statement};\n"));
    }
    text
}

fn told_apart(watch: &Watch) -> String {
    match &watch.key_columns[..] {
        [] => "it has no key, so the whole row tells rows apart".to_owned(),
        columns => format!("rows are told apart by {}", columns.join(", ")),
    }
}

const COLUMNS: usize = 8;

const HEAD: [Column; COLUMNS] = [
    Column::left("table"),
    Column::left("key"),
    Column::left("entity"),
    Column::left("since"),
    Column::right("changes"),
    Column::left("last"),
    Column::right("waiting"),
    Column::right("lag"),
];

fn list(out: &mut impl Write, watches: &[Watch], json: bool) -> io::Result<()> {
    if json {
        for watch in watches {
            serde_json::to_writer(&mut *out, watch).map_err(io::Error::from)?;
            out.write_all(b"\n")?;
        }
        return Ok(());
    }
    let rows: Vec<[String; COLUMNS]> = watches.iter().map(row).collect();
    table::print(out, &HEAD, &rows)
}

fn row(watch: &Watch) -> [String; COLUMNS] {
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let key =
        if watch.key_columns.is_empty() { "-".to_owned() } else { watch.key_columns.join(",") };
    [
        watch.table.clone(),
        key,
        or_dash(&watch.entity),
        watch.created_at.as_deref().map_or_else(|| "-".to_owned(), to_the_second),
        watch.events.to_string(),
        or_dash(&watch.last_offset),
        watch.waiting.to_string(),
        super::seconds(watch.waiting_ms),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_shows_lag_and_counts() {
        let watch = |table: &str, key_columns: &[&str]| Watch {
            table: table.to_owned(),
            stream: format!("table/{table}"),
            key_columns: key_columns.iter().map(|&column| column.to_owned()).collect(),
            entity: None,
            host_column: None,
            user_column: None,
            created_at: Some("2026-01-02T03:04:05.678Z".to_owned()),
            events: 1_234,
            last_offset: Some("0001_0000000000000042".to_owned()),
            waiting: 7,
            waiting_ms: 1_250,
            notes: Vec::new(),
            live_query_needs: Vec::new(),
        };
        let mut out = Vec::new();
        let watches = [watch("orders", &["id"]), watch("sales.lines", &["order_id", "number"])];
        list(&mut out, &watches, false).expect("memory takes it");
        insta::assert_snapshot!(String::from_utf8(out).expect("text"));
    }
}
