//! The numbered migrations that the binary carries, for both stores.
//!
//! A migration is immutable once released. Both stores have the same numbers and names, so that
//! "schema version 3" means the same thing everywhere.

use crate::error::StoreError;

/// One step of the schema.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Migration {
    pub(crate) number: i32,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

macro_rules! migrations {
    ($store:literal: $($file:literal),+ $(,)?) => {
        &[$(Migration::of_file(
            $file,
            include_str!(concat!("../migrations/", $store, "/", $file, ".sql")),
        )),+]
    };
}

pub(crate) const SQLITE: &[Migration] = migrations!(
    "sqlite": "0001_log", "0002_streams", "0003_subscriptions", "0004_sessions", "0005_nodes",
    "0006_access", "0007_capture", "0008_wal", "0009_retention",
    "0010_entities", "0011_consumers", "0012_queries", "0013_groups", "0014_actors",
    "0015_light_rows", "0016_repairs", "0017_failover", "0018_sizes", "0019_names",
);

pub(crate) const POSTGRES: &[Migration] = migrations!(
    "postgres": "0001_log", "0002_streams", "0003_subscriptions", "0004_sessions", "0005_nodes",
    "0006_access", "0007_capture", "0008_wal", "0009_retention",
    "0010_entities", "0011_consumers", "0012_queries", "0013_groups", "0014_actors",
    "0015_light_rows", "0016_repairs", "0017_failover", "0018_sizes", "0019_names",
);

impl Migration {
    /// Takes number and name from a file's name: four digits, an underscore, the name.
    const fn of_file(file: &'static str, sql: &'static str) -> Migration {
        let (digits, rest) = file.split_at(4);
        let (underscore, name) = rest.split_at(1);
        assert!(underscore.as_bytes()[0] == b'_');
        let mut number = 0;
        let mut at = 0;
        while at < digits.len() {
            assert!(digits.as_bytes()[at].is_ascii_digit());
            number = number * 10 + (digits.as_bytes()[at] - b'0') as i32;
            at += 1;
        }
        Migration { number, name, sql }
    }
}

/// The schema version that an opened store has, which is the same for both.
pub const SCHEMA_VERSION: i32 = 19;

// The tidy test keeps the stores' lists alike; this keeps the number in step with them.
const _: () = assert!(SQLITE[SQLITE.len() - 1].number == SCHEMA_VERSION);
const _: () = assert!(POSTGRES[POSTGRES.len() - 1].number == SCHEMA_VERSION);

/// The migrations that a database at `version` still needs. A version the binary does not know was
/// written by a newer binary, and is refused: reading it could go wrong in ways nobody would see.
pub(crate) fn pending(
    migrations: &'static [Migration],
    version: i32,
) -> Result<&'static [Migration], StoreError> {
    let newest = migrations.last().map_or(0, |migration| migration.number);
    if version > newest {
        return Err(StoreError::Refused(format!(
            "the database has schema version {version}, but this tidewire knows versions up to \
             {newest} only; run the tidewire that made it, or a newer one"
        )));
    }
    let done = migrations.iter().filter(|migration| migration.number <= version).count();
    Ok(&migrations[done..])
}
