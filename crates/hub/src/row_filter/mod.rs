//! Row filters: which rows and columns of a table someone sees.
//!
//! A watched table is one stream for everybody. Who may see some of its columns or rows only, or asks
//! for some with a `where`, gets each event through a [`RowFilter`]:
//!
//! ```text
//!   the row passes      before and after   before only   after only   neither
//!   what is seen        UPDATE             DELETE        INSERT       nothing
//! ```
//!
//! - [`rules`]: what of a table someone may see at all; [`report`]: what is wrong with rules, for the operator
//! - [`view`]: what is asked for and by whom, before it is known whether the table has such columns;
//!   equal views are seen alike, so that their events are made once
//! - [`tables`]: the columns of tables, and the row filters that were made of views with them
//! - [`filter`]: an event through a row filter; [`image`]: the parts of a row
//! - [`refusal`]: why there is no row filter
//!
//! What must hold: nothing of a row passes that a rule or a scope hides (invariant 6). So a row filter is
//! used only while the columns are those that it was made with ([`RowFilter::is_current`]), which is asked
//! after the events are at hand; and a row of which a rule cannot say whether it passes does not. Nor is
//! a row lost (invariant 3): one that came after the columns were read and is not as they say is looked
//! at again with the columns of then.

mod filter;
mod image;
mod refusal;
pub mod report;
mod rules;
mod tables;
#[cfg(test)]
mod tests;
mod view;

pub use filter::{Opened, RowFilter};
pub use refusal::{rule_cannot_be_kept, table_not_found, table_not_watched};
pub use report::{UncheckedRule, WrongRules, blame};
pub use rules::Rules;
pub use tables::{Tables, dialect};
pub use view::{FilterCaller, View, covers};

use std::sync::Arc;

use bytes::Bytes;
use tidewire_query::Effort;
use tidewire_store::{Epoch, Event, Found, Page, PageLimit, Position, StoreError};

use crate::Hub;
use crate::lookup::Reach;
use crate::min_offset;
use crate::tail::TopicRead;
use tidewire_access::auth::names::FRESH;
use tidewire_access::auth::{Act, Identity, Who, audit};
use tidewire_access::problem::Problem;
use tidewire_wire::keyed_permits::KeyedPermit;

/// Patterns that each changed row of a table is tried on, given back when dropped.
pub(crate) type PatternPermit = Arc<KeyedPermit<(Who, Box<str>)>>;

/// Bytes of a row's images from which on patterns are tried on them apart from everything else.
const APART_BYTES: usize = 64 << 10;

/// What a reader finds in memory, of what it sees of the stream.
#[derive(Debug)]
pub enum SliceVisibility {
    /// The store is to be read.
    Behind,
    /// What is seen up to an event, and whether there is no more. It may be nothing.
    Events {
        events: Vec<Event>,
        last: Position,
        are_all: bool,
    },
    Nothing,
    Closed,
    Ended,
}

impl TopicRead {
    /// The same as someone at a position sees it.
    pub fn seen(self, hub: &Hub, view: Option<&View>, position: Position) -> SliceVisibility {
        match self {
            TopicRead::Events { events, are_all } => {
                let last = events.last().map_or(position, |event| event.position);
                match hub.remembered(view, events) {
                    Some(events) => SliceVisibility::Events { events, last, are_all },
                    None => SliceVisibility::Behind,
                }
            }
            TopicRead::Behind => SliceVisibility::Behind,
            TopicRead::Nothing => SliceVisibility::Nothing,
            TopicRead::Closed => SliceVisibility::Closed,
            TopicRead::Ended => SliceVisibility::Ended,
        }
    }
}

impl Hub {
    /// How someone sees a stream: as it is, unless it is a table's and not all of it is theirs to see,
    /// or to be seen. Refuses those who may see nothing of the table.
    pub async fn view(
        &self,
        identity: &Identity,
        stream: &str,
        filter: Option<&str>,
    ) -> Result<Option<View>, Problem> {
        let Some(table) = view::table_of(stream) else { return Ok(None) };
        let access = self.access(identity, table).await;
        let access = access.inspect_err(|problem| {
            audit::turned_away(&self.access, Some(identity), Act::Read(stream), problem);
        })?;
        Ok(View::new(identity, table, access, filter))
    }

    /// Refuses what cannot be done in part to whoever sees a stream only so.
    pub async fn sees_all(&self, identity: &Identity, stream: &str) -> Result<(), Problem> {
        match self.view(identity, stream, None).await? {
            Some(view) => Err(refusal::cannot_narrow(view.table())),
            None => Ok(()),
        }
    }

    /// The row filter for events that were read up to a position. Waits until this node has seen the log up to
    /// there, and with it all changes of columns that the rows may have had.
    pub async fn row_filter(
        &self,
        view: &View,
        up_to: Position,
    ) -> Result<Arc<RowFilter>, Problem> {
        min_offset::seen(self, up_to).await?;
        self.tables.bind(&self.store, view, self.tail.position()).await
    }

