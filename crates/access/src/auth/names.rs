//! Resolves a table's name, as written in a rule, a scope or the configuration, to a watched table.
//!
//! Names are read as the database reads them: PostgreSQL folds those without quotes to lower case and
//! finds them by its search path, SQLite takes any case of letters, and `public.orders` or `main.orders`
//! may be `orders`. A table's own name for its events (`table/NAME`) means it too.
//!
//! This is the one place that decides so, and it errs to the safe side: a rule holds for every table
//! that its name can mean ([`TableNames::narrows`]), while a permission is for one
//! ([`TableNames::grants`]).

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, Notify};

use tidewire_query::{Dialect, TableName};
use tidewire_store::{SharedStore, StoreError, WatchedName, table_name};

/// How long it is believed that a table is not watched: asking is not free, and anyone may ask.
pub const FRESH: Duration = Duration::from_secs(1);
/// A name as someone wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    pub text: Box<str>,
    /// As SQL reads it; none if it is no name there.
    name: Option<TableName>,
}

impl Written {
    /// The name as SQL reads it, if it is one there.
    pub fn sql_name(&self) -> Option<&TableName> {
        self.name.as_ref()
    }
}

/// The names of the watched tables. Cheap to clone; all clones know the same.
#[derive(Debug, Clone)]
pub struct TableNames(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    dialect: Dialect,
    known: RwLock<Arc<TableNameIndex>>,
    /// Rises when a table is not what it was.
    doubts: AtomicU64,
    /// Held while they are read, so that many who come at once ask the store once.
    reading: Mutex<()>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct TableNameIndex {
    /// Before they were read, if they were.
    as_of: Option<Instant>,
    /// How many doubts there had been.
    doubts: u64,
    /// By the names of their events, what SQL calls them.
    tables: BTreeMap<Box<str>, TableName>,
    /// By what SQL calls them, the names of their events.
    by_sql: HashMap<TableName, Box<str>>,
    /// The watched tables that one inherits from, where there are any.
    ancestors: HashMap<Box<str>, Vec<String>>,
}

/// Two lists of names are alike if they speak of the same database.
impl PartialEq for TableNames {
    fn eq(&self, other: &TableNames) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.dialect == other.0.dialect
    }
}

impl Eq for TableNames {}

impl TableNames {
    /// Those of a database of which nothing is known yet.
    pub fn new(dialect: Dialect) -> TableNames {
        TableNames(Arc::new(Shared {
            dialect,
            known: RwLock::default(),
            doubts: AtomicU64::new(0),
            reading: Mutex::default(),
            changed: Notify::new(),
        }))
    }

    pub fn dialect(&self) -> Dialect {
        self.0.dialect
    }

    pub fn read(&self, text: &str) -> Written {
        Written { text: text.into(), name: TableName::read(text, self.0.dialect) }
    }

    /// Whether a rule under this name is one for a table, by the name of its events: if it can mean it, or
    /// a table that it inherits from, whose rows its own are.
    pub fn narrows(&self, written: &Written, table: &str) -> bool {
        let known = self.known();
        let mut ancestors = known.ancestors.get(table).into_iter().flatten();
        self.can_mean(written, table) || ancestors.any(|above| self.can_mean(written, above))
    }

    fn can_mean(&self, written: &Written, table: &str) -> bool {
        *written.text == *table
            || written.name.as_ref().is_some_and(|name| {
                self.known().by_sql.get(name).is_some_and(|known| **known == *table)
                    || self.is_spelt(name, table)
            })
    }

    /// Whether something that is allowed under this name is allowed of a table: if it means that and no
    /// other. Whose events have just this name comes first.
    pub fn grants(&self, written: &Written, table: &str) -> bool {
        let known = self.known();
        if *written.text == *table {
            return true;
        }
        let Some(name) = &written.name else { return false };
        match known.by_sql.get(name) {
            _ if known.tables.contains_key(&*written.text) => false,
            Some(means) => **means == *table,
            None => self.is_spelt(name, table),
        }
    }

    /// Whether a table would be called so, if it were not watched under another name.
    fn is_spelt(&self, name: &TableName, table: &str) -> bool {
        let usual = self.usual_schema();
        let schema = name.schema.as_deref().filter(|schema| *schema != usual);
        let spelt = table_name(schema, &name.name);
        match self.0.dialect {
            Dialect::Postgres => spelt == table,
            Dialect::Sqlite => spelt.eq_ignore_ascii_case(table),
        }
    }

