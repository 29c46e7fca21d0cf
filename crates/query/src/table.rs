//! What a predicate must know of the table whose rows it tests.

/// A column, as the database describes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Column {
    /// Its name, as the images of rows have it.
    pub name: String,
    /// Its type, as the database calls it.
    ///
    /// PostgreSQL: `pg_type.typname`, such as `int4`, `text` or `_text`, with the schema and a dot
    /// before it where that is not `pg_catalog`; that of an enum with the word `enum` before it (`enum
    /// public.mood`), because its labels can be told apart though not ordered. A label that the enum
    /// does not have is equal to none, where the database would complain: it may come to have it.
    /// A name that is not known is refused, so that domains, composite types and those of extensions
    /// need no word of their own.
    ///
    /// SQLite: the declared type, empty if there is none.
    pub type_name: String,
    /// Its collation.
    ///
    /// PostgreSQL: the name, such as `C` or `en_US.utf8`; for the database's default one either that
    /// of the database or `default`; for those that users made the name in quotes, with the schema's.
    /// Text is ordered only under `C` and `POSIX`, and not compared at all under collations of
    /// users, which can find different texts equal.
    ///
    /// SQLite: that of the declaration, `BINARY` if there is none.
    pub collation: Option<String>,
}

/// Whose SQL it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// PostgreSQL 14 or newer.
    Postgres,
    /// SQLite 3, with a file in UTF-8.
    Sqlite,
}

/// A table: those of its columns that the images of its rows have. Generated columns are not there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Table {
    /// Whose rules hold.
    pub dialect: Dialect,
    /// Its columns.
    pub columns: Vec<Column>,
}
