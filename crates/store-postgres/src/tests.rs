//! What PostgreSQL brings beyond the contract: several nodes, migrations, outages. They need a
//! server; `./test` starts one.

mod access;
mod failover;
mod group_sessions;
mod groups;
mod migrations;
mod nodes;
mod outages;
mod relay;
mod sessions;
mod upkeep;
mod user_sessions;

use std::sync::Arc;
use std::time::Duration;

use super::PostgresStore;
use super::testing::TestDatabase;
use crate::options::PostgresOptions;
use tidewire_store::command::{Answer, Append, Command, Create};
use tidewire_store::error::StoreError;
use tidewire_store::log::{Found, Log, PageLimit};
use tidewire_store::offset::Position;
use tidewire_store::testing::commands;

/// How long something may take that must happen in the end; waited out only by a failing test.
const DEADLINE: Duration = Duration::from_secs(30);

const EVERYTHING: PageLimit = PageLimit { events: 1_000_000, bytes: 64 << 20 };

async fn open(database: &TestDatabase) -> Arc<PostgresStore> {
    PostgresStore::open(PostgresOptions::new(&database.url)).await.expect("the database opens")
}

/// A store with an empty stream of text, `a`.
async fn open_with_stream(database: &TestDatabase) -> Arc<PostgresStore> {
    let store = open(database).await;
    create(&store, commands::create("a")).await.expect("a stream is made");
    store
}

async fn create(store: &PostgresStore, create: Create) -> Result<Answer, StoreError> {
    store.submit(Command::Create(Box::new(create))).await
}

async fn append(store: &PostgresStore, append: Append) -> Result<Position, StoreError> {
    match store.submit(Command::Append(append)).await? {
        Answer::Appended { tail, .. } => Ok(tail),
        other => panic!("expected an accepted append, got {other:?}"),
    }
}

async fn append_text(store: &PostgresStore, text: &str) -> Result<Position, StoreError> {
    append(store, commands::append("a", text)).await
}

/// All events of the stream `a`: where, and what.
async fn events(store: &PostgresStore) -> Vec<(Position, String)> {
    match store.read("a", Position::START, EVERYTHING).await.expect("the stream can be read") {
        Found::Stream(page) => page
            .events
            .iter()
            .map(|event| (event.position, String::from_utf8_lossy(&event.payload).into_owned()))
            .collect(),
        other => panic!("expected the stream to be there, got {other:?}"),
    }
}

async fn texts(store: &PostgresStore) -> Vec<String> {
    events(store).await.into_iter().map(|(_, text)| text).collect()
}