    /// The schema that events do not name.
    pub(crate) fn usual_schema(&self) -> &'static str {
        match self.0.dialect {
            Dialect::Postgres => "public",
            Dialect::Sqlite => "main",
        }
    }

    /// The watched tables that a rule under this name is for.
    pub fn meant(&self, written: &Written) -> Vec<(Box<str>, TableName)> {
        let known = self.known();
        let all = known.tables.iter().filter(|(table, _)| self.narrows(written, table));
        all.map(|(table, name)| (table.clone(), name.clone())).collect()
    }

    /// Whether it means a watched table at all.
    pub fn means_any(&self, written: &Written) -> bool {
        let known = self.known();
        known.tables.contains_key(&*written.text)
            || written.name.as_ref().is_some_and(|name| known.by_sql.contains_key(name))
            || !self.meant(written).is_empty()
    }

    /// The watched table that was meant, perhaps.
    pub fn nearest(&self, written: &Written) -> Option<Box<str>> {
        let known = self.known();
        let tables = || known.tables.keys().map(|table| &**table);
        // Of `orders` and `Orders`, the one that SQL means without quotes.
        let unquoted = tables().filter(|table| !table.contains(char::is_uppercase));
        let near = tidewire_query::nearest(&written.text, unquoted);
        near.or_else(|| tidewire_query::nearest(&written.text, tables())).map(Box::from)
    }

    /// The watched tables, by the names of their events.
    pub fn tables(&self) -> Vec<Box<str>> {
        self.known().tables.keys().cloned().collect()
    }

    /// Something may be another table by now.
    pub fn doubt(&self) {
        self.0.doubts.fetch_add(1, Ordering::AcqRel);
        self.0.changed.notify_one();
    }

    /// Waits until there is a doubt.
    pub async fn doubted(&self) {
        self.0.changed.notified().await;
    }

    /// Reads the names again if a table may have another one, or is not known to be watched.
    pub async fn look_for(&self, store: &SharedStore, table: &str) -> Result<(), StoreError> {
        let known = self.known();
        let is_sure = known.doubts == self.0.doubts.load(Ordering::Acquire);
        if is_sure && known.tables.contains_key(table) {
            return Ok(());
        }
        self.look(store, FRESH).await
    }

    /// Reads the names again, unless that was done so lately and nothing changed since.
    pub async fn look(&self, store: &SharedStore, lately: Duration) -> Result<(), StoreError> {
        let _turn = self.0.reading.lock().await;
        let (now, doubts) = (Instant::now(), self.0.doubts.load(Ordering::Acquire));
        let known = self.known();
        let is_fresh = known.as_of.is_some_and(|as_of| now.duration_since(as_of) < lately);
        if is_fresh && known.doubts == doubts {
            return Ok(());
        }
        let names = store.watched_names().await?;
        self.learn(names, now, doubts);
        Ok(())
    }

    fn learn(&self, names: Vec<WatchedName>, now: Instant, doubts: u64) {
        let mut known = TableNameIndex { as_of: Some(now), doubts, ..TableNameIndex::default() };
        for WatchedName { table, schema, name, bare, ancestors } in names {
            let folded = match self.0.dialect {
                Dialect::Postgres => name,
                Dialect::Sqlite => name.to_ascii_lowercase(),
            };
            let table: Box<str> = table.into();
            if !ancestors.is_empty() {
                known.ancestors.insert(table.clone(), ancestors);
            }
            let bare = bare.then(|| TableName { schema: None, name: folded.as_str().into() });
            let full = TableName { schema: Some(schema.into()), name: folded.into() };
            known.by_sql.extend(bare.map(|bare| (bare, table.clone())));
            known.by_sql.insert(full.clone(), table.clone());
            known.tables.insert(table, full);
        }
        *self.0.known.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(known);
    }

    fn known(&self) -> Arc<TableNameIndex> {
        Arc::clone(&self.0.known.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl TableNames {
    /// For tests: those of a database that has these tables: events' name, schema, name, and whether it is bare.
    pub fn of(dialect: Dialect, tables: &[(&str, &str, &str, bool)]) -> TableNames {
        let names = TableNames::new(dialect);
        let name = |(table, schema, name, bare): &(&str, &str, &str, bool)| WatchedName {
            table: (*table).to_owned(),
            schema: (*schema).to_owned(),
            name: (*name).to_owned(),
            bare: *bare,
            ancestors: Vec::new(),
        };
        names.learn(tables.iter().map(name).collect(), Instant::now(), 0);
        names
    }

    /// For tests: those of a PostgreSQL without tables.
    pub fn none() -> TableNames {
        TableNames::new(Dialect::Postgres)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn postgres() -> TableNames {
        TableNames::of(
            Dialect::Postgres,
            &[
                ("orders", "public", "orders", true),
                ("sales.items", "sales", "items", true),
                ("stock.bins", "stock", "bins", false),
                ("Orders", "public", "Orders", true),
                ("old", "public", "renamed", true),
                ("Odd Name", "public", "Odd Name", true),
            ],
        )
    }

    fn meant(names: &TableNames, text: &str) -> Vec<String> {
        let meant = names.meant(&names.read(text)).into_iter();
        meant.map(|(table, _)| table.to_string()).collect()
    }

    #[test]
    fn postgres_folds_names_and_finds_them_by_its_path() {
        let names = postgres();
        for (text, tables) in [
            ("orders", &["orders"][..]),
            ("ORDERS", &["orders"]),
            ("public.orders", &["orders"]),
            ("Public.Orders", &["orders"]),
            ("\"Public\".orders", &[]),
            ("\"Orders\"", &["Orders"]),
            ("public.\"Orders\"", &["Orders"]),
            ("items", &["sales.items"]),
            ("sales.items", &["sales.items"]),
            ("public.items", &[]),
            ("bins", &[]),
            ("STOCK.Bins", &["stock.bins"]),
            ("renamed", &["old"]),
            ("old", &["old"]),
            ("Odd Name", &["Odd Name"]),
            ("\"Odd Name\"", &["Odd Name"]),
            ("order", &[]),
            ("", &[]),
        ] {
            assert_eq!(meant(&names, text), tables, "{text}");
            assert_eq!(names.means_any(&names.read(text)), !tables.is_empty(), "{text}");
        }
    }

    #[test]
    fn a_rule_holds_for_all_that_its_name_can_mean_and_a_permission_for_one() {
        let names = postgres();
        assert_eq!(meant(&names, "Orders"), ["Orders", "orders"]);
        let granted = |text: &str, table: &str| names.grants(&names.read(text), table);
        assert!(granted("Orders", "Orders") && !granted("Orders", "orders"));
        assert!(granted("ORDERS", "orders") && !granted("ORDERS", "Orders"));
        assert!(granted("items", "sales.items") && !granted("items", "stock.bins"));
        assert!(granted("public.later", "later"), "one that is not watched");
        let tables = [("items", "public", "items", false), ("sales.items", "sales", "items", true)];
        let names = TableNames::of(Dialect::Postgres, &tables);
        let granted = |table: &str| names.grants(&names.read("items"), table);
        assert!(granted("items") && !granted("sales.items"), "events of that very name come first");
    }

    #[test]
    fn a_rule_for_a_table_holds_for_those_that_inherit_from_it_and_a_permission_does_not() {
        let names = TableNames::new(Dialect::Postgres);
        let named = |table: &str, ancestors: &[&str]| WatchedName {
            table: table.to_owned(),
            schema: "public".to_owned(),
            name: table.to_owned(),
            bare: true,
            ancestors: ancestors.iter().map(|&name| name.to_owned()).collect(),
        };
        names.learn(vec![named("par", &[]), named("chi", &["par"])], Instant::now(), 0);
        let written = names.read("public.par");
        assert!(names.narrows(&written, "par") && names.narrows(&written, "chi"));
        assert!(names.grants(&written, "par") && !names.grants(&written, "chi"));
        assert!(!names.narrows(&names.read("chi"), "par"));
    }

    #[test]
    fn sqlite_takes_any_case_of_letters() {
        let names = TableNames::of(Dialect::Sqlite, &[("Orders", "main", "Orders", true)]);
        for text in ["orders", "ORDERS", "\"oRders\"", "main.orders", "Main.\"Orders\"", "[orders]"]
        {
            assert_eq!(meant(&names, text), ["Orders"], "{text}");
        }
        for text in ["public.orders", "temp.orders", "order"] {
            assert!(meant(&names, text).is_empty(), "{text}");
        }
        let later = names.read("MAIN.Later");
        assert!(names.narrows(&later, "later"), "one that is not known yet");
    }

    #[test]
    fn the_nearest_name_is_found() {
        let names = postgres();
        let nearest = |text: &str| names.nearest(&names.read(text)).map(String::from);
        assert_eq!(nearest("oders").as_deref(), Some("orders"));
        assert_eq!(nearest("zebra"), None);
    }
}
