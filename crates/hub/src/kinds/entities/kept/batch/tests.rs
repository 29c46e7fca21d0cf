//! A store in which someone has rows locked, and one that is away.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;

use tidewire_store::{EntityCount, EntityPage, Position};

use super::*;

/// Refuses edits of some connections, or everything.
#[derive(Debug, Default)]
struct Stubborn(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    locked: HashSet<String>,
    is_away: bool,
    /// The error is one that does not pass.
    is_broken: bool,
    refusals: usize,
    /// Connections that are gone, in order.
    gone: Vec<String>,
}

impl Stubborn {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something is so.
    async fn until(&self, is_so: impl Fn(&Inner) -> bool) {
        let wait = async {
            while !is_so(&self.inner()) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), wait).await.expect("it comes to that");
    }
}

#[async_trait]
impl Entities for Stubborn {
    async fn edit_entities(&self, edits: Vec<EntityEdit>) -> Result<(), StoreError> {
        let mut inner = self.inner();
        let names: Vec<String> = edits
            .into_iter()
            .map(|edit| Work::Edit(edit, None).connection_id().to_owned())
            .collect();
        if inner.is_away || names.iter().any(|name| inner.locked.contains(name)) {
            inner.refusals += 1;
            let reason = "locked".to_owned();
            return Err(match inner.is_broken {
                true => StoreError::Broken { operation: "edit", reason },
                false => StoreError::Unavailable(reason),
            });
        }
        inner.gone.extend(names);
        Ok(())
    }

    async fn entities_of(&self, _: &str) -> Result<EntitiesByCode, StoreError> {
        match self.inner().is_away {
            true => Err(StoreError::Unavailable("away".to_owned())),
            false => Ok(EntitiesByCode::new()),
        }
    }

    async fn entity_changes(
        &self,
        _: &str,
        _: &[String],
        _: Position,
        _: usize,
    ) -> Result<EntityPage, StoreError> {
        Ok(EntityPage::default())
    }

    async fn entity_counts(&self, _: Option<&str>) -> Result<Vec<EntityCount>, StoreError> {
        Ok(Vec::new())
    }

    async fn sweep_entities(&self, _: u64) -> Result<u64, StoreError> {
        Ok(0)
    }
}

fn gone(connection_id: &str) -> EntityEdit {
    EntityEdit::Disconnect { connection_id: connection_id.to_owned() }
}

fn names(work: &[Work]) -> Vec<&str> {
    work.iter().map(Work::connection_id).collect()
}

/// A batch that runs until it is dropped.
struct Running {
    batch: Arc<Batch>,
    store: Arc<Stubborn>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Running {
    fn start(store: Stubborn, batch: Batch) -> Running {
        let (batch, store, stop) = (Arc::new(batch), Arc::new(store), CancellationToken::new());
        let (working, into, stopped) = (Arc::clone(&batch), Arc::clone(&store), stop.clone());
        let task = tokio::spawn(async move { working.run(&*into, stopped).await });
        Running { batch, store, stop, task }
    }

    async fn end(self) -> Vec<String> {
        self.stop.cancel();
        self.task.await.expect("it ends");
        self.store.inner().gone.clone()
    }
}

fn locked(names: &[&str]) -> Stubborn {
    let locked = names.iter().map(ToString::to_string).collect();
    Stubborn(Mutex::new(Inner { locked, ..Inner::default() }))
}

#[test]
fn a_commit_has_an_end() {
    let batch = Batch::default();
    for number in 0..=COMMIT_EDITS_MAX {
        batch.note(gone(&number.to_string()));
    }
    assert_eq!(batch.take().len(), COMMIT_EDITS_MAX);
    assert_eq!(batch.take().len(), 1);
    assert_eq!(batch.waiting().ids, 0);
}

#[test]
fn what_comes_for_one_that_is_set_aside_joins_it() {
    let (batch, now) = (Batch::default(), Instant::now());
    batch.note(gone("a"));
    batch.note(gone("b"));
    let taken = batch.take();
    batch.waiting().aside.enter(taken, now);
    let _committed = batch.ask(gone("a"));
    batch.note(gone("c"));
    assert_eq!(names(&batch.take()), ["c"]);
    let mut waiting = batch.waiting();
    let (first, work) = waiting.aside.next(now).expect("one is due");
    assert_eq!((first.as_str(), work.len()), ("a", 2));
}

#[tokio::test]
async fn a_locked_row_fails_nobody_but_its_own_connection() {
    let batch = Batch::default();
    batch.note(gone("locked"));
    batch.note(gone("noted"));
    let others = [batch.ask(gone("asked")), batch.settle("looked"), batch.settle("noted")];
    let own = batch.settle("locked");
    let running = Running::start(locked(&["locked"]), batch);
    for other in others {
        other.await.expect("an answer").expect("it goes through");
    }
    assert!(own.await.expect("an answer").is_err(), "it is told, and may look again");
    running.batch.ask(gone("later")).await.expect("an answer").expect("it goes through");
    running.store.inner().locked.clear();
    running.store.until(|store| store.gone.iter().any(|name| name == "locked")).await;
    running.batch.settle("locked").await.expect("an answer").expect("it goes through");
    let mut gone = running.end().await;
    gone.sort();
    assert_eq!(gone, ["asked", "later", "locked", "noted"], "each once");
}

#[tokio::test]
async fn an_error_that_does_not_pass_takes_no_notes_of_others_along() {
    let batch = Batch::default();
    for name in ["a", "broken", "b"] {
        batch.note(gone(name));
    }
    let store = locked(&["broken"]);
    store.inner().is_broken = true;
    let running = Running::start(store, batch);
    running.store.until(|store| store.gone.len() == 2).await;
    running.store.until(|store| store.refusals > 1).await;
    running.store.inner().locked.clear();
    assert_eq!(running.end().await.len(), 3, "what was left is done at the end");
}

#[tokio::test]
async fn while_the_store_is_away_notes_wait_and_whoever_asks_is_told() {
    let batch = Batch::default();
    for name in ["a", "b"] {
        batch.note(gone(name));
    }
    let (asked, settled) = (batch.ask(gone("c")), batch.settle("a"));
    let store = Stubborn::default();
    store.inner().is_away = true;
    let running = Running::start(store, batch);
    assert!(asked.await.expect("an answer").is_err());
    assert!(settled.await.expect("an answer").is_err());
    assert_eq!(running.store.inner().refusals, 1, "nobody is tried by themselves");
    running.store.inner().is_away = false;
    running.batch.settle("a").await.expect("an answer").expect("it goes through");
    assert_eq!(running.end().await, ["a", "b"]);
}
