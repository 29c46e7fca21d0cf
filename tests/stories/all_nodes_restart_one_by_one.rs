//! A rolling restart under load: every node is stopped with SIGTERM and started again, one after
//! the other. Who retries as told notices nothing.

use tidewire_stories::{Complaint, Nodes, Plan, Producers, Store, Transcript, rounds};

const STREAMS: [&str; 2] = ["left", "right"];

/// I1, I3: nothing is lost or repeated, and no producer that goes on to another node when one does
/// not answer is ever answered with a 5xx.
#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_loses_nothing_and_answers_no_5xx() {
    let store = Store::postgres().await;
    let mut nodes = Nodes::start(3, &store, &[]).await;
    for stream in STREAMS {
        nodes.http(0).create(stream).await;
    }
    let plans = [
        Plan::idempotent("a", "left"),
        Plan::idempotent("b", "right").in_batches(),
        Plan::plain("c", "left"),
        Plan::plain("d", "right"),
        Plan::idempotent("e", "left"),
        Plan::plain("f", "right").in_batches(),
    ];
    let mut producers = Producers::spread(nodes.https(), plans);
    let followers = nodes.followers(&STREAMS).await;

    for _ in 0..rounds(1).min(20) {
        for index in 0..3 {
            producers.progress(30).await;
            nodes.stop(index).await;
            producers.progress(30).await;
            nodes.start_again(index).await;
        }
    }
    producers.progress(30).await;
    producers.stop().await;

    for stream in STREAMS {
        let mut transcript = Transcript::new(stream);
        producers.check(nodes.http(0), &mut transcript).await;
        for follower in &followers {
            follower.has_all_of(&transcript).await;
        }
    }
    let answered: Vec<Complaint> = producers
        .complaints()
        .into_iter()
        .filter(|complaint| matches!(complaint, Complaint::Problem { .. }))
        .collect();
    assert_eq!(answered, [], "producers were answered something else than success");
    for follower in &followers {
        assert_eq!(follower.problems(), [""; 0], "nobody was refused anything");
    }
    store.log_is_gapless().await;
}
