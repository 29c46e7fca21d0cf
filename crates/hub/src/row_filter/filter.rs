//! Applies a row filter to an event.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use tidewire_query::{Effort, Predicate, Row, TenantRule, Truth, Unsure};
use tidewire_store::{Epoch, Event, Operation, Position, RowChange};

use super::image;
use super::tables::Schema;
use super::view::{View, covers};
use crate::changes;

/// A view that was made with a table's columns.
#[derive(Debug)]
pub struct RowFilter {
    pub(super) view: View,
    pub(super) schema: Arc<Schema>,
    /// The schema's at the time.
    pub(super) generation: u64,
    pub(super) filter: Option<Predicate>,
    pub(super) rules: Vec<Predicate>,
    /// The column of tenants, if the view is bound to some.
    pub(super) host_column: Option<Box<str>>,
    /// The columns that are seen, in the table's order, if not all.
    pub(super) columns: Option<Vec<Box<str>>>,
    pub(super) key: Vec<Box<str>>,
    /// The table's other columns.
    pub(super) values: Vec<Box<str>>,
    /// The columns are those that the table had when the log was at least here, or later ones.
    pub(super) as_of: Position,
    /// A later row was not what the columns say.
    pub(super) is_doubted: AtomicBool,
}

/// Why it cannot be said whether a row is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilterError {
    /// A row that came after the columns were read is not as they say: they have to be read again. The
    /// database changes a table at once, and its stream tells of that a little later.
    Columns,
    /// A text is too long to be searched where others wait: whoever wants to know reads the store, and looks
    /// at it in a task of their own.
    TooLong,
}

/// An event whose images have been read, for any number of row filters.
#[derive(Debug)]
pub struct Opened<'e> {
    event: &'e Event,
    before: Option<Row<'e>>,
    after: Option<Row<'e>>,
}

impl<'e> Opened<'e> {
    pub fn all(events: &'e [Event]) -> Vec<Opened<'e>> {
        events.iter().map(Opened::new).collect()
    }

    fn new(event: &'e Event) -> Opened<'e> {
        // An image that cannot be read has no columns: no rule lets it pass.
        let row = |image: Option<&'e Bytes>| image.and_then(|image| Row::parse(image).ok());
        let (before, after) = match &event.row {
            Some(change) => (row(change.before.as_ref()), row(change.after.as_ref())),
            None => (None, None),
        };
        Opened { event, before, after }
    }
}

/// What becomes of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowVisibility {
    /// It is seen.
    Seen,
    /// It could be, and is not wanted.
    Unwanted,
    /// It must not be.
    Hidden,
}

impl RowFilter {
    /// Whether the table is as it was when the row filter was made. To be asked after the events are at hand.
    pub(crate) fn is_current(&self) -> bool {
        self.schema.generation() == self.generation && !self.is_doubted.load(Ordering::Acquire)
    }

    /// Those of some events that are seen, as they are seen.
    pub(crate) fn sift(
        &self,
        events: &[Event],
        epoch: Epoch,
        effort: Effort,
    ) -> Result<Vec<Event>, FilterError> {
        self.see_all(&Opened::all(events), epoch, effort)
    }

    /// How many patterns of the client's each row is tried on.
    pub fn patterns(&self) -> usize {
        self.filter.as_ref().map_or(0, Predicate::patterns)
    }

    pub fn table(&self) -> &str {
        self.view.table()
    }

    /// The same of events that have been opened.
    pub(crate) fn see_all(
        &self,
        opened: &[Opened<'_>],
        epoch: Epoch,
        effort: Effort,
    ) -> Result<Vec<Event>, FilterError> {
        let see = |opened: &Opened<'_>| self.see(opened, epoch, effort).transpose();
        let seen = opened.iter().filter_map(see).collect();
        if let (Err(FilterError::Columns), Some(last)) = (&seen, opened.last()) {
            self.schema.doubt(last.event.position);
            self.is_doubted.store(true, Ordering::Release);
        }
        seen
    }

    /// An event as it is seen, if it is.
    fn see(
        &self,
        opened: &Opened<'_>,
        epoch: Epoch,
        effort: Effort,
    ) -> Result<Option<Event>, FilterError> {
        let Some(change) = opened.event.row.as_deref() else { return Ok(None) };
        let seen = match change.operation {
            Operation::Truncate => Some((self.of(change, Operation::Truncate, None, None), false)),
            _ => self.changed(change, opened, effort)?,
        };
        let Event { position, append_id, .. } = *opened.event;
        Ok(seen.map(|(shown, left)| {
            let payload = changes::document(&shown, position, epoch, left);
            Event { position, append_id, payload, row: None }
        }))
    }

    /// The change of a row, if it is seen, and whether it says only that the row is not wanted any more.
    fn changed(
        &self,
        change: &RowChange,
        opened: &Opened<'_>,
        effort: Effort,
    ) -> Result<Option<(RowChange, bool)>, FilterError> {
        let is_later = opened.event.position > self.as_of;
        let pass =
            |row: &Option<Row<'_>>| match row.as_ref().map(|row| (row, self.pass(row, effort))) {
                None => Ok(RowVisibility::Hidden),
                Some((_, Ok(pass))) => Ok(pass),
                Some((_, Err((_, Unsure::TooLong { .. })))) => Err(FilterError::TooLong),
                Some((row, Err((_, unsure)))) if is_later && self.is_odd(row, &unsure) => {
                    Err(FilterError::Columns)
                }
                // The image is older than the columns, or a part of a row.
                Some((_, Err((pass, _)))) => Ok(pass),
            };
        let passes = (pass(&opened.before)?, pass(&opened.after)?);
        Ok(self.shown(change, opened, passes))
    }

