//! What handlers do to the open transaction on SQLite, where it holds the one writer, and what comes of it.
//!
//! Users say what their handler does: each message is handled as its user is called.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use tidewire_consumer::{Builder, Consumer, Context, Group, Handler, HandlerError, Stats};
use tidewire_store::groups::{
    Claim, Ending, Filter, Groups as _, LeaseRef, Letter, LetterView, OnDead, PAGE_BYTES_MAX, Wants,
};
use tidewire_store::{
    Actor, Append, Command, Create, Log as _, PageLimit, Position, Reach, Sql as _, SqlLimits,
    Statements,
};
use tidewire_store_sqlite::SqliteOptions;
use tidewire_store_sqlite::SqliteStore;
use tokio::sync::Notify;

/// All letters that a test has.
const ALL: PageLimit = PageLimit { events: 100, bytes: 1 << 20 };

/// A test that waits for longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(60);

const LIMITS: SqlLimits = SqlLimits { timeout_ms: 30_000, rows_max: 10_000, bytes_max: 1 << 20 };

struct Fixture {
    store: Arc<SqliteStore>,
    _folder: tempfile::TempDir,
}

impl Fixture {
    async fn new() -> Fixture {
        let folder = tempfile::tempdir().expect("a folder");
        let store = SqliteStore::open(SqliteOptions::new(folder.path())).await.expect("a store");
        let fixture = Fixture { store, _folder: folder };
        fixture
            .run(
                "CREATE TABLE done (seq INTEGER PRIMARY KEY AUTOINCREMENT, user_id TEXT);
                 CREATE TABLE once (id INTEGER PRIMARY KEY);
                 CREATE TABLE parent (id INTEGER PRIMARY KEY);
                 CREATE TABLE child (id INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED)",
            )
            .await;
        let create = Create {
            stream: "s".to_owned(),
            content_type: Some("application/json".to_owned()),
            lifetime: None,
            messages: Vec::new(),
            closed: false,
            fork: None,
            actor: Actor::default(),
        };
        fixture.store.submit(Command::Create(Box::new(create))).await.expect("a stream");
        fixture
    }

    /// Runs SQL; the first column of its rows.
    async fn run(&self, sql: &str) -> Vec<String> {
        let actor = Actor { reach: Reach::All, ..Actor::default() };
        let statements =
            Statements { sql: sql.to_owned(), params: Vec::new(), actor, limits: LIMITS };
        let answer = self.store.run_sql(statements).await.expect("an answer");
        let text = |row: &Vec<Box<serde_json::value::RawValue>>| {
            serde_json::from_str(row[0].get()).expect("a text")
        };
        answer.rows.iter().map(text).collect()
    }

    /// One message of each of these users.
    async fn say(&self, users: &[&str]) {
        for user in users {
            let append = Append {
                stream: "s".to_owned(),
                content_type: Some("application/json".to_owned()),
                messages: vec!["{}".into()],
                close: false,
                seq: None,
                producer: None,
                actor: Actor { user_id: Some((*user).to_owned()), ..Actor::default() },
                trace_context: None,
            };
            self.store.submit(Command::Append(append)).await.expect("an append");
        }
    }

    fn member(&self) -> Builder {
        Consumer::builder(Arc::clone(&self.store))
            .group("g")
            .partitions(1)
            .max_attempts(2)
            .signals(false)
            .retry(Duration::from_millis(5), Duration::from_millis(50))
    }

