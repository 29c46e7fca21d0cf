//! The list of live queries, for people and programs (`system.live_queries`).
//!
//! Shards say what they serve, without a lock; nobody waits for the list, and delivery does not read it. What they
//! said is entered by whoever looks at it. What the store is
//! to be told is kept as what is to become of each row, so that a store that does not answer for a while
//! costs no more memory than there are rows. Several changes of one row that wait are one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use tidewire_store::{LiveQueryEdit, LiveQueryRow, StoreError};

use super::counts::{ChangedCounts, Counts};
use crate::Hub;
use crate::batch_notify::BatchNotify;

/// How long a change waits for others.
const GATHER: Duration = Duration::from_millis(100);
/// Rows in one commit.
const COMMIT_ROWS_MAX: usize = 1_000;
/// How long to wait before a failed commit is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// Connections that are gone and not yet said to be. Past it their rows are left to this node's lease.
const GONE_MAX: usize = 100_000;
/// How often rows of dead nodes are looked for, in leases of a node.
const SWEEP_EVERY_LEASES: u32 = 4;
/// How long the last changes get when the node stops. What is left goes with the lease.
const FAREWELL: Duration = Duration::from_secs(1);

/// What the store is to be told of this node's live queries.
#[derive(Debug)]
pub struct Registry {
    /// Without a bound: a shard must not wait. It is emptied all the while ([`Registry::hearing`]).
    said: mpsc::UnboundedSender<Said>,
    /// Never locked by a shard.
    book: Mutex<QueryListing>,
    notify: BatchNotify,
    pub(super) counted: ChangedCounts,
}

/// What a shard says of a query, by its `live_id`.
#[derive(Debug)]
enum Said {
    Opened(Box<LiveQueryRow>),
    Closed(Arc<str>),
    Disconnected(Arc<str>),
}

impl Default for Registry {
    fn default() -> Registry {
        let (said, heard) = mpsc::unbounded_channel();
        let (served, pending_edits, gone) = Default::default();
        let book = Mutex::new(QueryListing { heard, served, pending_edits, gone });
        Registry { said, book, notify: BatchNotify::default(), counted: ChangedCounts::default() }
    }
}

#[derive(Debug)]
struct QueryListing {
    /// What is yet to be entered.
    heard: mpsc::UnboundedReceiver<Said>,
    /// What this node serves, by connection and `live_id`.
    served: HashMap<String, BTreeMap<String, LiveQueryRow>>,
    /// Rows that are to change, by `live_id`.
    pending_edits: BTreeMap<String, ListEdit>,
    /// Connections whose rows are to go.
    gone: BTreeSet<String>,
}

/// What is to become of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListEdit {
    /// It is to be there, with what was counted for it.
    There,
    /// It is to be there, as if it had not been.
    Anew,
    /// It is to go.
    Gone,
}

/// What goes into one commit.
#[derive(Debug, Default)]
struct ListBatch {
    pending_edits: Vec<(String, ListEdit)>,
    gone: Vec<String>,
    edits: Vec<LiveQueryEdit>,
}

/// A connection's id has no hyphen, and a query's name may have some.
fn connection_of(live_id: &str) -> &str {
    live_id.split_once('-').map_or(live_id, |(connection_id, _)| connection_id)
}

impl QueryListing {
    /// Enters what was said.
    fn hear(&mut self) {
        while let Ok(said) = self.heard.try_recv() {
            match said {
                Said::Opened(row) => self.opened(*row),
                Said::Closed(live_id) => self.closed(&live_id),
                Said::Disconnected(live_id) => self.disconnected(&live_id),
            }
        }
    }

    fn opened(&mut self, row: LiveQueryRow) {
        self.pending_edits.insert(row.live_id.clone(), ListEdit::Anew);
        let of_connection = self.served.entry(row.connection_id.clone()).or_default();
        of_connection.insert(row.live_id.clone(), row);
    }

    fn closed(&mut self, live_id: &str) {
        let connection_id = connection_of(live_id);
        let Some(of_connection) = self.served.get_mut(connection_id) else { return };
        of_connection.remove(live_id);
        if of_connection.is_empty() {
            self.served.remove(connection_id);
        }
        self.pending_edits.insert(live_id.to_owned(), ListEdit::Gone);
    }

