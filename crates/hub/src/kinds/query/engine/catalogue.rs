//! The tables that queries name: their columns and where their changes are.
//!
//! What was read is kept until the log says that some table is not what it was. A query that was bound
//! to what a table has been is found out by its fingerprint, when the database is read for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidewire_query::{Column, ShapeColumn, TableName, TableShape};
use tidewire_store::{
    Control, ShapeView, SharedStore, StoreError, TABLE_PREFIX, TableRef, TailEvent, WatchedShape,
};

/// Names that are remembered; with more, all are forgotten.
const NAMES_MAX: usize = 1_000;

/// What a name stands for.
#[derive(Debug, Clone)]
pub(super) enum Named {
    /// A watched table.
    Watched(Arc<TableShape>),
    /// Another one, by the name that its events would have.
    NotWatched(String),
    Unknown,
}

/// Tables by the names that queries give them.
#[derive(Debug, Default)]
pub(super) struct Catalogue(Mutex<TableEntry>);

#[derive(Debug, Default)]
struct TableEntry {
    /// Rises when something changes, so that what was read before is not kept after.
    generation: u64,
    shapes: HashMap<TableName, Arc<TableShape>>,
}

/// Whether an event says that its stream's table is not what it was.
pub(super) fn changes_table(event: &TailEvent) -> Option<&str> {
    let table = event.stream.strip_prefix(TABLE_PREFIX)?;
    let changes =
        matches!(event.control, Some(Control::Schema | Control::Create | Control::Delete));
    changes.then_some(table)
}

impl Catalogue {
    fn lock(&self) -> MutexGuard<'_, TableEntry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets everything: a table is not what it was.
    pub(super) fn forget(&self) {
        let mut known = self.lock();
        known.generation += 1;
        known.shapes.clear();
    }

    /// What names stand for, aligned with them.
    pub(super) async fn look_up(
        &self,
        store: &SharedStore,
        names: &[TableName],
    ) -> Result<Vec<Named>, StoreError> {
        let (generation, known) = {
            let known = self.lock();
            let all = names.iter().map(|name| known.shapes.get(name).cloned()).collect::<Vec<_>>();
            (known.generation, all)
        };
        if let Some(all) = known.into_iter().collect::<Option<Vec<_>>>() {
            return Ok(all.into_iter().map(Named::Watched).collect());
        }
        let asked: Vec<TableRef> = names.iter().map(table_ref).collect();
        let views = store.shapes(&asked).await?;
        let named: Vec<Named> = views.into_iter().map(named).collect();
        let mut known = self.lock();
        if known.generation == generation {
            if known.shapes.len() + names.len() > NAMES_MAX {
                known.shapes.clear();
            }
            for (name, named) in names.iter().zip(&named) {
                // What is not watched is not told when it changes.
                if let Named::Watched(shape) = named {
                    known.shapes.insert(name.clone(), Arc::clone(shape));
                }
            }
        }
        Ok(named)
    }
}

fn table_ref(name: &TableName) -> TableRef {
    TableRef { schema: name.schema.as_deref().map(ToOwned::to_owned), name: name.name.to_string() }
}

fn named(view: ShapeView) -> Named {
    match view {
        ShapeView::Watched(shape) => Named::Watched(Arc::new(shape_of(*shape))),
        ShapeView::NotWatched(name) => Named::NotWatched(name),
        ShapeView::Unknown => Named::Unknown,
    }
}

fn shape_of(shape: WatchedShape) -> TableShape {
    let columns = shape.columns.into_iter().map(|own| ShapeColumn {
        column: Column {
            name: own.column.name,
            type_name: own.column.type_name,
            collation: own.column.collation,
        },
        generated: own.generated,
        scale: own.scale,
        json_text: own.json_text,
    });
    TableShape {
        name: shape.name,
        sql_name: shape.sql_name,
        columns: columns.collect(),
        key: shape.key_columns,
        host_column: shape.host_column,
        fingerprint: shape.fingerprint,
        row_security: shape.row_security,
        inherited: shape.inherited,
    }
}
