//! A server is started on a store that a newer one has migrated.

use tidewire_stories::{Launch, Store};

/// A schema from the future is not touched, and the message says which version is which. (SQLite)
#[tokio::test(flavor = "multi_thread")]
async fn sqlite_refuses_a_newer_schema() {
    a_newer_schema_is_refused(&Store::sqlite()).await;
}

/// A schema from the future is not touched, and the message says which version is which.
/// (PostgreSQL)
#[tokio::test(flavor = "multi_thread")]
async fn postgres_refuses_a_newer_schema() {
    a_newer_schema_is_refused(&Store::postgres().await).await;
}

async fn a_newer_schema_is_refused(store: &Store) {
    let launch = Launch::dev(store);
    launch.start().await.stop().await;
    let known = store.schema_version().await;
    store.come_from_the_future().await;

    let ended = launch.run().await;

    assert_eq!(ended.code, Some(1), "the server: {}", ended.said);
    let message = ended.said.lines().last().unwrap_or_default();
    let numbers = message.split(|c: char| !c.is_ascii_digit());
    for version in [9999, known] {
        let version = version.to_string();
        let named = numbers.clone().any(|number| number == version);
        assert!(named, "version {version} is not named in: {message}");
    }
}