    /// Waits until exactly these were handled, in this order.
    async fn comes_to(&self, users: &[&str]) {
        let begun = tokio::time::Instant::now();
        loop {
            let done = self.run("SELECT user_id FROM done ORDER BY seq").await;
            if done == users {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{done:?} did not become {users:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The only letter, once it is there.
    async fn letter(&self) -> LetterView {
        let begun = tokio::time::Instant::now();
        loop {
            let mut letters =
                self.store.letters("g", Position::START, ALL, None).await.expect("letters").letters;
            assert!(letters.len() < 2, "{letters:?}");
            if let Some(letter) = letters.pop() {
                return letter;
            }
            assert!(begun.elapsed() < PATIENCE, "there is no letter");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn end(self, member: Consumer) -> Stats {
        let stats = member.stop().await.expect("it stops");
        self.store.close().await;
        stats
    }
}

/// Never ends, and says when it begins and when it is given up.
#[derive(Default)]
struct Endless {
    begun: Arc<Notify>,
    given_up: Arc<Notify>,
}

/// Notifies when dropped.
struct AtItsEnd(Arc<Notify>);

impl Drop for AtItsEnd {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[async_trait]
impl Handler for Endless {
    async fn handle(&self, _: &Group<'_>, _: &mut Context<'_>) -> Result<(), HandlerError> {
        let _end = AtItsEnd(Arc::clone(&self.given_up));
        self.begun.notify_one();
        std::future::pending().await
    }
}

/// Does as its user is called.
struct ScriptedHandler;

#[async_trait]
impl Handler for ScriptedHandler {
    async fn handle(
        &self,
        group: &Group<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), HandlerError> {
        let user = group.user_id();
        context.sql("INSERT INTO done (user_id) VALUES ($1)", &[json!(user)]).await?;
        match user {
            "ignores" => {
                for _ in 0..2 {
                    let _ = context.sql("INSERT INTO once VALUES (1)", &[]).await;
                }
            }
            "orphan" => {
                context.sql("INSERT INTO child VALUES (7)", &[]).await?;
            }
            "endless" => tokio::time::sleep(Duration::from_secs(7)).await,
            slow if slow.starts_with("slow") => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            _ => {}
        }
        Ok(())
    }
}

#[tokio::test]
async fn an_ignored_error_is_its_keys_failure_and_nobody_elses() {
    let fixture = Fixture::new().await;
    fixture.say(&["a", "ignores", "b"]).await;
    let member = fixture.member().start(ScriptedHandler).await.expect("a member");
    fixture.comes_to(&["a", "b"]).await;
    let letter = fixture.letter().await.letter;
    assert_eq!(letter.event.user_id.as_deref(), Some("ignores"));
    assert!(letter.error.contains("the handler went on"), "{}", letter.error);
    fixture.end(member).await;
}

#[tokio::test]
async fn a_batch_that_holds_the_writer_for_too_long_is_made_smaller_and_nobody_is_blamed() {
    let fixture = Fixture::new().await;
    let users: Vec<String> = (0..20).map(|n| format!("slow{n}")).collect();
    let users: Vec<&str> = users.iter().map(String::as_str).collect();
    fixture.say(&users).await;
    // One key has plenty of time, and all of them together have not.
    let member = fixture.member().max_attempts(20).handler_timeout(Duration::from_millis(500));
    let member = member.start(ScriptedHandler).await.expect("a member");
    fixture.comes_to(&users).await;
    let stats = fixture.end(member).await;
    assert_eq!((stats.events, stats.dead), (20, 0), "{stats:?}");
}

#[tokio::test]
async fn a_handler_that_always_holds_the_writer_for_too_long_is_told() {
    let fixture = Fixture::new().await;
    fixture.say(&["endless"]).await;
    let member = fixture.member().max_attempts(1).start(ScriptedHandler).await.expect("a member");
    let letter = fixture.letter().await.letter;
    assert!(letter.error.contains("open for 5000 ms"), "{}", letter.error);
    fixture.say(&["a"]).await;
    fixture.comes_to(&["a"]).await;
    fixture.end(member).await;
}

#[tokio::test]
async fn a_constraint_that_is_checked_at_the_end_is_told_to_its_key() {
    let fixture = Fixture::new().await;
    fixture.say(&["a", "orphan", "b"]).await;
    let member = fixture.member().start(ScriptedHandler).await.expect("a member");
    fixture.comes_to(&["a", "b"]).await;
    let letter = fixture.letter().await.letter;
    assert_eq!(letter.event.user_id.as_deref(), Some("orphan"));
    assert!(letter.error.to_lowercase().contains("foreign key"), "{}", letter.error);
    fixture.end(member).await;
}

#[tokio::test]
async fn what_another_kind_of_worker_made_a_letter_is_not_handled() {
    let fixture = Fixture::new().await;
    let member =
        fixture.member().on_dead(OnDead::Skip).start(ScriptedHandler).await.expect("a member");
    member.stop().await.expect("it stops");
    fixture.say(&["a", "b", "c"]).await;
    let tip = fixture.store.log_tip().await.expect("a tip");
    let holdings = fixture.store.holdings("g", 0).await.expect("holdings");
    let claim = Claim {
        group: "g".to_owned(),
        partition: 0,
        member: "elsewhere".to_owned(),
        generation: holdings.partition.generation,
        next: holdings.partition.next,
        timeout_ms: 1_000,
    };
    let generation = fixture.store.lease(&claim, tip.next(), 60_000).await.expect("asked");
    let generation = generation.expect("a lease");
    let wants = Wants {
        filter: Filter::default(),
        total: NonZeroU32::MIN,
        partitions: None,
        page_bytes: PAGE_BYTES_MAX,
    };
    let page =
        fixture.store.log_page(Position::START, tip, &Arc::new(wants)).await.expect("a page");
    let mut events = page.entries.into_iter().filter_map(|entry| entry.event);
    let event = events.find(|event| event.user_id.as_deref() == Some("b")).expect("b's event");
    let letter = Letter { event, error: "no use".to_owned(), attempts: 1 };
    let lease = LeaseRef { group: "g".to_owned(), partition: 0, generation };
    let ending = Ending { dead: vec![letter], ..Ending::default() };
    fixture.store.nack(&lease, &[], &ending, 0).await.expect("given back");

    let member = fixture.member().start(ScriptedHandler).await.expect("a member");
    fixture.comes_to(&["a", "c"]).await;
    assert_eq!(fixture.letter().await.letter.error, "no use");
    fixture.end(member).await;
}

#[tokio::test]
async fn a_handler_that_never_ends_is_given_up_when_its_member_stops() {
    let fixture = Fixture::new().await;
    fixture.say(&["a"]).await;
    let endless = Endless::default();
    let (begun, given_up) = (Arc::clone(&endless.begun), Arc::clone(&endless.given_up));
    let member = fixture.member().handler_timeout(Duration::from_secs(3_600));
    let member = member.start(endless).await.expect("a member");
    begun.notified().await;
    // With nothing else to do, the clock goes on to where the patience with batches in hand ends.
    tokio::time::pause();
    let (stats, ()) = tokio::join!(member.stop(), async {
        given_up.notified().await;
        tokio::time::resume();
    });
    let stats = stats.expect("it stops");
    assert_eq!((stats.events, stats.retries), (0, 0), "nothing was done or counted: {stats:?}");
    let next = fixture.member().start(ScriptedHandler).await.expect("a member");
    fixture.comes_to(&["a"]).await;
    fixture.end(next).await;
}
