//! The default configuration, and how options are read from it.
//!
//! An option is declared once, as a field of the struct of the crate that uses it, and its default
//! stands once, in `default.toml` with the reason for it. A struct's `Default` is [`default_of`] its
//! table. The binary reads the same structs from its configuration, which begins with this file.
//!
//! - [`values`]: durations, limits and texts as they are written there

mod values;

use std::sync::LazyLock;

use serde::de::DeserializeOwned;
use toml::{Table, Value};

pub use values::{duration, limit, ms, text};

/// The default configuration, which is also the reference.
pub const DEFAULT: &str = include_str!("default.toml");

/// What the default configuration says at a path: a table such as `queries`, or one key such as
/// `queries.role`.
///
/// # Panics
///
/// If that is not what `T` declares. Whatever the configuration of a server, the file is the same, so
/// that any test which makes a `T` finds it.
pub fn default_of<T: DeserializeOwned>(path: &str) -> T {
    static FILE: LazyLock<Value> =
        LazyLock::new(|| Value::Table(DEFAULT.parse::<Table>().expect("default.toml is TOML")));
    let found = path.split('.').try_fold(&*FILE, |table, name| table.get(name));
    let value = found.unwrap_or_else(|| panic!("default.toml has no {path}")).clone();
    T::deserialize(value).unwrap_or_else(|error| {
        panic!("{path} in default.toml is not what its options declare: {error}")
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::panic::catch_unwind;

    use super::*;

    fn refusal<T: DeserializeOwned + std::fmt::Debug>(path: &'static str) -> String {
        let panic = catch_unwind(|| default_of::<T>(path)).expect_err("the path is refused");
        *panic.downcast::<String>().expect("a message")
    }

    #[test]
    fn tables_and_keys_are_read() {
        assert_eq!(default_of::<String>("capture"), "auto");
        assert_eq!(default_of::<String>("queries.role"), "tidewire_live");
        assert_eq!(default_of::<BTreeMap<String, u64>>("sqlite")["read_connections"], 4);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        assert_eq!(refusal::<String>("no.such"), "default.toml has no no.such");
        assert!(refusal::<u64>("capture").starts_with("capture in default.toml is not what"));
        assert!(refusal::<Vec<u64>>("sqlite").starts_with("sqlite in default.toml is not what"));
    }
}
