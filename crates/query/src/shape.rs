//! What a query must know of the tables it reads, and what its caller may see of them.

use std::sync::Arc;

use crate::table::{Column, Dialect, Table};

/// A table's name as a query writes it, folded as the database folds it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TableName {
    /// The schema, where it is written.
    pub schema: Option<Box<str>>,
    /// The name itself.
    pub name: Box<str>,
}

/// A watched table as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableShape {
    /// As its events and its stream call it.
    pub name: String,
    /// As SQL calls it: in quotes, with its schema. Put into queries as it is.
    pub sql_name: String,
    /// All its columns, in its own order.
    pub columns: Vec<ShapeColumn>,
    /// Those that tell rows apart; none if the whole row does.
    pub key: Vec<String>,
    /// The one that says whose tenant's a row is.
    pub host_column: Option<String>,
    /// Of all that is said here, and of which table it is: what the store compares when it reads, so
    /// that a query never reads a table that is another by then.
    pub fingerprint: u64,
    /// The database itself has rules about its rows: only the database can say which are seen.
    pub row_security: bool,
    /// Others inherit from it, which are no partitions: their rows are found in it, and their changes
    /// are not its.
    pub inherited: bool,
}

impl TableShape {
    /// The table for predicates: the columns that images have.
    pub(crate) fn images(&self, dialect: Dialect) -> Table {
        let stored = self.columns.iter().filter(|column| !column.generated);
        Table { dialect, columns: stored.map(|column| column.column.clone()).collect() }
    }
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShapeColumn {
    /// Its name, type and collation.
    pub column: Column,
    /// Computed from others: no image has it.
    pub generated: bool,
    /// Of `numeric(p, s)`: s. None for a numeric of any scale, and for other types.
    pub scale: Option<u16>,
    /// What a SELECT gives of it is not what an image has (`json`, composite types): it is read as
    /// `to_jsonb(column)`.
    pub json_text: bool,
}

/// What of a table someone may see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// These columns, if not all.
    pub columns: Option<Vec<Box<str>>>,
    /// Rows for which all of these hold: conditions in SQL over all columns.
    pub rules: Vec<Box<str>>,
    /// Rows of these tenants, if not of all.
    pub tenants: Option<TenantRule>,
}

/// Rows of some tenants.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TenantRule {
    /// Which; compared with the text of the table's host column.
    pub hosts: Arc<[String]>,
    /// Whether rows of no tenant are seen too.
    pub shared: bool,
}

/// How large queries may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryLimits {
    /// Rows of a result, at most.
    pub rows_max: usize,
    /// Rows that a window keeps beyond what is seen of it.
    pub window_slack: usize,
    /// Whether conditions of those who may see part of a table's rows are kept away from its indexes: how
    /// long a look into one takes tells of rows that they may not see.
    pub hide_timing: bool,
}
