//! Rows as JSON objects: the before and after of events.

use std::collections::HashMap;

use bytes::Bytes;

use super::json;
use super::kind::Kind;
use super::pgoutput::{Cell, Old};
use super::table::Table;

/// Values that only the database can write, with what it wrote: by type and text.
pub(crate) type ServerWritten = HashMap<(String, Bytes), String>;

/// How values are written that are JSON themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// As such.
    Usual,
    /// As strings: the type `json` holds what `jsonb` does not.
    Plain,
}

/// A row's values, with those that were not sent because they did not change taken from the row
/// before. One that is not there either is left out of the row.
pub(crate) fn filled(new: &[Cell], old: &Old) -> Vec<Cell> {
    let before = |at: usize| match old {
        Old::Whole(cells) => cells.get(at).cloned(),
        Old::Key(_) | Old::Nothing => None,
    };
    let fill = |(at, cell): (usize, &Cell)| match cell {
        Cell::Unchanged => before(at).unwrap_or(Cell::Unchanged),
        known => known.clone(),
    };
    new.iter().enumerate().map(fill).collect()
}

/// The row before. Where the replica identity is not FULL only its key is known, and the rest is left
/// out.
pub(crate) fn before(old: &Old, new: &[Cell]) -> Vec<Cell> {
    let known = |cell: &Cell| match cell {
        Cell::Null => Cell::Unchanged,
        known => known.clone(),
    };
    match old {
        Old::Whole(cells) => cells.clone(),
        Old::Key(cells) => cells.iter().map(known).collect(),
        // The key did not change, but which columns it has is not said with the row.
        Old::Nothing => vec![Cell::Unchanged; new.len()],
    }
}

/// The values that only the database can write.
pub(crate) fn unwritten<'a>(
    table: &'a Table,
    cells: &'a [Cell],
) -> impl Iterator<Item = (&'a str, &'a Bytes)> {
    table.columns.iter().zip(cells).filter_map(|((_, kind), cell)| match (kind, cell) {
        (Kind::Database(name), Cell::Text(text)) => Some((name.as_str(), text)),
        _ => None,
    })
}

/// The row as a JSON object. A value that is not what its type says is a string: the text that the
/// database sent.
pub(crate) fn object(table: &Table, cells: &[Cell], written: &ServerWritten, form: Form) -> String {
    let mut out = String::from("{");
    for ((name, kind), cell) in table.columns.iter().zip(cells) {
        if *cell == Cell::Unchanged || *kind == Kind::LeftOut {
            continue;
        }
        if out.len() > 1 {
            out.push(',');
        }
        json::string(&mut out, name);
        out.push(':');
        match cell {
            Cell::Text(text) => value(&mut out, kind, text, written, form),
            Cell::Null | Cell::Unchanged => out.push_str("null"),
        }
    }
    out.push('}');
    out
}

fn value(out: &mut String, kind: &Kind, bytes: &Bytes, written: &ServerWritten, form: Form) {
    if let Kind::Database(name) = kind
        && let Some(json) = written.get(&(name.clone(), bytes.clone()))
    {
        out.push_str(json);
        return;
    }
    let text = String::from_utf8_lossy(bytes);
    if form == Form::Plain && *kind == Kind::Json {
        return json::string(out, &text);
    }
    let start = out.len();
    if let Err(error) = json::value(out, kind, &text) {
        tracing::warn!(%error, "a value is kept as its text");
        out.truncate(start);
        json::string(out, &text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::table::Role;

    fn table() -> Table {
        let column = |name: &str, kind| (name.to_owned(), kind);
        let columns = vec![
            column("id", Kind::Number),
            column("big", Kind::Text),
            column("point", Kind::Database("public.point3".to_owned())),
        ];
        Table { columns, role: Role::Forgotten }
    }

    fn text(value: &'static str) -> Cell {
        Cell::Text(Bytes::from_static(value.as_bytes()))
    }

    #[test]
    fn what_did_not_change_is_taken_from_the_row_before() {
        let old = Old::Whole(vec![text("1"), text("long"), Cell::Null]);
        let new = filled(&[text("2"), Cell::Unchanged, Cell::Null], &old);
        let json = object(&table(), &new, &ServerWritten::new(), Form::Usual);
        assert_eq!(json, r#"{"id":2,"big":"long","point":null}"#);
    }

    #[test]
    fn what_nobody_said_is_left_out() {
        let new = filled(&[text("2"), Cell::Unchanged, Cell::Null], &Old::Nothing);
        assert_eq!(
            object(&table(), &new, &ServerWritten::new(), Form::Usual),
            r#"{"id":2,"point":null}"#
        );
        let key = Old::Key(vec![text("1"), Cell::Null, Cell::Null]);
        assert_eq!(
            object(&table(), &before(&key, &[]), &ServerWritten::new(), Form::Usual),
            r#"{"id":1}"#
        );
    }

    #[test]
    fn what_the_database_wrote_is_put_in_its_place() {
        let cells = [text("1"), Cell::Null, text("(1,2,3)")];
        let asked: Vec<_> = unwritten(&table(), &cells)
            .map(|(name, text)| ((name.to_owned(), text.clone()), r#"{"x":1}"#.to_owned()))
            .collect();
        let written: ServerWritten = asked.into_iter().collect();
        assert_eq!(
            object(&table(), &cells, &written, Form::Usual),
            r#"{"id":1,"big":null,"point":{"x":1}}"#
        );
        // Without an answer its text is better than nothing.
        let json = object(&table(), &cells, &ServerWritten::new(), Form::Usual);
        assert_eq!(json, r#"{"id":1,"big":null,"point":"(1,2,3)"}"#);
    }
}