    fn shown(
        &self,
        change: &RowChange,
        opened: &Opened<'_>,
        (before, after): (RowVisibility, RowVisibility),
    ) -> Option<(RowChange, bool)> {
        let show = |row: &Option<Row<'_>>, whole: &Option<Bytes>| match (&self.columns, row) {
            (Some(columns), Some(row)) => Some(image::project(row, columns)),
            (Some(_), None) => None,
            (None, _) => whole.clone(),
        };
        let old = || show(&opened.before, &change.before);
        let new = || show(&opened.after, &change.after);
        match (before, after) {
            (RowVisibility::Seen, RowVisibility::Seen) => {
                let (old, new) = (old(), new());
                // A change of hidden columns alone is none.
                if self.columns.is_some() && old == new {
                    return None;
                }
                Some((self.of(change, Operation::Update, old, new), false))
            }
            (RowVisibility::Seen, _) => {
                let mut shown = self.of(change, Operation::Delete, old(), None);
                if opened.after.is_some() {
                    shown.entity_id = shown.entity_id.filter(|_| self.keeps_key(opened));
                    shown.entity_id = shown.entity_id.or_else(|| self.old_key(opened));
                }
                Some((shown, after == RowVisibility::Unwanted))
            }
            (_, RowVisibility::Seen) => {
                Some((self.of(change, Operation::Insert, None, new()), false))
            }
            _ => None,
        }
    }

    /// What becomes of an image. Where that cannot be decided it does not pass, for the reason given.
    fn pass(
        &self,
        row: &Row<'_>,
        effort: Effort,
    ) -> Result<RowVisibility, (RowVisibility, Unsure)> {
        if !self.may_pass(row).map_err(|unsure| (RowVisibility::Hidden, unsure))? {
            return Ok(RowVisibility::Hidden);
        }
        match self.filter.as_ref().map(|filter| filter.test_with(row, effort)) {
            None | Some(Ok(Truth::True)) => Ok(RowVisibility::Seen),
            Some(Ok(_)) => Ok(RowVisibility::Unwanted),
            Some(Err(unsure)) => Err((RowVisibility::Unwanted, unsure)),
        }
    }

    fn may_pass(&self, row: &Row<'_>) -> Result<bool, Unsure> {
        let mut may = self.is_of_tenant(row)?;
        for rule in &self.rules {
            may = may && rule.test(row)? == Truth::True;
        }
        Ok(may)
    }

    /// Whether a row about which nothing can be said shows that the table's columns are others.
    fn is_odd(&self, row: &Row<'_>, unsure: &Unsure) -> bool {
        match unsure {
            Unsure::NotOfType { .. } => true,
            // An image may be the key alone.
            Unsure::Missing { .. } => self.values.iter().any(|name| row.get(name).is_some()),
            Unsure::Ambiguous { .. } | Unsure::TooLong { .. } => false,
        }
    }

    fn is_of_tenant(&self, row: &Row<'_>) -> Result<bool, Unsure> {
        let (Some(tenants), Some(column)) = (self.tenants(), &self.host_column) else {
            return Ok(true);
        };
        // Without the column it is not known whose it is.
        let missing = || Unsure::Missing { column: column.to_string() };
        let host = row.get(column).ok_or_else(missing)?;
        Ok(covers(tenants, image::text(host).as_deref()))
    }

    fn tenants(&self) -> Option<&TenantRule> {
        self.view.asked().tenants.as_ref()
    }

    /// A change with other images.
    fn of(
        &self,
        change: &RowChange,
        operation: Operation,
        before: Option<Bytes>,
        after: Option<Bytes>,
    ) -> RowChange {
        let entity_id = change.entity_id.clone().filter(|_| self.shows_key());
        RowChange { operation, before, after, entity_id, ..change.clone() }
    }

    /// Whether the key is among what is seen. Without a key the whole row is it.
    fn shows_key(&self) -> bool {
        let Some(columns) = &self.columns else { return true };
        !self.key.is_empty() && self.key.iter().all(|name| columns.contains(name))
    }

    /// Whether both images have the same key. An event has the later one's, which is not to be told of a
    /// row that is not seen any more.
    fn keeps_key(&self, opened: &Opened<'_>) -> bool {
        let (Some(before), Some(after)) = (&opened.before, &opened.after) else { return false };
        let same = |name: &str| {
            let value = |row: &Row<'_>| row.get(name).map(|value| value.get().to_owned());
            value(before).is_some_and(|old| value(after) == Some(old))
        };
        !self.key.is_empty() && self.key.iter().all(|name| same(name))
    }

    /// The key of the row before, where it is a single column.
    fn old_key(&self, opened: &Opened<'_>) -> Option<String> {
        match &self.key[..] {
            [name] if self.shows_key() => image::text(opened.before.as_ref()?.get(name)?),
            _ => None,
        }
    }
}
