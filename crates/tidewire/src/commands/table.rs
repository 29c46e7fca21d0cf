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
    let wide = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].name.len()]).max().unwrap_or_default()
    };
    let widths: [usize; N] = std::array::from_fn(wide);
    let names = head.map(|column| column.name.to_uppercase());
    for row in [names].iter().chain(rows) {
        let cells = row.iter().zip(widths).zip(head).map(|((cell, width), column)| {
            if column.right { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        writeln!(out, "{}", cells.collect::<Vec<String>>().join("  ").trim_end())?;
    }
    Ok(())
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
    fn a_time_without_a_fraction_stays() {
        assert_eq!(to_the_second("2026-01-02T03:04:05Z"), "2026-01-02T03:04:05Z");
    }
}