    /// Puts what someone sees of a page in the place of its events, and gives the row filter to be kept for
    /// what comes after. How far the page reaches stays as it is: by that the reader goes on.
    pub async fn see(
        &self,
        view: Option<&View>,
        page: &mut Page,
    ) -> Result<Option<Arc<RowFilter>>, Problem> {
        let Some(view) = view else { return Ok(None) };
        let up_to = page.events.last().map_or(Position::START, |event| event.position);
        loop {
            let row_filter = self.row_filter(view, up_to).await?;
            // If in doubt the columns are read once more, and are then later than all of the page.
            if let Some(seen) = sift_apart(&row_filter, page, self.store.epoch()).await? {
                page.events = seen;
                return Ok(Some(row_filter));
            }
        }
    }

    /// That a table is watched and can be seen, by its stream's name. One that is not watched may have a
    /// stream all the same, of changes that SQL has published: that is seen by those who see all of it.
    pub async fn watched(&self, stream: &str, view: Option<&View>) -> Result<(), Problem> {
        let table = view::table_of(stream).unwrap_or(stream);
        let hidden = |problem: Problem| match (problem.code(), view) {
            // One who is bound to a tenant is not told of tables that are of none.
            ("table_not_watched", Some(view)) if view.is_of_tenants() => {
                refusal::table_not_found(table)
            }
            ("stream_not_found", _) => refusal::table_not_found(table),
            _ => problem,
        };
        let watched = self.tables.watched(&self.store, table, self.tail.position()).await;
        let watched = match watched {
            Err(problem) if view.is_none_or(|view| !view.is_of_tenants()) => {
                Err(self.with_its_name(table, problem).await?)
            }
            watched => watched,
        };
        match (watched, view) {
            (Err(problem), None) if !problem.is_temporary() => match self.has(stream).await? {
                true => Ok(()),
                false => Err(hidden(problem)),
            },
            (Err(problem), _) => Err(hidden(problem)),
            (Ok(()), Some(view)) => {
                let bound = self.tables.bind(&self.store, view, self.tail.position()).await;
                bound.map_err(hidden).map(drop)
            }
            (Ok(()), None) => Ok(()),
        }
    }

    /// A table that is not there under this name may be there under another, which SQL takes for the same.
    async fn with_its_name(&self, table: &str, problem: Problem) -> Result<Problem, Problem> {
        if !matches!(problem.code(), "table_not_watched" | "table_not_found") {
            return Ok(problem);
        }
        self.access.names.look(&self.store, FRESH).await?;
        Ok(match self.access.names.meant(&self.access.names.read(table)).as_slice() {
            [(name, _)] => problem.with_hint(format!("it is watched as {name}: name it so")),
            _ => problem,
        })
    }

    /// Whether there is a stream of this name.
    async fn has(&self, stream: &str) -> Result<bool, Problem> {
        let nothing = PageLimit { events: 0, bytes: 0 };
        let found = self.store.read(stream, Position::START, nothing).await?;
        Ok(matches!(found, Found::Stream(_)))
    }

    /// Whose streams someone can reach. Whose rows of a table those are is for the row filter to say; a stream
    /// of entities has those of all tenants, so it is there only for who reaches them all.
    pub fn reach(&self, identity: &Identity, stream: &str) -> Reach {
        let tenants = match view::table_of(stream) {
            Some(_) => tidewire_store::Reach::All,
            None => identity.reach_of(stream),
        };
        Reach::of(identity, tenants)
    }

    /// Events from memory as someone sees them; nothing if the row filter is out of date, or may be, and the
    /// store has to be read.
    pub fn remembered(&self, view: Option<&View>, events: Vec<Event>) -> Option<Vec<Event>> {
        let Some(view) = view else { return Some(events) };
        let row_filter = self.tables.current(view)?;
        row_filter.sift(&events, self.store.epoch(), Effort::Shared).ok()
    }

    /// Takes places among the patterns of someone for a filter of a table. One that cannot be made yet is
    /// refused where it is.
    pub async fn filter_seat(
        &self,
        identity: &Identity,
        view: Option<&View>,
    ) -> Result<Option<PatternPermit>, Problem> {
        let Some(view) = view else { return Ok(None) };
        match self.tables.bind(&self.store, view, self.tail.position()).await {
            Ok(row_filter) => {
                self.pattern_seat(identity, row_filter.table(), row_filter.patterns())
            }
            Err(_) => Ok(None),
        }
    }
}

/// A page's events as they are seen, with all the effort that takes; none if the row filter is in doubt. Long texts
/// are searched on a thread where nobody else waits.
async fn sift_apart(
    row_filter: &Arc<RowFilter>,
    page: &mut Page,
    epoch: Epoch,
) -> Result<Option<Vec<Event>>, Problem> {
    let size = |event: &Event| {
        let image = |image: &Option<Bytes>| image.as_ref().map_or(0, Bytes::len);
        event.row.as_ref().map_or(0, |row| image(&row.before) + image(&row.after))
    };
    let is_long =
        row_filter.patterns() > 0 && page.events.iter().any(|event| size(event) > APART_BYTES);
    if !is_long {
        return Ok(row_filter.sift(&page.events, epoch, Effort::Whole).ok());
    }
    let (row_filter, events) = (Arc::clone(row_filter), std::mem::take(&mut page.events));
    let sift = move || {
        let seen = row_filter.sift(&events, epoch, Effort::Whole);
        (events, seen)
    };
    let sifted = tokio::task::spawn_blocking(sift).await;
    let (events, seen) = sifted.map_err(|_| Problem::from(StoreError::Closed))?;
    page.events = events;
    Ok(seen.ok())
}
