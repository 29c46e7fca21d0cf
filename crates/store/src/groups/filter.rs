//! Which events a group reads.

use crate::row::TABLE_PREFIX;
use crate::subscription::glob;

/// Tables by name and other streams by pattern. If it names none, everything is read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Names of watched tables.
    pub tables: Vec<String>,
    /// Patterns over the names of other streams: `*` is one segment, `**` any number.
    pub streams: Vec<String>,
}

/// Names and patterns that a filter may have.
pub(crate) const FILTER_NAMES_MAX: usize = 1_000;
/// Bytes of one of them.
pub(crate) const FILTER_NAME_BYTES_MAX: usize = 1_024;

impl Filter {
    /// Whether everything is read.
    pub fn is_all(&self) -> bool {
        self.tables.is_empty() && self.streams.is_empty()
    }

    /// Whether a stream's events are read.
    pub fn takes(&self, stream: &str) -> bool {
        if self.is_all() {
            return true;
        }
        match stream.strip_prefix(TABLE_PREFIX) {
            Some(table) => self.tables.iter().any(|name| name == table),
            None => self.streams.iter().any(|pattern| glob::matches(pattern, stream)),
        }
    }

    /// What is wrong with it, if anything, and what to write instead.
    pub fn check(&self) -> Result<(), String> {
        let names = self.tables.len() + self.streams.len();
        if names > FILTER_NAMES_MAX {
            return Err(format!(
                "a group may name {FILTER_NAMES_MAX} tables and streams, not {names}; use patterns"
            ));
        }
        for name in self.tables.iter().chain(&self.streams) {
            if name.is_empty() || name.len() > FILTER_NAME_BYTES_MAX || name.contains('\0') {
                return Err(format!(
                    "a table or stream has a name of 1 to {FILTER_NAME_BYTES_MAX} bytes without \
                     zero bytes"
                ));
            }
        }
        match self.streams.iter().find_map(|stream| stream.strip_prefix(TABLE_PREFIX)) {
            Some(table) => Err(format!(
                "`table/{table}` is the stream of a table; name `{table}` under tables instead"
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(tables: &[&str], streams: &[&str]) -> Filter {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Filter { tables: owned(tables), streams: owned(streams) }
    }

    #[test]
    fn an_empty_filter_takes_everything() {
        assert!(filter(&[], &[]).takes("table/orders") && filter(&[], &[]).takes("a/b"));
    }

    #[test]
    fn tables_are_taken_by_name_and_streams_by_pattern() {
        let some = filter(&["orders"], &["chat/*"]);
        assert!(some.takes("table/orders") && some.takes("chat/room"));
        for other in ["table/items", "chat/room/deep", "orders", "mail"] {
            assert!(!some.takes(other), "{other}");
        }
        assert!(!filter(&[], &["**"]).takes("table/orders"));
    }

    #[test]
    fn a_table_among_the_streams_is_told_where_it_belongs() {
        let wrong = filter(&[], &["table/orders"]).check().expect_err("refused");
        assert!(wrong.contains("`orders` under tables"), "{wrong}");
    }
}
