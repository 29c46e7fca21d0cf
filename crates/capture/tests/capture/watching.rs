//! Watching, as the store's trait has it.

use tidewire_store::{CaptureMode, NewWatch, SqlError, Watches as _};

use crate::fixture::Fixture;

fn plain(table: &str) -> NewWatch {
    NewWatch { table: table.to_owned(), ..NewWatch::default() }
}

#[tokio::test]
async fn watches_are_listed_with_their_counts() {
    let fixture = Fixture::start().await;
    fixture.run("CREATE TABLE b (id int PRIMARY KEY); CREATE TABLE a (x int, y int)").await;
    let watch = NewWatch {
        key_columns: Some(vec!["y".to_owned(), "x".to_owned()]),
        entity_code: Some("thing".to_owned()),
        host_column: Some("x".to_owned()),
        ..plain("public.a")
    };
    let made = fixture.store.watch(watch).await.expect("it is watched");
    assert_eq!((made.table.as_str(), made.stream.as_str()), ("a", "table/a"));
    assert_eq!(made.key_columns, ["y", "x"]);
    fixture.store.watch(plain("b")).await.expect("another one");
    fixture.run("INSERT INTO b VALUES (1), (2)").await;
    fixture.until("SELECT events = 2 FROM tidewire.watches WHERE table_name = 'b'").await;
    let views = fixture.store.watches().await.expect("a list");
    let names: Vec<_> = views.iter().map(|view| view.table.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!((views[1].events, views[1].waiting), (2, 0));
    assert!(views[1].last.is_some());
    let again = fixture.store.watch(plain("a")).await.expect("watched otherwise");
    assert_eq!((again.key_columns.len(), again.entity_code), (0, None));
    assert!(fixture.store.unwatch("a").await.expect("it was watched"));
    assert!(!fixture.store.unwatch("a").await.expect("it is not"));
    let triggers = "SELECT count(*) FROM pg_trigger WHERE tgname LIKE '!tidewire%'";
    assert_eq!(fixture.number(triggers).await, 4, "those of b");
    fixture.tear_down().await;
}

#[tokio::test]
async fn what_cannot_be_watched_is_refused_with_a_hint() {
    let fixture = Fixture::start_without_capture().await;
    fixture.run("CREATE TABLE t (id int, g int GENERATED ALWAYS AS (id) STORED)").await;
    fixture.run("CREATE VIEW v AS SELECT 1 AS id").await;
    let version = fixture.number("SELECT current_setting('server_version_num')::bigint").await;
    let generated = NewWatch { host_column: Some("g".to_owned()), ..plain("t") };
    let missing = NewWatch { key_columns: Some(vec!["no".to_owned()]), ..plain("t") };
    for (watch, said) in [
        (plain("nothing"), "there is no table 'nothing'"),
        (plain("v"), "v is not a table"),
        (plain("tidewire.log"), "not"),
        (plain("pg_catalog.pg_class"), "belongs to the system"),
        (generated, "the table t has no column g that could be captured"),
        (missing, "the table t has no column no that could be captured"),
        // From PostgreSQL 16 on, what is no name is no table.
        (
            plain("a b c"),
            if version < 160_000 { "invalid name syntax" } else { "no table 'a b c'" },
        ),
    ] {
        let refused = fixture.store.watch(watch.clone()).await.expect_err("it cannot be watched");
        let SqlError::Wrong(problem) = refused else { panic!("{watch:?}: {refused}") };
        assert!(problem.message.contains(said) || said == "not", "{}", problem.message);
    }
    assert!(fixture.store.watches().await.expect("a list").is_empty());
    fixture.tear_down().await;
}

#[tokio::test]
async fn capture_says_how_and_why() {
    let fixture = Fixture::start().await;
    fixture.until("SELECT leader = 'a' FROM tidewire.capture").await;
    let view = fixture.store.capture().await.expect("a view");
    assert_eq!((view.mode, view.failed, view.dead), (CaptureMode::Outbox, 0, 0));
    assert!(!view.reason.is_empty());
    fixture.tear_down().await;
}

#[tokio::test]
async fn nobody_says_how_before_someone_has_decided() {
    let mut fixture = Fixture::start_without_capture().await;
    assert!(!fixture.store.capture().await.expect("a view").decided);
    fixture.capture(crate::fixture::quick("a"));
    fixture.until("SELECT decided FROM tidewire.capture").await;
    let view = fixture.store.capture().await.expect("a view");
    assert!(view.decided && view.mode == CaptureMode::Outbox, "{view:?}");
    fixture.tear_down().await;
}

#[tokio::test]
async fn whoever_watches_a_table_is_told_of_those_that_inherit_from_it() {
    let fixture = Fixture::start().await;
    fixture
        .run("CREATE TABLE base (id int PRIMARY KEY); CREATE TABLE heir () INHERITS (base)")
        .await;
    let made = fixture.store.watch(plain("base")).await.expect("it is watched");
    assert!(matches!(&made.notes[..], [note] if note.contains("heir")), "{:?}", made.notes);
    let heir = fixture.store.watch(plain("heir")).await.expect("it is watched");
    assert_eq!(heir.notes, Vec::<String>::new());
    fixture.run("CREATE TABLE parts (id int) PARTITION BY LIST (id)").await;
    fixture.run("CREATE TABLE one PARTITION OF parts FOR VALUES IN (1)").await;
    let parts = fixture.store.watch(plain("parts")).await.expect("it is watched");
    assert_eq!(parts.notes, Vec::<String>::new(), "partitions are captured with their table");
    fixture.tear_down().await;
}

#[tokio::test]
async fn a_watch_lets_writers_go_on_and_says_who_is_in_its_way() {
    for fixture in [Fixture::start().await, Fixture::start_with_wal().await] {
        fixture.until("SELECT decided FROM tidewire.capture").await;
        fixture.run("CREATE TABLE busy (id int PRIMARY KEY)").await;
        let idler = fixture.database.connect().await;
        let open = "SET application_name = 'idler'; BEGIN; INSERT INTO busy VALUES (0)";
        idler.batch_execute(open).await.expect("it has written");
        let pid: i32 = idler.query_one("SELECT pg_backend_pid()", &[]).await.expect("a pid").get(0);
        let store = std::sync::Arc::clone(&fixture.store);
        let watching = tokio::spawn(async move { store.watch(plain("busy")).await });
        let waits =
            "SELECT count(*) > 0 FROM pg_locks WHERE relation = 'busy'::regclass AND NOT granted";
        fixture.until(waits).await;
        for id in 1..=3 {
            fixture.run(&format!("INSERT INTO busy VALUES ({id})")).await;
        }
        assert!(!watching.is_finished(), "others are done while the watch still tries");
        let refused = watching.await.expect("it ends").expect_err("the table is in use");
        let SqlError::Wrong(problem) = refused else { panic!("{refused}") };
        assert_eq!(problem.code, "table_in_use");
        for said in [format!("pid {pid}"), "application idler".to_owned(), "idle in tr".to_owned()]
        {
            assert!(problem.message.contains(&said), "{}", problem.message);
        }
        idler.batch_execute("COMMIT").await.expect("it ends");
        fixture.store.watch(plain("busy")).await.expect("nobody is in the way");
        fixture.tear_down().await;
    }
}
