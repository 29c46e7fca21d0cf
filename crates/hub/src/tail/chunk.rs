//! A stream's events of one look at the log, and the forms that its followers share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use tidewire_store::{Event, Position};

use crate::forms::Forms;
use crate::reader_frame::Frame;
use crate::row_filter::View;

/// The stream's events of one look at the log. Never empty, but where it is what someone sees of it.
#[derive(Debug)]
pub struct Chunk {
    pub events: Vec<Event>,
    first: Position,
    last: Position,
    /// When the first of them was appended, by the store's clock.
    pub created_at_ms: i64,
    bytes: usize,
    /// The chunk as readers of the stream get it by SSE, made for the first and shared by all.
    pub frame: OnceLock<Frame>,
    /// The chunk as messages of live connections, by the name their clients gave the subscription.
    /// None once there is a newer chunk: it is remembered for longer than it is sent, and there may be
    /// any number of names.
    messages: Mutex<Option<HashMap<Name, Arc<Forms>>>>,
    /// The chunk as it is seen through row filters, while someone holds it.
    seen: Arc<ViewedChunk>,
    /// Where it is known, if it is what someone sees of another.
    known: Option<CachedView>,
}

/// What is seen of a chunk, by how.
#[derive(Debug, Default)]
struct ViewedChunk(Mutex<HashMap<View, Weak<Chunk>>>);

impl ViewedChunk {
    fn lock(&self) -> MutexGuard<'_, HashMap<View, Weak<Chunk>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An entry among what is seen of a chunk. It goes with what it stands for, because the chunk itself
/// is remembered for long and there may be any number of views.
#[derive(Debug)]
struct CachedView {
    among: Arc<ViewedChunk>,
    view: View,
}

impl Drop for CachedView {
    fn drop(&mut self) {
        let mut seen = self.among.lock();
        // Another may have been made meanwhile, in another shard.
        if seen.get(&self.view).is_some_and(|chunk| chunk.strong_count() == 0) {
            seen.remove(&self.view);
        }
        if seen.is_empty() {
            // A map keeps its room for as many as it ever had.
            *seen = HashMap::new();
        }
    }
}

/// A subscription's name, and whether it is to a table.
type Name = (Arc<str>, bool);

impl Chunk {
    pub(super) fn new(events: Vec<Event>, created_at_ms: i64) -> Chunk {
        Chunk {
            bytes: events.iter().map(|event| event.payload.len()).sum(),
            first: events.first().map_or(Position::START, |event| event.position),
            last: events.last().map_or(Position::START, |event| event.position),
            events,
            created_at_ms,
            frame: OnceLock::new(),
            messages: Mutex::new(Some(HashMap::new())),
            seen: Arc::default(),
            known: None,
        }
    }

    /// What is seen of it through a row filter, if that can be said. It stands for as much of the stream.
    pub(crate) fn seen_through<E>(
        &self,
        view: &View,
        see: impl FnOnce() -> Result<Vec<Event>, E>,
    ) -> Result<Arc<Chunk>, E> {
        if let Some(known) = self.seen.lock().get(view).and_then(Weak::upgrade) {
            return Ok(known);
        }
        let Chunk { first, last, created_at_ms, .. } = *self;
        let mut chunk = Chunk { first, last, ..Chunk::new(see()?, created_at_ms) };
        // Nothing is as quickly found again as kept.
        if chunk.events.is_empty() {
            return Ok(Arc::new(chunk));
        }
        chunk.known = Some(CachedView { among: Arc::clone(&self.seen), view: view.clone() });
        let chunk = Arc::new(chunk);
        self.seen.lock().insert(view.clone(), Arc::downgrade(&chunk));
        Ok(chunk)
    }

    /// Its first event, or the one that would be if all were seen.
    pub fn first(&self) -> Position {
        self.first
    }

    /// Bytes of its payloads.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its last event, likewise.
    pub fn last(&self) -> Position {
        self.last
    }

    /// The chunk as messages for subscriptions of this name, to the stream or to its table.
    pub fn messages(&self, query_id: &Arc<str>, to_table: bool) -> Arc<Forms> {
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *messages {
            Some(kept) => Arc::clone(kept.entry((Arc::clone(query_id), to_table)).or_default()),
            // Who comes this late has it made once more.
            None => Arc::default(),
        }
    }

    /// There is a newer one: what was made of it for sending is kept by those who send it.
    pub(super) fn retire(&self) {
        *self.messages.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;

    use super::*;
    use tidewire_access::auth::names::TableNames;
    use tidewire_access::auth::scopes::Scopes;
    use tidewire_access::auth::{Identity, Who};

    fn view(n: usize) -> View {
        let scopes =
            Scopes::parse(r#"{"tables": ["orders"]}"#, &(), &TableNames::none()).expect("scopes");
        let identity = Identity::new(Who::Key(1), scopes, None);
        let filter = format!("total > {n}");
        View::through(&identity, "orders", None, Some(&filter)).expect("not all is seen")
    }

    #[test]
    fn messages_are_shared_until_there_is_a_newer_chunk() {
        let chunk = Chunk::new(events().expect("events"), 0);
        let name: Arc<str> = "q".into();
        let first = chunk.messages(&name, false);
        assert!(Arc::ptr_eq(&first, &chunk.messages(&name, false)));
        chunk.retire();
        assert_eq!(Arc::strong_count(&first), 1, "nothing is kept of it");
        assert_eq!(Arc::strong_count(&chunk.messages(&name, false)), 1, "nor of what comes late");
    }

    fn events() -> Result<Vec<Event>, Infallible> {
        let position = Position::new(7);
        let payload = Bytes::from_static(b"1");
        Ok(vec![Event { position, append_id: position, payload, row: None }])
    }

    fn chunk() -> Chunk {
        let Ok(events) = events();
        Chunk::new(events, 0)
    }

    fn seen(chunk: &Chunk, n: usize) -> Arc<Chunk> {
        let Ok(seen) = chunk.seen_through(&view(n), events);
        seen
    }

    #[test]
    fn equal_views_of_a_chunk_are_made_once() {
        let chunk = chunk();
        let one = seen(&chunk, 1);
        let other = seen(&chunk, 1);
        assert!(Arc::ptr_eq(&one, &other));
        drop((one, other));
        let again = seen(&chunk, 1);
        assert_eq!(again.events.len(), 1);
    }

    #[test]
    fn a_chunk_that_is_remembered_keeps_nothing_of_views_that_were_served() {
        let chunk = chunk();
        let crowd: Vec<_> = (0..1_000).map(|n| seen(&chunk, n)).collect();
        assert_eq!(chunk.seen.lock().len(), crowd.len());
        drop(crowd);
        assert_eq!(chunk.seen.lock().capacity(), 0);
    }

    #[test]
    fn what_is_seen_may_outlast_what_it_was_seen_of() {
        let chunk = chunk();
        let outlasting = seen(&chunk, 1);
        drop(chunk);
        assert_eq!(outlasting.last(), Position::new(7));
    }
}
