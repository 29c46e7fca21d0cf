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
    ($store:literal: $($number:literal $name:literal),+ $(,)?) => {
        &[$(Migration {
            number: $number,
            name: $name,
            sql: include_str!(concat!("../migrations/", $store, "/000", $number, "_", $name, ".sql")),
        }),+]
    };
}

pub(crate) const SQLITE: &[Migration] =
    migrations!("sqlite": 1 "log", 2 "streams", 3 "subscriptions");

pub(crate) const POSTGRES: &[Migration] =
    migrations!("postgres": 1 "log", 2 "streams", 3 "subscriptions");

/// The schema version that an opened store has, which is the same for both.
pub const SCHEMA_VERSION: i32 = 3;

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
