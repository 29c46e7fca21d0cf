//! The numbered migrations of the stores' schema.
//!
//! A migration is immutable once released. All stores have the same numbers and names, so that
//! "schema version 3" means the same thing everywhere; the SQL is each store's own.

use crate::error::StoreError;

/// One step of the schema.
#[derive(Debug, Clone, Copy)]
pub struct Migration {
    pub number: i32,
    pub name: &'static str,
    pub sql: &'static str,
}

/// The schema version that an opened store has, which is the same for all: the last number below.
pub const SCHEMA_VERSION: i32 = 19;

/// A store's migrations, in order, from the folder `migrations` of its crate.
#[macro_export]
macro_rules! migrations {
    () => {
        $crate::migrations![
            "0001_log", "0002_streams", "0003_subscriptions", "0004_sessions", "0005_nodes",
            "0006_access", "0007_capture", "0008_wal", "0009_retention", "0010_entities",
            "0011_consumers", "0012_queries", "0013_groups", "0014_actors", "0015_light_rows",
            "0016_repairs", "0017_failover", "0018_sizes", "0019_names",
        ]
    };
    ($($file:literal),+ $(,)?) => {{
        const MIGRATIONS: &[$crate::migration::Migration] = &[$($crate::migration::Migration::of_file(
            $file,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/", $file, ".sql")),
        )),+];
        const { assert!(MIGRATIONS[MIGRATIONS.len() - 1].number == $crate::SCHEMA_VERSION) }
        MIGRATIONS
    }};
}

impl Migration {
    /// Takes number and name from a file's name: four digits, an underscore, the name.
    #[must_use]
    pub const fn of_file(file: &'static str, sql: &'static str) -> Migration {
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

/// The migrations that a database at `version` still needs. A version the binary does not know was
/// written by a newer binary, and is refused: reading it could go wrong in ways nobody would see.
pub fn pending(
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
