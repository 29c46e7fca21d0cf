//! The columns of tables, as this node knows them, and the row filters that were made with them.
//!
//! A change of a table's columns is an event of its stream. When the follower sees one, before it hands
//! out what came with it, the table's generation rises: what is known of it is forgotten, and row filters
//! that were made with it are not current any more.
//!
//! The event may come a little after rows that have the other columns already. A row filter that finds such a
//! row says so ([`FilterError`](super::filter::Doubt)); then the columns are read again, and if they are others
//! the generation rises as if the event had come.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tidewire_query::{Column, Dialect, Predicate, Table};
use tidewire_store::{Control, Position, SharedStore, TableView, TailEvent};

use super::filter::RowFilter;
use super::refusal;
use super::view::{View, covers, table_of};
use tidewire_access::auth::names::TableNames;
use tidewire_access::problem::Problem;

/// Tables that are remembered. Those that are looked at stay, whatever their number.
const TABLES_MAX: usize = 1_000;

/// What this node knows of tables.
#[derive(Debug)]
pub struct Tables {
    known: Mutex<HashMap<Box<str>, Arc<Schema>>>,
    /// Which are to be read again when a table is not what it was.
    names: TableNames,
}

/// What is known of one table.
#[derive(Debug, Default)]
pub(super) struct Schema {
    generation: AtomicU64,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    columns: Option<CachedColumns>,
    /// Up to here there were rows that are not as the columns of their time said: what was read earlier
    /// is to be read again.
    doubted: Position,
    lenses: HashMap<View, Weak<RowFilter>>,
}

/// Columns that were read.
#[derive(Debug, Clone)]
struct CachedColumns {
    generation: u64,
    /// They were read when this node had seen the log up to here.
    as_of: Position,
    columns: Arc<TableView>,
}

impl Schema {
    /// Has the columns read again, because a row up to a position is not as they say.
    pub(super) fn doubt(&self, position: Position) {
        let mut inner = self.inner();
        inner.doubted = inner.doubted.max(position);
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn row_filter(&self, view: &View) -> Option<Arc<RowFilter>> {
        let row_filter = self.inner().lenses.get(view)?.upgrade()?;
        row_filter.is_current().then_some(row_filter)
    }

    fn keep(&self, row_filter: &Arc<RowFilter>) {
        let mut inner = self.inner();
        // Each doubling looks for those that nobody uses any more.
        if inner.lenses.len() == inner.lenses.capacity() {
            inner.lenses.retain(|_, row_filter| row_filter.strong_count() > 0);
        }
        inner.lenses.insert(row_filter.view.clone(), Arc::downgrade(row_filter));
    }
}

impl Tables {
    pub fn new(names: TableNames) -> Tables {
        Tables { known: Mutex::default(), names }
    }

    fn schema(&self, table: &str) -> Arc<Schema> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(schema) = known.get(table) {
            return Arc::clone(schema);
        }
        if known.len() >= TABLES_MAX {
            known.retain(|_, schema| Arc::strong_count(schema) > 1);
        }
        let schema = Arc::<Schema>::default();
        known.insert(table.into(), Arc::clone(&schema));
        schema
    }

    /// Forgets what is known of tables that these events say are not what they were.
    pub fn hear(&self, events: &[TailEvent]) {
        let changes = events.iter().filter(|event| {
            let control = event.control;
            matches!(control, Some(Control::Schema | Control::Create | Control::Delete))
        });
        for table in changes.filter_map(|event| table_of(&event.stream)) {
            self.names.doubt();
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(schema) = known.get(table) {
                schema.generation.fetch_add(1, Ordering::AcqRel);
            }
        }
    }

    /// The row filter of a view, if there is one and it is current.
    pub fn current(&self, view: &View) -> Option<Arc<RowFilter>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let schema = known.get(view.table()).map(Arc::clone)?;
        drop(known);
        schema.row_filter(view)
    }

    /// The row filter of a view, with the table's columns as they are, for a node that has seen the log up to a
    /// position.
    pub async fn bind(
        &self,
        store: &SharedStore,
        view: &View,
        position: Position,
    ) -> Result<Arc<RowFilter>, Problem> {
        let schema = self.schema(view.table());
        loop {
            if let Some(row_filter) = schema.row_filter(view) {
                return Ok(row_filter);
            }
            let generation = schema.generation();
            let known = columns(store, &schema, view.table(), generation, position).await?;
            let row_filter = make(store, &schema, view, &known);
            if schema.generation() != generation {
                continue;
            }
            let row_filter = Arc::new(row_filter?);
            schema.keep(&row_filter);
            return Ok(row_filter);
        }
    }

    /// Whether a table is watched, or the problem that says that it is not.
    pub async fn watched(
        &self,
        store: &SharedStore,
        table: &str,
        position: Position,
    ) -> Result<(), Problem> {
        let schema = self.schema(table);
        let known = columns(store, &schema, table, schema.generation(), position).await?;
        match &*known.columns {
            TableView::Watched { .. } => Ok(()),
            TableView::NotWatched => Err(refusal::table_not_watched(table)),
            TableView::Unknown => Err(refusal::table_not_found(table)),
        }
    }
}

