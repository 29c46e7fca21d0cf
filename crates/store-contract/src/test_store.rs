//! The store under test, with calls that panic and say what was wrong instead of returning errors.

use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Opener;
use tidewire_store::command::{Answer, Append, Command, Create, Refusal};
use tidewire_store::event::{Event, TailEvent};
use tidewire_store::groups::SharedGroups;
use tidewire_store::log::{Found, Page, PageLimit, SharedStore, Store, StreamView};
use tidewire_store::offset::Position;
use tidewire_store::subscription::{Op, Reply, Subscription};
use tidewire_store::testing::commands;

/// More than any test writes.
pub(super) const EVERYTHING: PageLimit = PageLimit { events: 100_000, bytes: 64 << 20 };

/// How long something may take that must happen in the end. Generous: it is waited out only by a
/// test that fails.
pub(super) const DEADLINE: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The store under test.
#[derive(Debug, Clone)]
pub(super) struct TestStore(SharedStore);

impl Deref for TestStore {
    type Target = dyn Store;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl TestStore {
    pub(super) async fn open(data: &dyn Opener) -> TestStore {
        TestStore(data.open().await)
    }

    /// Closes the store and opens the same data again.
    pub(super) async fn reopen(self, data: &dyn Opener) -> TestStore {
        self.close().await;
        drop(self);
        TestStore::open(data).await
    }

    /// Closes the store, and does not wait for ever.
    pub(super) async fn close(&self) {
        let closed = tokio::time::timeout(DEADLINE, self.0.close()).await;
        closed.expect("the store closes in time");
    }

    pub(super) fn groups(&self) -> SharedGroups {
        Arc::clone(&self.0).groups()
    }

    pub(super) async fn ask(&self, command: Command) -> Answer {
        let about = format!("{command:?}");
        self.submit(command).await.unwrap_or_else(|error| panic!("{about}: {error}"))
    }

    pub(super) async fn creates(&self, create: Create) -> Answer {
        self.ask(Command::Create(Box::new(create))).await
    }

    pub(super) async fn appends(&self, append: Append) -> Answer {
        self.ask(Command::Append(append)).await
    }

    /// Makes a stream that is not there yet, and returns its end.
    pub(super) async fn create(&self, create: Create) -> Position {
        match self.creates(create).await {
            Answer::Created { new: true, tail, .. } => tail,
            other => panic!("expected a new stream, got {other:?}"),
        }
    }

    /// Makes an empty stream of text.
    pub(super) async fn create_text(&self, stream: &str) -> Position {
        self.create(commands::create(stream)).await
    }

    /// Makes an append that must be accepted, and returns the stream's end.
    pub(super) async fn append(&self, append: Append) -> Position {
        match self.appends(append).await {
            Answer::Appended { tail, .. } => tail,
            other => panic!("expected an accepted append, got {other:?}"),
        }
    }

    pub(super) async fn append_text(&self, stream: &str, text: &str) -> Position {
        self.append(commands::append(stream, text)).await
    }

    pub(super) async fn delete(&self, stream: &str) {
        assert_eq!(self.ask(commands::delete(stream)).await, Answer::Done, "delete {stream}");
    }

    pub(super) async fn find(&self, stream: &str, after: Position, limit: PageLimit) -> Found {
        let found = self.read(stream, after, limit).await;
        found.unwrap_or_else(|error| panic!("read {stream}: {error}"))
    }

    pub(super) async fn page(&self, stream: &str, after: Position, limit: PageLimit) -> Page {
        match self.find(stream, after, limit).await {
            Found::Stream(page) => *page,
            other => panic!("expected {stream} to be there, got {other:?}"),
        }
    }

    /// The stream itself, without its events.
    pub(super) async fn view(&self, stream: &str) -> StreamView {
        self.page(stream, Position::START, PageLimit { events: 0, bytes: 0 }).await.view
    }

    pub(super) async fn is_found(&self, stream: &str) -> bool {
        let found = self.find(stream, Position::START, PageLimit { events: 0, bytes: 0 }).await;
        matches!(found, Found::Stream(_))
    }

    /// All events of a stream.
    pub(super) async fn events(&self, stream: &str) -> Vec<Event> {
        self.page(stream, Position::START, EVERYTHING).await.events
    }

    /// All payloads of a stream.
    pub(super) async fn texts(&self, stream: &str) -> Vec<String> {
        self.events(stream).await.iter().map(|event| text(&event.payload)).collect()
    }

    /// The whole log after a position, with the payloads of all streams.
    pub(super) async fn log_after(&self, after: Position) -> Vec<TailEvent> {
        let all = Arc::new(|_: &str| true);
        self.follow(after, EVERYTHING, all).await.expect("the log can be followed")
    }

    pub(super) async fn log_tip(&self) -> Position {
        self.tip().await.expect("the tip can be read")
    }

    pub(super) async fn change(&self, id: &str, op: Op) -> Reply {
        let about = format!("{op:?}");
        let reply = self.change_subscription(id, op).await;
        reply.unwrap_or_else(|error| panic!("{about}: {error}"))
    }

    /// A subscription that is there.
    pub(super) async fn subscribed(&self, id: &str) -> Subscription {
        let found = self.subscription(id).await.expect("a subscription can be read");
        found.unwrap_or_else(|| panic!("the subscription {id} is gone"))
    }
}

/// A payload as text.
pub(super) fn text(payload: &[u8]) -> String {
    String::from_utf8_lossy(payload).into_owned()
}

/// The reason of a refusal.
#[track_caller]
pub(super) fn refusal(answer: Answer) -> Refusal {
    match answer {
        Answer::Refused(refusal) => refusal,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// Asks again and again until the answer is there. For what only time brings about: the store's
/// clock is its own.
pub(super) async fn eventually<T, F>(what: &str, mut check: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let started = Instant::now();
    loop {
        if let Some(value) = check().await {
            return value;
        }
        assert!(started.elapsed() < DEADLINE, "waited {DEADLINE:?} in vain: {what}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
