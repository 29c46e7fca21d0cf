//! A changed row finds the queries it concerns.

use super::Engine;
use super::live::Body;
use super::messages::{Change, Kind, QueryId};
use super::requery::{concerns, single};
use super::state::StateError;
use super::transaction::Transaction;
use crate::row::Row;

/// The images of a change, as far as its kind has them.
pub(super) struct Images<'a> {
    pub(super) before: Option<Row<'a>>,
    pub(super) after: Option<Row<'a>>,
}

impl<'a> Images<'a> {
    /// None if the event does not say what became of which row.
    pub(super) fn read(change: &Change<'a>) -> Option<Images<'a>> {
        let image = |image: Option<&'a [u8]>| Row::parse(image?).ok();
        match change.kind {
            Kind::Insert => Some(Images { before: None, after: Some(image(change.after)?) }),
            Kind::Delete => Some(Images { before: Some(image(change.before)?), after: None }),
            Kind::Update => {
                let (before, after) = (image(change.before)?, image(change.after)?);
                Some(Images { before: Some(before), after: Some(after) })
            }
            Kind::Truncate | Kind::Unknown => None,
        }
    }
}

impl Engine {
    /// Notes what an event of the open transaction does to each query.
    pub(super) fn match_change(&mut self, change: &Change<'_>, by: &Transaction) {
        let Some(book) = self.registry.tables.get(change.table) else { return };
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        let images = Images::read(change);
        match &images {
            Some(images) => {
                let (before, after) = (images.before.as_ref(), images.after.as_ref());
                book.index.candidates(before, after, &mut found);
                found.sort_unstable();
                found.dedup();
            }
            None => found.extend(book.all.iter().copied()),
        }
        self.stats.candidates += found.len() as u64;
        for id in &found {
            if self.touch(*id, change, images.as_ref(), by) {
                self.touched.push(*id);
                self.stats.hits += 1;
            }
        }
        self.found = found;
    }

    /// Whether a change concerns a query.
    fn touch(
        &mut self,
        id: QueryId,
        change: &Change<'_>,
        images: Option<&Images<'_>>,
        by: &Transaction,
    ) -> bool {
        let Some(live) = self.registry.get_mut(id) else { return false };
        let (query, options) = (&live.query, &self.options);
        let hit = match (&mut live.body, images) {
            (Body::Maintained(kept), Some(images)) if kept.is_run_again() => {
                let concerned = concerns(query, change.table, images);
                if concerned {
                    kept.touch();
                }
                concerned
            }
            (Body::Maintained(kept), None) if kept.is_run_again() => {
                kept.touch();
                true
            }
            (Body::Maintained(kept), None) => kept.lose(lost_by(change), by),
            (Body::Filter(filter), None) => {
                filter.lose(lost_by(change));
                true
            }
            (Body::Maintained(kept), Some(images)) => single(&query.plan)
                .is_some_and(|plan| kept.change(&plan.conditions, change, images, by, options)),
            (Body::Filter(filter), Some(Images { before, after })) => single(&query.plan)
                .is_some_and(|plan| {
                    filter.change(query, plan, (before.as_ref(), after.as_ref()), options)
                }),
        };
        // What others keep is weighed when the transaction ends; a filter can let go of what it gathers.
        if let (true, Body::Filter(filter)) = (hit, &mut live.body) {
            let others = self.stats.state_bytes - live.bytes;
            if others + filter.bytes() > options.total_state_bytes_max {
                filter.lose(StateError::Dry);
            }
            live.bytes = filter.bytes();
            self.stats.state_bytes = others + live.bytes;
        }
        hit
    }
}

/// That images are not there is no wonder where all rows are gone, or where it is said that they do not
/// tell; elsewhere a plan that needs them has no future.
fn lost_by(change: &Change<'_>) -> StateError {
    match change.kind {
        Kind::Truncate | Kind::Unknown => StateError::Dry,
        Kind::Insert | Kind::Update | Kind::Delete => StateError::Unsure,
    }
}