    fn disconnected(&mut self, live_id: &str) {
        let connection_id = connection_of(live_id);
        let Some(rows) = self.served.remove(connection_id) else { return };
        for live_id in rows.keys() {
            self.pending_edits.remove(live_id);
        }
        if self.gone.len() < GONE_MAX {
            self.gone.insert(connection_id.to_owned());
        }
    }

    fn row(&self, live_id: &str) -> Option<&LiveQueryRow> {
        self.served.get(connection_of(live_id))?.get(live_id)
    }

    /// Takes some of what is to be said.
    fn take(&mut self) -> ListBatch {
        let mut taken = ListBatch::default();
        while taken.gone.len() < COMMIT_ROWS_MAX
            && let Some(connection_id) = self.gone.pop_first()
        {
            let gone = connection_id.clone();
            taken.edits.push(LiveQueryEdit::Disconnect { connection_id: gone });
            taken.gone.push(connection_id);
        }
        while taken.pending_edits.len() < COMMIT_ROWS_MAX
            && let Some((live_id, edit)) = self.pending_edits.pop_first()
        {
            if edit != ListEdit::There {
                taken.edits.push(LiveQueryEdit::Close { live_id: live_id.clone() });
            }
            if edit != ListEdit::Gone {
                taken.edits.extend(self.row(&live_id).cloned().map(LiveQueryEdit::Open));
            }
            taken.pending_edits.push((live_id, edit));
        }
        taken
    }

    /// What was taken has not been said. What was wished since counts.
    fn take_back(&mut self, taken: ListBatch) {
        for (live_id, edit) in taken.pending_edits {
            let since = self.pending_edits.entry(live_id).or_insert(edit);
            if edit == ListEdit::Anew && *since == ListEdit::There {
                *since = ListEdit::Anew;
            }
        }
        self.gone.extend(taken.gone);
    }
}

