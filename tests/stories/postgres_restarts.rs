//! PostgreSQL is restarted under a running server, while clients append and follow.

use tidewire_stories::{Cluster, Launch, Shutdown, Store, Traffic, faults, rounds};

/// I1, I3: an orderly restart of the database costs clients some patience, and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn an_orderly_restart_loses_and_repeats_nothing() {
    nothing_is_lost_or_repeated(Shutdown::Fast).await;
}

/// I1, I3: a crash of the database costs clients some patience, and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_loses_and_repeats_nothing() {
    nothing_is_lost_or_repeated(Shutdown::Immediate).await;
}

async fn nothing_is_lost_or_repeated(shutdown: Shutdown) {
    let mut cluster = Cluster::start().await;
    let store = Store::postgres_at(cluster.url());
    let launch = Launch::dev(&store).set("TIDEWIRE_STREAMS_LONG_POLL_MS", "2000");
    let server = launch.start().await;
    let mut traffic = Traffic::start(server.http()).await;

    for _ in 0..rounds(2) {
        traffic.flows().await;
        faults::random_moment().await;
        cluster.restart(shutdown).await;
        traffic.check().await;
    }
    // The server has recovered by itself.
    traffic.flows().await;

    traffic.ends_well().await;
    traffic.was_only_asked_for_patience();
    drop(traffic);
    server.stop().await;
    store.log_is_gapless().await;
}
