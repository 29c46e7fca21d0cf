//! Plain text tables: the first column to the left, numbers to the right.

#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(columns: &[&str]) -> Self {
        Self { rows: vec![columns.iter().map(|&column| column.to_owned()).collect()] }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub(crate) fn print(&self, title: &str) {
        println!("\n{title}\n");
        let widths = self.widths();
        for (index, row) in self.rows.iter().enumerate() {
            println!("  {}", line(row, &widths));
            if index == 0 {
                println!(
                    "  {}",
                    "-".repeat(widths.iter().map(|width| width + 2).sum::<usize>() - 2)
                );
            }
        }
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows[0].len();
        let width = |row: &Vec<String>, column: usize| {
            row.get(column).map_or(0, |cell| cell.chars().count())
        };
        // A row with one long text (a failure) spills over the columns instead of widening the
        // last.
        let is_data = |row: &&Vec<String>| row.len() == columns;
        (0..columns)
            .map(|column| {
                self.rows.iter().filter(is_data).map(|row| width(row, column)).max().unwrap_or(0)
            })
            .collect()
    }
}

fn line(row: &[String], widths: &[usize]) -> String {
    let mut text = String::new();
    for (index, cell) in row.iter().enumerate() {
        let width = widths[index];
        let is_spill = index + 1 == row.len() && row.len() < widths.len();
        text.push_str(&match index {
            _ if is_spill => cell.clone(),
            0 | 1 => format!("{cell:<width$}  "),
            _ => format!("{cell:>width$}  "),
        });
    }
    text.trim_end().to_owned()
}

/// A rate with digits in groups.
pub(crate) fn count(value: f64) -> String {
    let digits = format!("{value:.0}");
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).unwrap_or_default())
        .collect();
    groups.join(",")
}

pub(crate) fn decimals(value: f64, places: usize) -> String {
    format!("{value:.places$}")
}

/// A number that may be missing.
pub(crate) fn optional(value: Option<f64>, places: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| decimals(value, places))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_by_three() {
        assert_eq!(count(7.0), "7");
        assert_eq!(count(1_234_567.4), "1,234,567");
    }
}
