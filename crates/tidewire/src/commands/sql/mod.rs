//! `tidewire sql`: SQL on a server's database, from the shell or line by line.
//!
//! - [`session`]: line by line; [`entry`]: what is typed there
//! - [`grid`]: results as tables; [`live`]: results that are followed

mod entry;
mod grid;
mod live;
mod session;

use std::io::{self, IsTerminal as _, Read as _, Write};
use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::Value;
use tidewire_client::{Client, ClientError, SqlAnswer};

use crate::cli::SqlFlags;
use grid::Layout;

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Drawn(Layout),
    Json,
    Csv,
}

pub(crate) async fn run(flags: SqlFlags) -> anyhow::Result<ExitCode> {
    let client = super::client(&flags.client)?;
    let Some(sql) = given(&flags)? else {
        anyhow::ensure!(!flags.live, "--live follows one query: say which, in quotes");
        return session::run(&client, form(&flags, true)).await;
    };
    let params: Vec<Value> = flags.params.iter().map(|text| param(text)).collect();
    if flags.live {
        let on_terminal = out_is_terminal();
        return live::run(&client, &sql, &params, form(&flags, on_terminal), on_terminal).await;
    }
    let answer = match client.sql(&sql, &params).await {
        Ok(answer) => answer,
        Err(error) => {
            eprintln!("tidewire: {}", explain(&sql, &error));
            if let Some(hint) = super::hints::of(&error) {
                eprintln!("hint: {hint}");
            }
            return Ok(ExitCode::FAILURE);
        }
    };
    let mut out = io::stdout().lock();
    print(&mut out, &answer, form(&flags, out_is_terminal()))?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The statements, unless a person is to type them.
fn given(flags: &SqlFlags) -> anyhow::Result<Option<String>> {
    if let Some(file) = &flags.file {
        let shown = file.display();
        let sql = std::fs::read_to_string(file).with_context(|| format!("cannot read {shown}"))?;
        return Ok(Some(sql));
    }
    match flags.sql.as_deref() {
        Some("-") => {}
        Some(sql) => return Ok(Some(sql.to_owned())),
        None if io::stdin().is_terminal() => return Ok(None),
        None => {}
    }
    let mut sql = String::new();
    io::stdin().lock().read_to_string(&mut sql).context("cannot read the standard input")?;
    Ok(Some(sql))
}

/// JSON where it is, else text: `--param 5 --param Ann`.
fn param(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

fn out_is_terminal() -> bool {
    io::stdout().is_terminal()
}

fn form(flags: &SqlFlags, on_terminal: bool) -> Form {
    match (flags.json, flags.csv, flags.expanded) {
        (true, _, _) => Form::Json,
        (_, true, _) => Form::Csv,
        (_, _, true) => Form::Drawn(Layout::Records),
        _ if on_terminal => Form::Drawn(Layout::Fitting(session::screen_width())),
        _ => Form::Drawn(Layout::Table),
    }
}

/// Prints a result. What was changed is said beside it.
fn print(out: &mut impl Write, answer: &SqlAnswer, form: Form) -> io::Result<()> {
    if answer.columns.is_empty() {
        let count = answer.row_count;
        eprintln!("{count} {} changed.", if count == 1 { "row" } else { "rows" });
        return Ok(());
    }
    match form {
        Form::Drawn(layout) => grid::draw(out, answer, layout),
        Form::Json => {
            for row in &answer.rows {
                let members = answer.columns.iter().filter_map(|column| {
                    let value = row.get(&column.name)?;
                    Some(format!("{}:{}", Value::from(column.name.as_str()), value.get()))
                });
                writeln!(out, "{{{}}}", members.collect::<Vec<_>>().join(","))?;
            }
            Ok(())
        }
        Form::Csv => csv(out, answer),
    }
}

fn csv(out: &mut impl Write, answer: &SqlAnswer) -> io::Result<()> {
    let quoted = |text: &str| match text.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    };
    let names = answer.columns.iter().map(|column| quoted(&column.name));
    writeln!(out, "{}", names.collect::<Vec<_>>().join(","))?;
    for row in &answer.rows {
        let cells = answer.columns.iter().map(|column| {
            let raw = row.get(&column.name).map_or("null", |value| value.get());
            match serde_json::from_str(raw) {
                Ok(Value::Null) => String::new(),
                // An empty text is told from nothing by its quotes.
                Ok(Value::String(text)) if text.is_empty() => "\"\"".to_owned(),
                Ok(Value::String(text)) => quoted(&text),
                _ => quoted(raw),
            }
        });
        writeln!(out, "{}", cells.collect::<Vec<_>>().join(","))?;
    }
    Ok(())
}

/// An error, with the place in the text where it is.
fn explain(sql: &str, error: &ClientError) -> String {
    let ClientError::Refused { problem, .. } = error else { return error.to_string() };
    let place = problem.position.and_then(|position| entry::place(sql, position));
    let Some((number, line, before)) = place else { return error.to_string() };
    let head = format!("line {number}: ");
    let marker = " ".repeat(head.chars().count() + before);
    let mut said =
        format!("{}\n{head}{line}\n{marker}^", problem.detail.as_deref().unwrap_or("error"));
    if let Some(hint) = &problem.hint {
        said.push_str(&format!("\nhint: {hint}"));
    }
    said
}

/// The tables there are, or the columns of one, as the database of this kind tells them.
async fn describe(client: &Client, table: Option<&str>) -> Result<SqlAnswer, ClientError> {
    let params: Vec<Value> = table.map(Value::from).into_iter().collect();
    let sql = match (client.database().await?.as_str(), table.is_some()) {
        ("SQLite", false) => {
            "SELECT name, type FROM pragma_table_list WHERE schema = 'main' \
             AND name NOT IN ('log', 'log_counter') \
             AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT LIKE 'tidewire\\_%' ESCAPE '\\' \
             ORDER BY name"
        }
        ("SQLite", true) => {
            "SELECT name, type, CASE \"notnull\" WHEN 1 THEN 'not null' ELSE '' END AS nullable, \
             dflt_value AS \"default\", CASE WHEN pk > 0 THEN pk END AS key \
             FROM pragma_table_info(?1) ORDER BY cid"
        }
        (_, false) => {
            "SELECT n.nspname AS schema, c.relname AS name, CASE c.relkind WHEN 'r' THEN 'table' \
             WHEN 'p' THEN 'partitioned table' WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' \
             ELSE 'foreign table' END AS type FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n \
             ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') \
             AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'tidewire') \
             AND (n.nspname, c.relname) <> ('system', 'live_queries') \
             AND n.nspname NOT LIKE 'pg\\_%' AND NOT c.relispartition ORDER BY 1, 2"
        }
        (_, true) => {
            "SELECT a.attname AS name, pg_catalog.format_type(a.atttypid, a.atttypmod) AS type, \
             CASE WHEN a.attnotnull THEN 'not null' ELSE '' END AS nullable, \
             pg_catalog.pg_get_expr(d.adbin, d.adrelid) AS \"default\", \
             array_position(i.indkey::int2[], a.attnum) + 1 AS key \
             FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_attrdef d \
             ON d.adrelid = a.attrelid AND d.adnum = a.attnum LEFT JOIN pg_catalog.pg_index i \
             ON i.indrelid = a.attrelid AND i.indisprimary \
             WHERE a.attrelid = $1::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
        }
    };
    client.sql(sql, &params).await
}

#[cfg(test)]
mod tests {
    use tidewire_client::Problem;

    use super::*;

    fn printed(form: Form) -> String {
        let answer: SqlAnswer = serde_json::from_str(
            r#"{"columns": [{"name": "n", "type": "numeric"}, {"name": "a,b", "type": "text"}],
                "rows": [{"a,b": "x \"y\"", "n": 12345678901234567890.10}, {"n": null, "a,b": ""}],
                "row_count": 2, "offset": null}"#,
        )
        .expect("an answer");
        let mut out = Vec::new();
        print(&mut out, &answer, form).expect("memory takes it");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn programs_get_every_digit_and_the_columns_in_order() {
        assert_eq!(
            printed(Form::Json),
            "{\"n\":12345678901234567890.10,\"a,b\":\"x \\\"y\\\"\"}\n{\"n\":null,\"a,b\":\"\"}\n"
        );
        assert_eq!(
            printed(Form::Csv),
            "n,\"a,b\"\n12345678901234567890.10,\"x \"\"y\"\"\"\n,\"\"\n"
        );
    }

    #[test]
    fn an_error_is_shown_at_its_place() {
        let problem = Problem {
            detail: Some("syntax error at or near \"FORM\"".to_owned()),
            hint: Some("correct the statement".to_owned()),
            position: Some(12),
            ..Problem::default()
        };
        let error =
            ClientError::Refused { status: 400, problem: Box::new(problem), retry_after: None };
        assert_eq!(
            explain("SELECT 1\n, FORM t", &error),
            "syntax error at or near \"FORM\"\nline 2: , FORM t\n          ^\nhint: correct the \
             statement"
        );
    }

    #[test]
    fn parameters_are_json_or_text() {
        assert_eq!(param("5"), Value::from(5));
        assert_eq!(param("Ann"), Value::from("Ann"));
        assert_eq!(param("null"), Value::Null);
    }
}
