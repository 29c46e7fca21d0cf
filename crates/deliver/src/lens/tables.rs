//! The columns of tables, as this node knows them, and the lenses that were made with them.
//!
//! A change of a table's columns is an event of its stream. When the follower sees one, before it hands
//! out what came with it, the table's generation rises: what is known of it is forgotten, and lenses
//! that were made with it are not current any more.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tidewire_query::{Column, Dialect, Predicate, Table};
use tidewire_store::{Control, SharedStore, TableView, TailEvent};

use super::look::Lens;
use super::refusal;
use super::view::{View, table_of};
use crate::problem::Problem;

/// Tables that are remembered. Those that are looked at stay, whatever their number.
const TABLES_MAX: usize = 1_000;

/// What this node knows of tables.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    known: Mutex<HashMap<Box<str>, Arc<Schema>>>,
}

/// What is known of one table.
#[derive(Debug, Default)]
pub(super) struct Schema {
    generation: AtomicU64,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// With the generation that it is of.
    columns: Option<(u64, Arc<TableView>)>,
    lenses: HashMap<View, Weak<Lens>>,
}

impl Schema {
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lens(&self, view: &View) -> Option<Arc<Lens>> {
        let lens = self.inner().lenses.get(view)?.upgrade()?;
        lens.is_current().then_some(lens)
    }

    fn keep(&self, lens: &Arc<Lens>) {
        let mut inner = self.inner();
        // Each doubling looks for those that nobody uses any more.
        if inner.lenses.len() == inner.lenses.capacity() {
            inner.lenses.retain(|_, lens| lens.strong_count() > 0);
        }
        inner.lenses.insert(lens.view.clone(), Arc::downgrade(lens));
    }
}

impl Tables {
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
    pub(crate) fn hear(&self, events: &[TailEvent]) {
        let changes = events.iter().filter(|event| {
            let control = event.control;
            matches!(control, Some(Control::Schema | Control::Create | Control::Delete))
        });
        for table in changes.filter_map(|event| table_of(&event.stream)) {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(schema) = known.get(table) {
                schema.generation.fetch_add(1, Ordering::AcqRel);
            }
        }
    }

    /// The lens of a view, if there is one and it is current.
    pub(crate) fn current(&self, view: &View) -> Option<Arc<Lens>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let schema = known.get(view.table()).map(Arc::clone)?;
        drop(known);
        schema.lens(view)
    }

    /// The lens of a view, with the table's columns as they are.
    pub(crate) async fn bind(
        &self,
        store: &SharedStore,
        view: &View,
    ) -> Result<Arc<Lens>, Problem> {
        let schema = self.schema(view.table());
        loop {
            if let Some(lens) = schema.lens(view) {
                return Ok(lens);
            }
            let generation = schema.generation();
            let columns = columns(store, &schema, view.table(), generation).await?;
            let lens = make(store, &schema, generation, view, &columns);
            if schema.generation() != generation {
                continue;
            }
            let lens = Arc::new(lens?);
            schema.keep(&lens);
            return Ok(lens);
        }
    }

    /// Whether a table is watched, or the problem that says that it is not.
    pub(crate) async fn watched(&self, store: &SharedStore, table: &str) -> Result<(), Problem> {
        let schema = self.schema(table);
        match &*columns(store, &schema, table, schema.generation()).await? {
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
) -> Result<Arc<TableView>, Problem> {
    let known = schema.inner().columns.clone();
    if let Some((_, columns)) = known.filter(|(of, _)| *of == generation) {
        return Ok(columns);
    }
    let columns = Arc::new(store.columns(table).await?);
    // What is not watched is not told when it changes.
    if matches!(*columns, TableView::Watched { .. }) && schema.generation() == generation {
        schema.inner().columns = Some((generation, Arc::clone(&columns)));
    }
    Ok(columns)
}

/// Makes a lens of a view.
fn make(
    store: &SharedStore,
    schema: &Arc<Schema>,
    generation: u64,
    view: &View,
    described: &TableView,
) -> Result<Lens, Problem> {
    let asked = view.asked();
    let (described, key, host_column) = match described {
        TableView::Watched { columns, key_columns, host_column } => {
            (columns, key_columns, host_column)
        }
        TableView::NotWatched => return Err(refusal::table_not_watched(&asked.table)),
        TableView::Unknown => return Err(refusal::table_not_found(&asked.table)),
    };
    if host_column.is_none() && asked.tenants.as_ref().is_some_and(|t| !t.cover(None)) {
        // Its rows are of no tenant, as streams may be, and out of this caller's reach.
        return Err(crate::streams::not_found());
    }
    let dialect = if store.backend() == "SQLite" { Dialect::Sqlite } else { Dialect::Postgres };
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
        Predicate::parse(text, &visible, &asked.person).map_err(refusal::filter_refused)
    };
    Ok(Lens {
        view: view.clone(),
        schema: Arc::clone(schema),
        generation,
        rules: asked.rules.iter().map(|text| rule(text)).collect::<Result<_, _>>()?,
        filter: asked.filter.as_deref().map(filter).transpose()?,
        host_column: host_column.as_deref().filter(|_| asked.tenants.is_some()).map(Into::into),
        columns: asked
            .columns
            .as_ref()
            .map(|_| visible.columns.iter().map(|column| column.name.as_str().into()).collect()),
        key: key.iter().map(|name| name.as_str().into()).collect(),
    })
}