async fn columns(
    store: &SharedStore,
    schema: &Schema,
    table: &str,
    generation: u64,
    as_of: Position,
) -> Result<CachedColumns, Problem> {
    let (former, doubted) = {
        let inner = schema.inner();
        (inner.columns.clone().filter(|known| known.generation == generation), inner.doubted)
    };
    if let Some(known) = former.as_ref().filter(|known| known.as_of >= doubted) {
        return Ok(known.clone());
    }
    let columns = Arc::new(store.columns(table).await?);
    let known = CachedColumns { generation, as_of, columns };
    if former.is_some_and(|former| former.columns != known.columns) {
        // The event that says so is yet to come. Whoever else looks at the table must not wait for it.
        let (now, next) = (Ordering::AcqRel, generation + 1);
        let _ = schema.generation.compare_exchange(generation, next, now, Ordering::Acquire);
    }
    // What is not watched is not told when it changes.
    if matches!(*known.columns, TableView::Watched { .. }) && schema.generation() == generation {
        schema.inner().columns = Some(known.clone());
    }
    Ok(known)
}

/// The SQL that a store speaks.
pub fn dialect(store: &SharedStore) -> Dialect {
    if store.backend() == "SQLite" { Dialect::Sqlite } else { Dialect::Postgres }
}

/// Makes a row filter of a view.
fn make(
    store: &SharedStore,
    schema: &Arc<Schema>,
    view: &View,
    known: &CachedColumns,
) -> Result<RowFilter, Problem> {
    let asked = view.asked();
    let (described, key, host_column) = match &*known.columns {
        TableView::Watched { columns, key_columns, host_column } => {
            (columns, key_columns, host_column)
        }
        TableView::NotWatched => return Err(refusal::table_not_watched(&asked.table)),
        TableView::Unknown => return Err(refusal::table_not_found(&asked.table)),
    };
    if host_column.is_none() && asked.tenants.as_ref().is_some_and(|tenants| !covers(tenants, None))
    {
        // Its rows are of no tenant, as streams may be, and out of this caller's reach.
        return Err(crate::refusal::not_found());
    }
    let dialect = dialect(store);
    let permitted = |name: &str| {
        asked.columns.as_ref().is_none_or(|columns| columns.iter().any(|own| **own == *name))
    };
    let table = |all: bool| Table {
        dialect,
        columns: described
            .iter()
            .filter(|column| all || permitted(&column.name))
            .map(|column| Column {
                name: column.name.clone(),
                type_name: column.type_name.clone(),
                collation: column.collation.clone(),
            })
            .collect(),
    };
    let (whole, visible) = (table(true), table(false));
    let rule = |text: &str| {
        Predicate::parse(text, &whole, &asked.person)
            .map_err(|refused| refusal::rule_refused(&asked.table, text, &refused))
    };
    let filter = |text: &str| {
        Predicate::of_client(text, &visible, &asked.person).map_err(refusal::filter_refused)
    };
    Ok(RowFilter {
        view: view.clone(),
        schema: Arc::clone(schema),
        generation: known.generation,
        as_of: known.as_of,
        is_doubted: AtomicBool::new(false),
        rules: asked.rules.iter().map(|text| rule(text)).collect::<Result<_, _>>()?,
        filter: asked.filter.as_deref().map(filter).transpose()?,
        host_column: host_column.as_deref().filter(|_| asked.tenants.is_some()).map(Into::into),
        columns: asked
            .columns
            .as_ref()
            .map(|_| visible.columns.iter().map(|column| column.name.as_str().into()).collect()),
        key: key.iter().map(|name| name.as_str().into()).collect(),
        values: described
            .iter()
            .filter(|column| !key.contains(&column.name))
            .map(|column| column.name.as_str().into())
            .collect(),
    })
}
