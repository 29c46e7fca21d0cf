//! The server's connections to PostgreSQL are cut, all at once and again and again, while the
//! database itself stays up.

use tidewire_stories::postgres::{Sql, fresh_database};
use tidewire_stories::{Launch, Store, Traffic, faults, rounds};

/// Every connection to this database but the one that asks.
const CUT: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()";

/// I1, I3: what was acknowledged is there, what was repeated is there once, readers miss nothing.
#[tokio::test(flavor = "multi_thread")]
async fn cut_connections_lose_and_repeat_nothing() {
    let url = fresh_database().await;
    let sql = Sql::connect(&url).await.expect("a connection");
    let store = Store::postgres_at(url);
    let launch = Launch::dev(&store).set("TIDEWIRE_STREAMS_LONG_POLL_MS", "2000");
    let server = launch.start().await;
    let mut traffic = Traffic::start(server.http()).await;

    for _ in 0..rounds(8) {
        traffic.flows().await;
        faults::random_moment().await;
        let cut = sql.number(CUT).await;
        assert!(cut > 0, "the server has no connection that could be cut");
    }
    // The server has recovered by itself.
    traffic.flows().await;

    traffic.ends_well().await;
    traffic.was_only_asked_for_patience();
    drop(traffic);
    server.stop().await;
    store.log_is_gapless().await;
}
