//! Tables for people: columns as wide as their widest cell.

use std::io::{self, Write};

/// The head of a column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    name: &'static str,
    right: bool,
}

impl Column {
    /// Text.
    pub(crate) const fn left(name: &'static str) -> Column {
        Column { name, right: false }
    }

    /// Numbers, which stand at the right of their column.
    pub(crate) const fn right(name: &'static str) -> Column {
        Column { name, right: true }
    }
}

/// Prints the head and the rows.
pub(crate) fn print<const N: usize>(
    out: &mut impl Write,
    head: &[Column; N],
    rows: &[[String; N]],
) -> io::Result<()> {
    let rows: Vec<[String; N]> =
        rows.iter().map(|row| row.each_ref().map(|cell| escaped(cell))).collect();
    let wide = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].name.len()]).max().unwrap_or_default()
    };
    let widths: [usize; N] = std::array::from_fn(wide);
    let names = head.map(|column| column.name.to_uppercase());
    for row in [names].iter().chain(&rows) {
        let cells = row.iter().zip(widths).zip(head).map(|((cell, width), column)| {
            if column.right { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        writeln!(out, "{}", cells.collect::<Vec<String>>().join("  ").trim_end())?;
    }
    Ok(())
}

/// The text with what would break the line, or command the terminal, escaped: much of what is shown was written
/// by strangers.
pub(crate) fn escaped(text: &str) -> String {
    let shown = |c: char| -> String {
        if c.is_control() { c.escape_default().collect() } else { c.to_string() }
    };
    if text.chars().any(char::is_control) {
        text.chars().map(shown).collect()
    } else {
        text.to_owned()
    }
}

/// A time without its fraction of a second.
pub(crate) fn to_the_second(time: &str) -> String {
    match time.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => time.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_strangers_wrote_does_not_command_the_terminal() {
        let mut out = Vec::new();
        let rows = [["\u{1b}[2Jann".to_owned(), "a\nb\u{9b}".to_owned()]];
        print(&mut out, &[Column::left("user"), Column::left("error")], &rows).expect("memory");
        let text = String::from_utf8(out).expect("text");
        assert_eq!(text, "USER          ERROR\n\\u{1b}[2Jann  a\\nb\\u{9b}\n");
    }

    #[test]
    fn a_time_without_a_fraction_stays() {
        assert_eq!(to_the_second("2026-01-02T03:04:05Z"), "2026-01-02T03:04:05Z");
    }
}
