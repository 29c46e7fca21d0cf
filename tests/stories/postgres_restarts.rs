//! PostgreSQL is restarted under a running server, while clients append and follow.

use tidewire_stories::{Cluster, Launch, Shutdown, Store, Traffic, eventually, faults, rounds};

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

/// I1, I3: a database that stays away is sat out: clients are told when to come back, and that
/// nothing was written; the process is alive, but not ready; and all goes on when it is back.
#[tokio::test(flavor = "multi_thread")]
async fn clients_are_asked_to_come_back_while_the_database_is_away() {
    let mut cluster = Cluster::start().await;
    let store = Store::postgres_at(cluster.url());
    let launch = Launch::dev(&store)
        .set("TIDEWIRE_STREAMS_LONG_POLL_MS", "2000")
        .set("TIDEWIRE_POSTGRES_CONNECT_TIMEOUT_MS", "1000");
    let server = launch.start().await;
    let http = server.http();
    let mut traffic = Traffic::start(http).await;

    for shutdown in [Shutdown::Fast, Shutdown::Immediate] {
        traffic.flows().await;
        cluster.stop(shutdown).await;
        traffic.is_refused().await;
        eventually("the node has noticed", async || {
            let answer = http.get("/readyz").await;
            (answer.status == 503).then(|| answer.problem(503, "not_ready"))
        })
        .await;
        assert_eq!(http.get("/healthz").await.status, 200, "the process is alive");
        cluster.resume().await;
    }
    traffic.flows().await;

    traffic.ends_well().await;
    traffic.was_only_asked_for_patience();
    server.stop().await;
    store.log_is_gapless().await;
}

async fn nothing_is_lost_or_repeated(shutdown: Shutdown) {
    let mut cluster = Cluster::start().await;
    let store = Store::postgres_at(cluster.url());
    let launch = Launch::dev(&store).set("TIDEWIRE_STREAMS_LONG_POLL_MS", "2000");
    let server = launch.start().await;
    let mut traffic = Traffic::start(server.http()).await;

    for _ in 0..rounds(3) {
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
