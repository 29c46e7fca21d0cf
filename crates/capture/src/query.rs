//! The queries of `sql`, which the store runs as it does its own: each prepared once a connection.

pub(crate) use tidewire_store_postgres::captured::{Param, execute, query, query_one};

/// One query, from its own file.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/", $name, ".sql"))
    };
}
pub(crate) use sql;
