//! PostgreSQL is restarted while clients are connected: their connections stay, and what is
//! appended before, between and after arrives over them once.

use tidewire_client::{LiveOptions, ReadFrom};
use tidewire_stories::{Cluster, Follower, Launch, Plan, Producers, Shutdown, Store};
use tidewire_stories::{Transcript, Witness, faults, rounds};

/// I1, I3: an orderly restart of the database ends no connection, and loses and repeats nothing.
#[tokio::test(flavor = "multi_thread")]
async fn connections_outlast_an_orderly_restart() {
    connections_outlast(Shutdown::Fast).await;
}

/// I1, I3: a crash of the database ends no connection, and loses and repeats nothing.
#[tokio::test(flavor = "multi_thread")]
async fn connections_outlast_a_crash() {
    connections_outlast(Shutdown::Immediate).await;
}

async fn connections_outlast(shutdown: Shutdown) {
    let mut cluster = Cluster::start().await;
    let store = Store::postgres_at(cluster.url());
    // One who reads over one connection only must not be given a gap because the machine is busy.
    let launch = Launch::dev(&store).set("TIDEWIRE_LIVE_QUEUE_EVENTS_MAX", "1000000");
    let server = launch.start().await;
    let http = server.http().clone();
    http.create("left").await;
    http.create("right").await;
    let plans = [Plan::plain("plain", "left"), Plan::idempotent("idempotent", "right")];
    let mut producers = Producers::start(&http, plans);
    let witnesses = [
        ("left", Witness::web_socket(&http, "left").await),
        ("left", Witness::event_source(&http, "left").await),
        ("right", Witness::web_socket(&http, "right").await),
        ("right", Witness::event_source(&http, "right").await),
    ];
    let session = LiveOptions::session(http.open_session().await);
    let both = [("left", ReadFrom::Start), ("right", ReadFrom::Start)];
    let followers = [LiveOptions::default(), session]
        .map(|options| Follower::start(&http.client(), options, &both));
    for follower in &followers {
        follower.stands(2).await;
    }

    for _ in 0..rounds(3) {
        producers.progress(faults::appends_before()).await;
        faults::random_moment().await;
        cluster.restart(shutdown).await;
    }
    producers.progress(20).await;
    producers.stop().await;

    for stream in ["left", "right"] {
        let mut transcript = Transcript::new(stream);
        producers.check(&http, &mut transcript).await;
        for follower in &followers {
            follower.has_all_of(&transcript).await;
        }
        for (_, witness) in witnesses.iter().filter(|(followed, _)| *followed == stream) {
            witness.has_all_of(&transcript).await;
        }
    }
    for follower in &followers {
        assert_eq!(follower.losses(), [""; 0], "no connection was lost");
    }
}
