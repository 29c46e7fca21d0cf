//! `wake = "always"`: the channels that other systems listen to.

use serde_json::{Value, json};
use tidewire_capture::{CaptureOptions, Source, Wake};
use tidewire_store_postgres::testing::TestDatabase;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, NoTls};

use super::{make, start, usual, value};
use crate::fixture::{DEADLINE, Fixture, quick};

/// What comes over both channels.
struct Listener {
    told: mpsc::UnboundedReceiver<(String, String)>,
    _client: Client,
}

impl Listener {
    async fn of(database: &TestDatabase) -> Listener {
        let (client, mut connection) =
            tokio_postgres::connect(&database.url, NoTls).await.expect("a connection");
        let (tell, told) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) =
                std::future::poll_fn(|context| connection.poll_message(context)).await
            {
                if let AsyncMessage::Notification(said) = message {
                    let _ = tell.send((said.channel().to_owned(), said.payload().to_owned()));
                }
            }
        });
        client.batch_execute("LISTEN cdc_outbox; LISTEN event_channel").await.expect("LISTEN");
        Listener { told, _client: client }
    }

    async fn next(&mut self) -> (String, String) {
        let told = tokio::time::timeout(DEADLINE, self.told.recv()).await;
        told.expect("it is told in time").expect("the connection holds")
    }
}

fn options(source: Source, wake: Wake) -> CaptureOptions {
    CaptureOptions { source, wake, ..quick("a") }
}

const TOLD: &str = "SELECT count(*) = 1 FROM pg_trigger WHERE tgname = 'tell_listeners'";

async fn told_of_what_is_published(source: Source) {
    let mut fixture = start().await;
    fixture.capture(options(source, Wake::Always));
    fixture.until(TOLD).await;
    fixture.run("CREATE TABLE orders (id int PRIMARY KEY); SELECT tidewire.watch('orders')").await;
    fixture.caught_up().await;
    let mut listener = Listener::of(&fixture.database).await;
    let id = value(
        &fixture,
        "INSERT INTO outbox (table_name, operation, after_data)
        VALUES ('things', 'INSERT', '{}') RETURNING id",
    )
    .await;
    let (channel, payload) = listener.next().await;
    let told: Value = payload.parse().expect("JSON");
    let id: i64 = id.parse().expect("a number");
    assert_eq!(channel, "cdc_outbox");
    assert_eq!(told, json!({"id": id, "table_name": "things", "operation": "INSERT"}));
    assert_eq!(listener.next().await, ("event_channel".to_owned(), "new_event".to_owned()));
    let there = format!("SELECT processed FROM outbox WHERE id = {id}");
    assert_eq!(value(&fixture, &there).await, "t", "whoever looks then finds it");

    fixture.run("INSERT INTO orders VALUES (1)").await;
    let (channel, payload) = listener.next().await;
    let told: Value = payload.parse().expect("JSON");
    assert_eq!((channel.as_str(), &told["table_name"]), ("cdc_outbox", &json!("orders")));
    let there = format!("SELECT after_data::text FROM outbox WHERE id = {}", told["id"]);
    assert_eq!(value(&fixture, &there).await, r#"{"id": 1}"#);
    assert_eq!(listener.next().await.0, "event_channel");

    fixture.run("INSERT INTO outbox_message_t (payload) VALUES ('1')").await;
    assert_eq!(listener.next().await, ("event_channel".to_owned(), "new_event".to_owned()));
    fixture.tear_down().await;
}

#[tokio::test]
async fn the_channels_are_told_of_what_the_sequencer_publishes() {
    told_of_what_is_published(Source::Outbox).await;
}

#[tokio::test]
async fn the_channels_are_told_of_what_is_read_from_the_write_ahead_log() {
    told_of_what_is_published(Source::Wal).await;
}

#[tokio::test]
async fn without_always_nobody_is_told_and_always_can_be_taken_back() {
    let mut fixture = Fixture::start_with(options(Source::Outbox, Wake::Always)).await;
    make(&fixture, &usual()).await.expect("the names are made");
    fixture.until(TOLD).await;
    fixture.stop_first().await;
    fixture.capture(options(Source::Outbox, Wake::Auto));
    fixture.until(&format!("SELECT NOT ({TOLD})")).await;
    let mut listener = Listener::of(&fixture.database).await;
    fixture.run("INSERT INTO outbox_message_t (payload) VALUES ('1')").await;
    fixture.caught_up().await;
    // Notifications come in the order of commits: so what comes before this one would be there.
    fixture.run("NOTIFY event_channel, 'the end'").await;
    assert_eq!(listener.next().await.1, "the end");
    fixture.tear_down().await;
}
