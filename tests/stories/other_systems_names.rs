//! SQL that was written for other systems meets a database of Tidewire's: `tidewire migrate --compat`
//! makes the names that it uses, and what it inserts there is delivered.

use serde_json::json;
use tidewire_stories::postgres::{Sql, fresh_database};
use tidewire_stories::{Ended, Launch, Store, Wire, eventually};

async fn migrate(store: &Store, flags: &[&str]) -> Ended {
    let (flag, place) = match store {
        Store::Sqlite { folder, .. } => ("--data", folder.display().to_string()),
        Store::Postgres { url } => ("--database", url.clone()),
    };
    let flags = flags.iter().map(ToString::to_string);
    Launch::command("migrate").with(flags.chain([flag.to_owned(), place])).run().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_says_what_it_made_and_makes_it_again() {
    let store = Store::postgres_at(fresh_database().await);
    let made = migrate(&store, &["--compat"]).await;
    assert_eq!(made.code, Some(0), "{}", made.said);
    for line in ["app.rxdb_subscription  ", "app.bulk_subscribe  ", "public.outbox  "] {
        let found = made.printed.lines().find(|printed| printed.starts_with(line));
        assert!(found.is_some_and(|line| line.ends_with("made")), "{}", made.printed);
    }
    let again = migrate(&store, &["--compat"]).await;
    assert_eq!(again.code, Some(0), "{}", again.said);
    assert_eq!(again.printed.matches("brought up to date").count(), 13, "{}", again.printed);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_leaves_alone_what_others_made() {
    let store = Store::postgres_at(fresh_database().await);
    let Store::Postgres { url } = &store else { panic!("it is PostgreSQL") };
    let sql = Sql::connect(url).await.expect("a connection");
    sql.batch_execute("CREATE TABLE api_keys (id int)").await.expect("a table");
    let refused = migrate(&store, &["--compat"]).await;
    assert_eq!(refused.code, Some(1), "{}", refused.printed);
    let said = "public.api_keys is there already, and not made by `tidewire migrate --compat`";
    assert!(refused.said.contains(said), "{}", refused.said);
    let elsewhere = migrate(&store, &["--compat", "--compat-public", "outside"]).await;
    assert_eq!(elsewhere.code, Some(0), "{}", elsewhere.said);
    assert!(elsewhere.printed.contains("outside.api_keys"), "{}", elsewhere.printed);
    let own = migrate(&store, &["--compat", "--compat-schema", "tidewire"]).await;
    assert!(own.said.contains("name another with --compat-schema"), "{}", own.said);
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_has_no_such_names() {
    let store = Store::sqlite();
    let refused = migrate(&store, &["--compat"]).await;
    assert_eq!(refused.code, Some(1), "{}", refused.printed);
    assert!(refused.said.contains("--compat is for PostgreSQL"), "{}", refused.said);
    assert_eq!(migrate(&store, &[]).await.code, Some(0));
}

/// I8: what is inserted into the outbox is an event like any other.
#[tokio::test(flavor = "multi_thread")]
async fn an_insert_into_the_outbox_is_delivered() {
    let store = Store::postgres_at(fresh_database().await);
    let Store::Postgres { url } = &store else { panic!("it is PostgreSQL") };
    assert_eq!(migrate(&store, &["--compat"]).await.code, Some(0));
    let server = Launch::dev(&store).start().await;
    let sql = Sql::connect(url).await.expect("a connection");
    let insert = "INSERT INTO outbox (table_name, operation, after_data)
        VALUES ('orders', 'INSERT', '{\"id\": 7}') RETURNING id";
    let id = sql.number(insert).await;
    let offset =
        format!("SELECT coalesce(max(c_offset), 0) FROM outbox WHERE id = {id} AND processed");
    let offset = eventually("the event is processed", async || {
        Some(sql.number(&offset).await).filter(|offset| *offset > 0)
    })
    .await;
    let read = server.http().get("/v1/stream/table/orders?offset=-1").await;
    let events: serde_json::Value = read.json();
    assert_eq!(events[0]["eventId"], json!(offset.to_string()));
    assert_eq!(events[0]["tableName"], json!("orders"));
    assert_eq!(events[0]["data"], json!({"id": 7}));

    // The table is not watched, nor is it there: whoever follows it gets what is published.
    let mut wire = Wire::open(server.http(), "/v1/ws").await;
    let wanted = json!([{ "query_id": "q", "table": "orders" }]);
    wire.say(&json!({ "type": "subscribe", "subscriptions": wanted })).await;
    wire.hears("subscription_created").await;
    sql.number(insert).await;
    let event = wire.hears("cdc_event").await;
    assert_eq!((&event["query_id"], &event["data"]), (&json!("q"), &json!({"id": 7})), "{event}");
    server.stop().await;
}

/// A service that keeps subscriptions and logs changes by SQL, and knows nothing of Tidewire.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_logged_reaches_those_whom_sql_subscribed() {
    let store = Store::postgres_at(fresh_database().await);
    let Store::Postgres { url } = &store else { panic!("it is PostgreSQL") };
    assert_eq!(migrate(&store, &["--compat"]).await.code, Some(0));
    let server = Launch::dev(&store).start().await;
    let sql = Sql::connect(url).await.expect("a connection");
    let (user, entity) =
        ("5e0f2a9e-41d7-4386-8000-000000000001", "5e0f2a9e-41d7-4386-8000-000000000002");
    let mut wire = Wire::open(server.http(), "/v1/ws").await;
    let hello = wire.hears("hello").await;
    let connection = hello["connection_id"].as_str().expect("a name");
    let subscribed = sql
        .number(&format!(
            "SELECT app.bulk_subscribe('{user}'::UUID, '{connection}', 'project',
                ARRAY['{entity}']::UUID[])::bigint"
        ))
        .await;
    assert_eq!(subscribed, 1);
    wire.hears("subscription_created").await;
    let log = |action: i32| {
        format!(
            "INSERT INTO app.logging (entity_code, entity_id, action)
                 VALUES ('project', '{entity}', {action})"
        )
    };
    for (action, told) in [(1, "UPDATE"), (4, "CREATE"), (3, "DELETE")] {
        sql.batch_execute(&format!("{}; {}", log(0), log(action))).await.expect("a row");
        let message = wire.hears("INVALIDATE").await;
        let expected = json!({
            "entityCode": "project",
            "changes": [{ "entityId": entity, "action": told }],
        });
        assert_eq!(message["payload"], expected, "{message}");
    }
    let waiting = "SELECT count(*) FROM app.logging
        WHERE action <> 0 AND (sync_status <> 'sent' OR sync_processed_ts IS NULL)";
    assert_eq!(sql.number(waiting).await, 0);
    server.stop().await;
}
