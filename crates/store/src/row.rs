//! Changes of rows, as they lie in the log.
//!
//! A watched table is the stream `table/NAME`, whose events are changes of its rows. Before and after
//! are JSON objects in one canonical form, whichever way a change was captured: every digit of a
//! number kept, times in UTC, bytes in base64, generated columns left out.

use bytes::Bytes;

/// What the names of tables' streams begin with. Nobody but the capture of changes writes there.
pub const TABLE_PREFIX: &str = "table/";

/// What was done to a row, or to all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// It is new.
    Insert,
    /// It was changed.
    Update,
    /// It is gone.
    Delete,
    /// All rows of the table are gone.
    Truncate,
}

impl Operation {
    /// The word kept in the log's `operation` column.
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Insert => "INSERT",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Truncate => "TRUNCATE",
        }
    }

    /// Reads the `operation` column.
    pub fn parse(word: &str) -> Option<Operation> {
        [Operation::Insert, Operation::Update, Operation::Delete, Operation::Truncate]
            .into_iter()
            .find(|operation| operation.as_str() == word)
    }
}

/// One row's change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowChange {
    /// The table, as its stream is called.
    pub table: String,
    /// What was done.
    pub operation: Operation,
    /// The entity that the table holds, if it was watched as one.
    pub entity_code: Option<String>,
    /// The row's key as text; several columns as a JSON array. None for `TRUNCATE`.
    pub entity_id: Option<String>,
    /// The row before, a JSON object: of `UPDATE` and `DELETE`.
    pub before: Option<Bytes>,
    /// The row after, a JSON object: of `INSERT` and `UPDATE`.
    pub after: Option<Bytes>,
    /// The tenant.
    pub host_id: Option<String>,
    /// Who did it.
    pub user_id: Option<String>,
    /// The transaction that did it, by the database's own number.
    pub txid: Option<i64>,
    /// Whether it is the last event of that transaction.
    pub tx_last: bool,
    /// When it was done, by the database's clock.
    pub created_at_ms: i64,
}

impl RowChange {
    /// Bytes it takes to hold or send, roughly: by this pages are cut.
    pub fn bytes(&self) -> usize {
        let length = |image: &Option<Bytes>| image.as_ref().map_or(0, Bytes::len);
        length(&self.before) + length(&self.after)
    }
}

/// The name of a table, by which its stream and its events are called: that of the schema before a
/// dot, unless it is the usual one. A part that has a dot, a quote or a slash in it is put in
/// quotes, so that no two tables have one name.
pub fn table_name(schema: Option<&str>, table: &str) -> String {
    let part = |name: &str| {
        let plain = !name.is_empty() && !name.contains(['.', '"', '/']);
        if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
    };
    match schema {
        Some(schema) => format!("{}.{}", part(schema), part(table)),
        None => part(table),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_tables_have_one_name() {
        for (schema, table, name) in [
            (None, "orders", "orders"),
            (None, "My Orders", "My Orders"),
            (Some("sales"), "orders", "sales.orders"),
            (None, "sales.orders", "\"sales.orders\""),
            (Some("a\"b"), "c/d", "\"a\"\"b\".\"c/d\""),
            (None, "", "\"\""),
        ] {
            assert_eq!(table_name(schema, table), name);
        }
    }

    #[test]
    fn operations_are_read_as_they_are_written() {
        for word in ["INSERT", "UPDATE", "DELETE", "TRUNCATE"] {
            assert_eq!(Operation::parse(word).map(Operation::as_str), Some(word));
        }
        assert_eq!(Operation::parse("insert"), None);
    }
}
