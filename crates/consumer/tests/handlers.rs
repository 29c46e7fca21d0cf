//! What handlers do to the open transaction, on a real PostgreSQL, and what comes of it.
//!
//! Users say what their handler does: each message is handled as its user is called.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use tidewire_consumer::{
    Builder, Consumer, Context, Error, EventExt as _, Group, Handler, HandlerError, Stats,
    handler_fn,
};
use tidewire_store::groups::{Filter, GroupChange, GroupError, Grouped as _, SharedGroups, Start};
use tidewire_store::{Actor, Append, Command, Create, Log as _, PageLimit, Position};
use tidewire_store_postgres::PostgresOptions;
use tidewire_store_postgres::PostgresStore;
use tidewire_store_postgres::testing::{TestDatabase, fresh_database};

/// All letters that a test has.
const ALL: PageLimit = PageLimit { events: 100, bytes: 1 << 20 };

/// A test that waits for longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(60);

struct Fixture {
    database: TestDatabase,
    store: Arc<PostgresStore>,
    groups: SharedGroups,
}

impl Fixture {
    async fn new() -> Fixture {
        let database = fresh_database().await;
        let store =
            PostgresStore::open(PostgresOptions::new(&database.url)).await.expect("a store");
        database
            .run(
                "CREATE TABLE done (seq serial, c_offset bigint, user_id text);
                 CREATE TABLE once (id int PRIMARY KEY);
                 CREATE TABLE parent (id int PRIMARY KEY);
                 CREATE TABLE child (id int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)",
            )
            .await;
        let groups = Arc::clone(&store).groups();
        let fixture = Fixture { database, store, groups };
        for stream in ["s", "other"] {
            let create = Create {
                stream: stream.to_owned(),
                content_type: Some("application/json".to_owned()),
                lifetime: None,
                messages: Vec::new(),
                closed: false,
                fork: None,
                actor: Actor::default(),
            };
            fixture.store.submit(Command::Create(Box::new(create))).await.expect("a stream");
        }
        fixture
    }

    /// One message of each of these users.
    async fn say(&self, stream: &str, users: &[&str]) {
        for user in users {
            let actor = Actor { user_id: Some((*user).to_owned()), ..Actor::default() };
            let append = Append {
                stream: stream.to_owned(),
                content_type: Some("application/json".to_owned()),
                messages: vec![format!("{{\"by\":\"{user}\"}}").into()],
                close: false,
                seq: None,
                producer: None,
                actor,
                trace_context: None,
            };
            self.store.submit(Command::Append(append)).await.expect("an append");
        }
    }

    fn member(&self) -> Builder {
        Consumer::builder(self.database.url.as_str())
            .group("g")
            .partitions(1)
            .max_attempts(2)
            .signals(false)
            .retry(Duration::from_millis(5), Duration::from_millis(50))
    }

    /// Whose messages were handled, in order.
    async fn done(&self) -> Vec<String> {
        self.database.run("SELECT user_id FROM done ORDER BY seq").await
    }