impl Registry {
    /// With all in it that was said.
    fn book(&self) -> MutexGuard<'_, QueryListing> {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        book.hear();
        book
    }

    fn say(&self, said: Said) {
        // It hears for as long as it is there itself.
        let _ = self.said.send(said);
        self.notify.note();
    }

    /// A query is followed. Returns where what it is told is counted.
    pub fn opened(&self, row: LiveQueryRow) -> Arc<Counts> {
        let counts = Arc::new(Counts::new(&row.live_id));
        self.say(Said::Opened(Box::new(row)));
        counts
    }

    /// It is followed no more.
    pub fn closed(&self, live_id: &Arc<str>) {
        self.say(Said::Closed(Arc::clone(live_id)));
    }

    /// The connection of a query is gone, with all its queries. May be said of each of them.
    pub fn disconnected(&self, live_id: &Arc<str>) {
        self.say(Said::Disconnected(Arc::clone(live_id)));
    }

    /// Does something that takes a while, and enters meanwhile what is said: so what is kept is never more than
    /// there are rows, also when the store does not answer.
    async fn hearing<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = tokio::time::sleep(GATHER) => drop(self.book()),
            }
        }
    }

    /// A query that this node serves.
    pub fn find(&self, live_id: &str) -> Option<LiveQueryRow> {
        self.book().row(live_id).cloned()
    }

    /// Says all again: others took this node for dead, and may have removed its rows.
    pub fn restore(&self) {
        let mut book = self.book();
        let served: Vec<String> =
            book.served.values().flat_map(BTreeMap::keys).map(Clone::clone).collect();
        for live_id in served {
            book.pending_edits.entry(live_id).or_insert(ListEdit::There);
        }
        drop(book);
        self.notify.note();
    }

    /// Tells the store what there is to tell, until the node stops.
    pub async fn run(hub: Arc<Hub>, stop: CancellationToken) {
        let registry = &hub.queries.registry;
        let every = |period: Duration| {
            let mut interval = tokio::time::interval(period);
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
            interval
        };
        let mut count = every(hub.options.queries.registry);
        let mut sweep = every(hub.options.node.lease * SWEEP_EVERY_LEASES);
        loop {
            let mut count_now = false;
            tokio::select! {
                stopping = registry.notify.heard(GATHER, &stop) => {
                    if stopping {
                        break;
                    }
                }
                _ = count.tick() => count_now = true,
                _ = sweep.tick() => match registry.hearing(hub.store.sweep_live_queries()).await {
                    Ok(0) => {}
                    Ok(swept) => tracing::debug!(swept, "swept the list of live queries"),
                    Err(error) => {
                        tracing::warn!(%error, "could not sweep the list of live queries");
                    }
                },
            }
            // Whatever it was that woke it: a bell that rang is not heard a second time. And a row is
            // there before something is counted for it.
            registry.tell(&hub, &stop).await;
            if count_now {
                registry.tell_counts(&hub).await;
            }
        }
        let _ = tokio::time::timeout(FAREWELL, registry.tell(&hub, &stop)).await;
    }

    /// Says all that waits. What fails is tried again until the node stops.
    async fn tell(&self, hub: &Hub, stop: &CancellationToken) {
        loop {
            let taken = self.book().take();
            if taken.edits.is_empty() {
                return;
            }
            let told: Result<(), StoreError> =
                self.hearing(hub.store.edit_live_queries(taken.edits.clone())).await;
            let Err(error) = told else { continue };
            tracing::debug!(%error, "could not change the list of live queries; trying again");
            self.book().take_back(taken);
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(RETRY) => {}
            }
        }
    }

    /// Counts are news and no state: what cannot be said of them is left out.
    async fn tell_counts(&self, hub: &Hub) {
        let mut edits = self.counted.take();
        while !edits.is_empty() {
            let rest = edits.split_off(edits.len().min(COMMIT_ROWS_MAX));
            if let Err(error) = self.hearing(hub.store.edit_live_queries(edits)).await {
                tracing::debug!(%error, "could not count changes of live queries");
                return;
            }
            edits = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(connection: &str, query: &str) -> LiveQueryRow {
        LiveQueryRow {
            live_id: format!("{connection}-{query}"),
            connection_id: connection.to_owned(),
            query_id: query.to_owned(),
            user_id: String::new(),
            query: "SELECT 1".to_owned(),
            node: "n".to_owned(),
            plan: "filter".to_owned(),
            user_agent: None,
            address: None,
        }
    }

    fn close(live_id: &str) -> LiveQueryEdit {
        LiveQueryEdit::Close { live_id: live_id.to_owned() }
    }

    fn open(connection: &str, query: &str) -> LiveQueryEdit {
        LiveQueryEdit::Open(row(connection, query))
    }

    #[test]
    fn several_changes_of_a_row_are_one() {
        let registry = Registry::default();
        registry.opened(row("c", "a"));
        registry.closed(&"c-a".into());
        registry.opened(row("c", "b-1"));
        assert_eq!(registry.book().take().edits, [close("c-a"), close("c-b-1"), open("c", "b-1")]);
        assert!(registry.book().take().edits.is_empty());
        assert_eq!(registry.find("c-b-1"), Some(row("c", "b-1")));
        assert_eq!(registry.find("c-a"), None);
    }

    #[test]
    fn a_shard_waits_for_nobody_who_looks_at_the_list() {
        let registry = Registry::default();
        let looking = registry.book();
        registry.opened(row("c", "a"));
        registry.closed(&"c-a".into());
        registry.opened(row("c", "b"));
        registry.disconnected(&"d-a".into());
        drop(looking);
        assert_eq!(registry.book().take().edits, [close("c-a"), close("c-b"), open("c", "b")]);
    }

    #[test]
    fn a_connection_that_is_gone_takes_its_rows_along() {
        let registry = Registry::default();
        registry.opened(row("c", "a"));
        registry.disconnected(&"c-a".into());
        registry.disconnected(&"c-a".into());
        let edits = registry.book().take().edits;
        assert_eq!(edits, [LiveQueryEdit::Disconnect { connection_id: "c".to_owned() }]);
        assert!(registry.book().take().edits.is_empty());
    }

    #[test]
    fn what_could_not_be_said_is_said_later_as_it_is_by_then() {
        let registry = Registry::default();
        registry.opened(row("c", "a"));
        registry.opened(row("c", "b"));
        let taken = registry.book().take();
        registry.closed(&"c-a".into());
        registry.book().take_back(taken);
        assert_eq!(registry.book().take().edits, [close("c-a"), close("c-b"), open("c", "b")]);
    }

    #[test]
    fn a_node_that_was_taken_for_dead_says_all_again() {
        let registry = Registry::default();
        registry.opened(row("c", "a"));
        registry.book().take();
        registry.restore();
        assert_eq!(registry.book().take().edits, [open("c", "a")]);
    }
}
