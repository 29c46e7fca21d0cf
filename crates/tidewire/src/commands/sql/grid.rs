//! Results of SQL for people: a table, or a line for each column where rows are wider than the screen.

use std::io::{self, Write};

use tidewire_client::SqlAnswer;
use unicode_width::UnicodeWidthStr as _;

use super::super::table::escaped;

/// A cell is not drawn wider than this in a table: one long text must not push all others away. Those of the last
/// column push nothing, and are drawn whole.
const CELL_MAX: usize = 60;

/// How a result is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// As a table, where it fits into so many columns of text; else as records.
    Fitting(usize),
    /// As a table, however wide.
    Table,
    /// As records.
    Records,
}

/// Draws a result.
pub(super) fn draw(out: &mut impl Write, answer: &SqlAnswer, layout: Layout) -> io::Result<()> {
    let cells: Vec<Vec<String>> = answer
        .rows
        .iter()
        .map(|row| {
            let values = answer.columns.iter().map(|column| row.get(&column.name));
            values.map(|value| value.map_or(String::new(), |value| cell(value.get()))).collect()
        })
        .collect();
    let width = |index: usize| {
        let name = answer.columns[index].name.width();
        cells.iter().map(|line| line[index].width().min(CELL_MAX)).chain([name]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..answer.columns.len()).map(width).collect();
    let total = widths.iter().map(|width| width + 3).sum::<usize>().saturating_sub(1);
    let as_table = match layout {
        Layout::Table => true,
        Layout::Records => false,
        Layout::Fitting(screen) => total <= screen,
    };
    if as_table { table(out, answer, &cells, &widths) } else { records(out, answer, &cells) }?;
    let count = answer.rows.len();
    writeln!(out, "({count} {})", if count == 1 { "row" } else { "rows" })
}

fn table(
    out: &mut impl Write,
    answer: &SqlAnswer,
    cells: &[Vec<String>],
    widths: &[usize],
) -> io::Result<()> {
    let right: Vec<bool> = answer
        .columns
        .iter()
        .enumerate()
        .map(|(index, c)| is_number(&c.type_name, index, answer))
        .collect();
    let names = answer.columns.iter().zip(widths).map(|(column, width)| {
        let gap = width - column.name.width();
        format!(" {}{}{} ", " ".repeat(gap / 2), column.name, " ".repeat(gap - gap / 2))
    });
    writeln!(out, "{}", names.collect::<Vec<_>>().join("│").trim_end())?;
    let rule = widths.iter().map(|width| "─".repeat(width + 2));
    writeln!(out, "{}", rule.collect::<Vec<_>>().join("┼"))?;
    for line in cells {
        let last = line.len().saturating_sub(1);
        let cells = line.iter().enumerate().map(|(index, cell)| match index == last {
            true => cell.clone(),
            false => shortened(cell, CELL_MAX),
        });
        let drawn = cells.zip(widths).zip(&right).map(|((cell, width), right)| {
            let gap = " ".repeat(width.saturating_sub(cell.width()));
            if *right { format!(" {gap}{cell} ") } else { format!(" {cell}{gap} ") }
        });
        writeln!(out, "{}", drawn.collect::<Vec<_>>().join("│").trim_end())?;
    }
    Ok(())
}

fn records(out: &mut impl Write, answer: &SqlAnswer, cells: &[Vec<String>]) -> io::Result<()> {
    let width = answer.columns.iter().map(|column| column.name.width()).max().unwrap_or(0);
    for (number, line) in cells.iter().enumerate() {
        writeln!(out, "─[ {} ]{}", number + 1, "─".repeat(width))?;
        for (column, cell) in answer.columns.iter().zip(line) {
            let gap = " ".repeat(width - column.name.width());
            writeln!(out, "{}", format!("{}{gap} │ {cell}", column.name).trim_end())?;
        }
    }
    Ok(())
}

/// Whether a column's values stand at the right: by its type, or, where it has none, by what is there.
fn is_number(type_name: &str, index: usize, answer: &SqlAnswer) -> bool {
    let name = type_name.to_ascii_lowercase();
    if !name.is_empty() {
        let numeric = ["int", "float", "real", "numeric", "decimal", "double", "serial", "oid"];
        return numeric.iter().any(|kind| name.starts_with(kind)) && !name.ends_with(']')
            || name == "bigint"
            || name == "smallint";
    }
    let column = &answer.columns[index].name;
    let values = answer.rows.iter().filter_map(|row| row.get(column));
    let mut values = values.map(|value| value.get()).filter(|value| *value != "null").peekable();
    values.peek().is_some()
        && values.all(|v| v.starts_with(|c: char| c == '-' || c.is_ascii_digit()))
}

/// A JSON value as people read it: texts without their quotes, NULL as nothing, and what would break
/// the line or the terminal escaped.
pub(super) fn cell(json: &str) -> String {
    let text = match serde_json::from_str::<serde_json::Value>(json) {
        Ok(serde_json::Value::Null) => return String::new(),
        Ok(serde_json::Value::String(text)) => text,
        // Numbers as they came: parsing would round them.
        _ => json.to_owned(),
    };
    escaped(&text)
}

fn shortened(cell: &str, width_max: usize) -> String {
    if cell.width() <= width_max {
        return cell.to_owned();
    }
    let mut short = String::new();
    for c in cell.chars() {
        if short.width() + c.to_string().width() + 1 > width_max {
            break;
        }
        short.push(c);
    }
    short + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> SqlAnswer {
        serde_json::from_str(
            r#"{"columns": [{"name": "id", "type": "int4"}, {"name": "name", "type": "text"},
                {"name": "total", "type": ""}],
               "rows": [{"id": 1, "name": "Ann", "total": 12345678901234567890.10},
                        {"id": 20, "name": "天気\n\u001b", "total": null}],
               "row_count": 2, "offset": null}"#,
        )
        .expect("an answer")
    }

    fn drawn(layout: Layout) -> String {
        let mut out = Vec::new();
        draw(&mut out, &answer(), layout).expect("memory takes it");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_table_has_its_numbers_at_the_right() {
        insta::assert_snapshot!(drawn(Layout::Table));
    }

    #[test]
    fn what_is_too_wide_is_drawn_as_records() {
        insta::assert_snapshot!(drawn(Layout::Fitting(20)));
        assert_eq!(drawn(Layout::Fitting(200)), drawn(Layout::Table));
    }

    #[test]
    fn a_long_text_is_whole_where_nothing_stands_after_it() {
        let long = "SELECT ".repeat(20);
        let answer: SqlAnswer = serde_json::from_str(&format!(
            r#"{{"columns": [{{"name": "key", "type": "text"}}, {{"name": "value", "type": "text"}}],
                "rows": [{{"key": "{long}", "value": "{long}x"}}], "row_count": 1, "offset": null}}"#
        ))
        .expect("an answer");
        let mut out = Vec::new();
        draw(&mut out, &answer, Layout::Fitting(140)).expect("memory takes it");
        let text = String::from_utf8(out).expect("text");
        assert!(text.contains(&format!(" {} │ {long}x\n", shortened(&long, CELL_MAX))), "{text}");
    }

    #[test]
    fn a_long_text_is_shortened_in_a_table() {
        assert_eq!(shortened("abcdef", 4), "abc…");
        assert_eq!(shortened("天気天気", 5), "天気…");
        assert_eq!(shortened("abcd", 4), "abcd");
    }
}
