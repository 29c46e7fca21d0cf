//! Tickets: good for one use, and not for long.

use super::Opener;
use super::keys::{LONG_MS, hash};
use super::test_store::TestStore;

impl TestStore {
    pub(super) async fn puts_ticket(&self, letter: char, holder: &str, ttl_ms: u64) {
        let put = self.put_ticket(&hash(letter), holder, ttl_ms).await;
        put.unwrap_or_else(|error| panic!("put a ticket: {error}"));
    }

    pub(super) async fn takes_ticket(&self, letter: char) -> Option<String> {
        let taken = self.take_ticket(&hash(letter)).await;
        taken.unwrap_or_else(|error| panic!("take a ticket: {error}"))
    }
}

/// A ticket gives its holder, as it was put, once.
pub async fn a_ticket_is_taken_once(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let holder = r#"{ "user":"é", "scopes" : [1.50] }"#;
    store.puts_ticket('a', holder, LONG_MS).await;
    store.puts_ticket('b', "{}", u64::MAX).await;
    assert_eq!(store.takes_ticket('a').await.as_deref(), Some(holder));
    assert_eq!(store.takes_ticket('a').await, None);
    assert_eq!(store.takes_ticket('b').await.as_deref(), Some("{}"), "each is its own");
}

/// However many take a ticket at once, one gets it.
pub async fn one_of_racing_takers_gets_the_ticket(data: &dyn Opener) {
    const TAKERS: usize = 50;
    let store = TestStore::open(data).await;
    for round in 0..3 {
        store.puts_ticket('a', "1", LONG_MS).await;
        let mut takers = tokio::task::JoinSet::new();
        for _ in 0..TAKERS {
            let store = store.clone();
            takers.spawn(async move { store.takes_ticket('a').await });
        }
        let taken = takers.join_all().await.into_iter().flatten().count();
        assert_eq!(taken, 1, "round {round}");
    }
}

/// A ticket whose time is over is not taken, and no longer there.
pub async fn an_expired_ticket_is_not_taken(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.puts_ticket('a', "{}", 0).await;
    assert_eq!(store.takes_ticket('a').await, None);
    store.puts_ticket('b', "{}", LONG_MS).await;
    data.run_sql("UPDATE tidewire.tickets SET expires_at = expires_at - 7200000").await;
    assert_eq!(store.takes_ticket('b').await, None);
    assert_eq!(data.run_sql("SELECT count(*) FROM tidewire.tickets").await, ["0"]);
}

/// What is no ticket gives nothing.
pub async fn an_unknown_ticket_is_not_taken(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.puts_ticket('a', "{}", LONG_MS).await;
    for other in ["", "a", "a\0", "' OR ''='", &hash('A'), &"a".repeat(100_000)] {
        assert_eq!(store.take_ticket(other).await.expect("an answer"), None, "{other}");
    }
    assert!(store.takes_ticket('a').await.is_some());
}

/// Tickets are there after a restart, and those that were taken are not.
pub async fn tickets_survive_a_restart(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.puts_ticket('a', "{}", LONG_MS).await;
    store.puts_ticket('b', "{}", LONG_MS).await;
    assert!(store.takes_ticket('b').await.is_some());
    let store = store.reopen(data).await;
    assert!(store.takes_ticket('a').await.is_some());
    assert_eq!(store.takes_ticket('b').await, None);
}
