//! Which names mean what: tables and their columns, from the innermost SELECT outwards.

use sqlparser::ast::Ident;

use crate::table::Dialect;

/// A name as the database folds it.
pub(crate) fn folded(name: &Ident, dialect: Dialect) -> String {
    match dialect {
        Dialect::Postgres if name.quote_style.is_some() => name.value.clone(),
        Dialect::Postgres | Dialect::Sqlite => name.value.to_ascii_lowercase(),
    }
}

/// Whether a column's name is the one that was written.
pub(crate) fn is_named(known: &str, written: &str, dialect: Dialect) -> bool {
    match dialect {
        Dialect::Postgres => known == written,
        Dialect::Sqlite => known.eq_ignore_ascii_case(written),
    }
}

/// A column that something gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Output {
    pub(crate) name: String,
    /// The occurrence of a base table, and which of its columns it is, if it is nothing but that.
    pub(crate) from: Option<(usize, usize)>,
}

/// Something in FROM.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// What its columns may have before them.
    pub(crate) name: Option<String>,
    /// None if they are not known yet: then every name is one of them.
    pub(crate) columns: Option<Vec<Output>>,
    /// Whether the name alone stands for its value.
    pub(crate) is_value: bool,
}

/// A SELECT's names, and those around it.
#[derive(Debug, Default)]
pub(crate) struct Scope<'p> {
    pub(crate) around: Option<&'p Scope<'p>>,
    pub(crate) sources: Vec<Source>,
    /// The names that its result's columns were given, where they may be used.
    pub(crate) aliases: Vec<String>,
    /// Columns in the order of `*`.
    pub(crate) star: Option<Vec<Output>>,
}

/// What a name turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// These columns of base tables; none if it is one of something else.
    Columns(Vec<(usize, usize)>),
    Nothing,
}

impl Scope<'_> {
    /// A column without a table before it.
    pub(crate) fn column(&self, name: &str, dialect: Dialect) -> Found {
        let mut scope = Some(self);
        while let Some(here) = scope {
            let mut found = false;
            let mut columns = Vec::new();
            let mut open = false;
            for source in &here.sources {
                found |= source.is_value
                    && source.name.as_deref().is_some_and(|it| is_named(it, name, dialect));
                let Some(known) = &source.columns else {
                    open = true;
                    continue;
                };
                for column in known.iter().filter(|it| is_named(&it.name, name, dialect)) {
                    found = true;
                    columns.extend(column.from);
                }
            }
            let is_alias = here.aliases.iter().any(|alias| is_named(alias, name, dialect));
            if found || open || is_alias {
                return Found::Columns(columns);
            }
            scope = here.around;
        }
        Found::Nothing
    }

    /// A column of a table. None if there is no such table.
    pub(crate) fn column_of(&self, table: &str, name: &str, dialect: Dialect) -> Option<Found> {
        let source = self.source(table, dialect)?;
        let Some(known) = &source.columns else { return Some(Found::Columns(Vec::new())) };
        let column = known.iter().find(|it| is_named(&it.name, name, dialect));
        Some(column.map_or(Found::Nothing, |it| Found::Columns(it.from.into_iter().collect())))
    }

    pub(crate) fn source(&self, name: &str, dialect: Dialect) -> Option<&Source> {
        let is_it =
            |source: &&Source| source.name.as_deref().is_some_and(|it| is_named(it, name, dialect));
        let here = self.sources.iter().find(is_it);
        here.or_else(|| self.around.and_then(|around| around.source(name, dialect)))
    }

    /// All columns' names that can be used, to find the one that was meant.
    pub(crate) fn names(&self) -> Vec<&str> {
        let known = self.sources.iter().flat_map(|source| source.columns.iter().flatten());
        let mut names: Vec<&str> = known.map(|column| column.name.as_str()).collect();
        names.extend(self.around.iter().flat_map(|around| around.names()));
        names
    }
}