    async fn comes_to(&self, users: &[&str]) {
        let begun = tokio::time::Instant::now();
        loop {
            let done = self.done().await;
            if done == users {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{done:?} did not become {users:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// The errors of letters, in order, once there are so many.
    async fn errors(&self, count: usize) -> Vec<String> {
        let begun = tokio::time::Instant::now();
        loop {
            let letters = self
                .groups
                .letters("g", Position::START, ALL, None)
                .await
                .expect("letters")
                .letters;
            if letters.len() == count {
                return letters.into_iter().map(|letter| letter.letter.error).collect();
            }
            assert!(begun.elapsed() < PATIENCE, "{letters:?} did not become {count}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn end(self, member: Consumer) -> Stats {
        let stats = member.stop().await.expect("it stops");
        self.store.close().await;
        self.database.drop_database().await;
        stats
    }
}

/// Does as its user is called, the first of those things once only.
#[derive(Default)]
struct ScriptedHandler {
    struck: AtomicBool,
}

#[async_trait]
impl Handler for ScriptedHandler {
    async fn handle(
        &self,
        group: &Group<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), HandlerError> {
        let mut postgres = context.postgres().expect("PostgreSQL");
        for event in group.events() {
            let position = event.position.to_sql();
            let insert = "INSERT INTO done (c_offset, user_id) VALUES ($1, $2)";
            postgres.execute(insert, &[&position, &group.user_id()]).await?;
        }
        match group.user_id() {
            "struck" if !self.struck.swap(true, Ordering::SeqCst) => {
                postgres.query("SELECT pg_terminate_backend(pg_backend_pid())", &[]).await?;
            }
            "commits" => {
                postgres.execute("COMMIT", &[]).await?;
            }
            "ignores" => {
                let _ = postgres.execute("SELECT 1 / 0", &[]).await;
            }
            "careful" => {
                postgres.execute("SAVEPOINT mine", &[]).await?;
                let _ = postgres.execute("SELECT 1 / 0", &[]).await;
                postgres.execute("ROLLBACK TO SAVEPOINT mine", &[]).await?;
            }
            "orphan" => {
                postgres.execute("INSERT INTO child VALUES (7)", &[]).await?;
            }
            "sleeps" => {
                postgres.query("SELECT pg_sleep(600)", &[]).await?;
            }
            _ => {}
        }
        Ok(())
    }
}

#[tokio::test]
async fn commit_in_a_handler_ends_the_member_and_says_why() {
    let fixture = Fixture::new().await;
    fixture.say("s", &["commits"]).await;
    let mut member = fixture.member().start(ScriptedHandler::default()).await.expect("a member");
    let ended = member.ended().await.expect_err("it must not go on");
    assert!(matches!(ended, Error::Group(GroupError::EndedByHandler)), "{ended}");
    fixture.end(member).await;
}

#[tokio::test]
async fn a_lost_connection_is_not_an_attempt() {
    let fixture = Fixture::new().await;
    fixture.say("s", &["a", "struck", "b"]).await;
    let member = fixture.member().start(ScriptedHandler::default()).await.expect("a member");
    fixture.comes_to(&["a", "struck", "b"]).await;
    let stats = fixture.end(member).await;
    assert_eq!((stats.events, stats.retries, stats.dead), (3, 0, 0), "{stats:?}");
}

#[tokio::test]
async fn an_ignored_error_is_its_keys_failure_and_nobody_elses() {
    let fixture = Fixture::new().await;
    fixture.say("s", &["a", "ignores", "careful", "b"]).await;
    let member = fixture.member().start(ScriptedHandler::default()).await.expect("a member");
    fixture.comes_to(&["a", "careful", "b"]).await;
    let errors = fixture.errors(1).await;
    assert!(errors[0].contains("the handler went on"), "{errors:?}");
    assert!(errors[0].contains("division by zero"), "{errors:?}");
    fixture.end(member).await;
}

#[tokio::test]
async fn an_ignored_error_of_a_key_alone_is_found_too() {
    let fixture = Fixture::new().await;
    fixture.say("s", &["ignores"]).await;
    let member = fixture.member().start(ScriptedHandler::default()).await.expect("a member");
    let errors = fixture.errors(1).await;
    assert!(errors[0].contains("division by zero"), "{errors:?}");
    fixture.comes_to(&[]).await;
    fixture.end(member).await;
}

#[tokio::test]
async fn a_constraint_that_is_checked_at_the_end_is_told_to_its_key() {
    let fixture = Fixture::new().await;
    fixture.say("s", &["a", "orphan", "b"]).await;
    let member = fixture.member().start(ScriptedHandler::default()).await.expect("a member");
    fixture.comes_to(&["a", "b"]).await;
    let errors = fixture.errors(1).await;
    assert!(errors[0].contains("foreign key"), "{errors:?}");
    fixture.end(member).await;
}

#[tokio::test]
async fn a_statement_that_does_not_end_is_cut_off() {
    let fixture = Fixture::new().await;
    fixture.say("s", &["a", "sleeps", "b"]).await;
    let member = fixture.member().handler_timeout(Duration::from_millis(300));
    let member = member.start(ScriptedHandler::default()).await.expect("a member");
    fixture.comes_to(&["a", "b"]).await;
    let errors = fixture.errors(1).await;
    // The member gives up on it, or the server does, which was told how long it may take.
    let told = ["took longer than 300ms", "statement timeout"];
    assert!(told.iter().any(|text| errors[0].contains(text)), "{errors:?}");
    fixture.end(member).await;
}

/// Takes its time elsewhere, and writes nothing.
struct Elsewhere;

#[async_trait]
impl Handler for Elsewhere {
    async fn handle(&self, _: &Group<'_>, _: &mut Context<'_>) -> Result<(), HandlerError> {
        tokio::time::sleep(Duration::from_millis(900)).await;
        Ok(())
    }
}

#[tokio::test]
async fn a_batch_whose_handlers_work_elsewhere_is_not_ended_by_the_server() {
    let fixture = Fixture::new().await;
    // Together they take longer than the server lets a transaction stand still.
    let users: Vec<String> = (0..9).map(|n| format!("u{n}")).collect();
    let users: Vec<&str> = users.iter().map(String::as_str).collect();
    fixture.say("s", &users).await;
    let member = fixture.member().max_attempts(100).handler_timeout(Duration::from_millis(1_500));
    let member = member.start(Elsewhere).await.expect("a member");
    let begun = tokio::time::Instant::now();
    while member.stats().events < 9 {
        assert!(begun.elapsed() < PATIENCE, "{:?}", member.stats());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    fixture.end(member).await;
}

#[tokio::test]
async fn a_group_that_is_reset_goes_through_the_log_again() {
    let fixture = Fixture::new().await;
    fixture.say("s", &["a", "b"]).await;
    let member = fixture.member().start(ScriptedHandler::default()).await.expect("a member");
    fixture.comes_to(&["a", "b"]).await;
    fixture.groups.reset_group("g", Start::Beginning, None, false).await.expect("reset");
    fixture.comes_to(&["a", "b", "a", "b"]).await;
    fixture.end(member).await;
}

#[tokio::test]
async fn a_filter_that_is_changed_holds_for_what_is_read_from_then_on() {
    let fixture = Fixture::new().await;
    let member = fixture.member().start(ScriptedHandler::default()).await.expect("a member");
    fixture.say("s", &["a"]).await;
    fixture.say("other", &["b"]).await;
    fixture.comes_to(&["a", "b"]).await;
    let filter = Filter { tables: Vec::new(), streams: vec!["other".to_owned()] };
    let change = GroupChange { filter: Some(filter), ..GroupChange::default() };
    fixture.groups.change_group("g", &change).await.expect("changed");
    fixture.say("s", &["c"]).await;
    fixture.say("other", &["d"]).await;
    fixture.comes_to(&["a", "b", "d"]).await;
    fixture.end(member).await;
}

#[tokio::test]
async fn a_paused_group_stands_still_until_it_goes_on() {
    let fixture = Fixture::new().await;
    let member = fixture.member().start(ScriptedHandler::default()).await.expect("a member");
    fixture.say("s", &["a"]).await;
    fixture.comes_to(&["a"]).await;
    let paused = |paused| GroupChange { paused: Some(paused), ..GroupChange::default() };
    fixture.groups.change_group("g", &paused(true)).await.expect("paused");
    fixture.say("s", &["b"]).await;
    fixture.groups.change_group("g", &paused(false)).await.expect("resumed");
    fixture.comes_to(&["a", "b"]).await;
    fixture.end(member).await;
}

#[tokio::test]
async fn a_closure_can_be_a_handler() {
    let fixture = Fixture::new().await;
    fixture.say("s", &["a", "b"]).await;
    let handler = handler_fn(|group, context| {
        Box::pin(async move {
            let said: serde_json::Value = group.events()[0].json()?;
            let sql = "INSERT INTO done (c_offset, user_id) VALUES ($1, $2)";
            let position = group.events()[0].position.number();
            context.sql(sql, &[json!(position), said["by"].clone()]).await?;
            Ok(())
        })
    });
    let member = fixture.member().start(handler).await.expect("a member");
    fixture.comes_to(&["a", "b"]).await;
    fixture.end(member).await;
}

#[tokio::test]
async fn members_of_one_process_share_without_doing_anything_twice() {
    let fixture = Fixture::new().await;
    let users: Vec<String> = (0..100).map(|n| format!("u{n}")).collect();
    let users: Vec<&str> = users.iter().map(String::as_str).collect();
    let mut members = Vec::new();
    for _ in 0..3 {
        // All want the same partition, so that they meet.
        let member = fixture.member().pin(0).batch_size(3).start(ScriptedHandler::default()).await;
        members.push(member.expect("a member"));
    }
    fixture.say("s", &users).await;
    fixture.comes_to(&users).await;
    let last = members.pop().expect("a member");
    for member in members {
        member.stop().await.expect("it stops");
    }
    let distinct: BTreeSet<String> = fixture.done().await.into_iter().collect();
    assert_eq!(distinct.len(), users.len());
    fixture.end(last).await;
}
