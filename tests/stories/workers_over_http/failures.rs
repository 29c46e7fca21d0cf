//! What cannot be handled is tried again, then set aside, with what comes behind it.

use serde_json::{Value, json};
use tidewire_stories::jobs::{events, job, jobs_of, keys};
use tidewire_stories::{Jobs, Launch, Store, eventually, on_both_stores};

on_both_stores!(
    what_fails_too_often_becomes_a_dead_letter_and_is_redriven,
    the_event_that_is_to_blame_is_buried_alone,
    what_is_dropped_is_gone_and_the_rest_goes_on,
    others_go_on_where_that_is_wished,
);

/// Jobs of two users of one tenant.
async fn start(store: &Store, wish: Value) -> (tidewire_stories::Server, Jobs) {
    let server = Launch::dev(store).set("TIDEWIRE_GROUPS_RETRY_MS", "1").start().await;
    let jobs = Jobs::start(server.http(), "mail", &wish).await;
    jobs.add(&[(1, "acme", "ann"), (2, "acme", "bob")]).await;
    (server, jobs)
}

fn wish() -> Value {
    json!({ "partitions": 1, "tables": ["jobs"], "max_attempts": 2 })
}

async fn done(jobs: &Jobs, member: &str) -> Vec<i64> {
    let mut done = Vec::new();
    while let Some(batch) = jobs.try_claim(&json!({ "member": member, "wait_ms": 0 })).await {
        done.extend(events(&batch).iter().map(job));
        jobs.ack(&batch).await;
    }
    done
}

async fn what_fails_too_often_becomes_a_dead_letter_and_is_redriven(store: Store) {
    let (server, jobs) = start(&store, wish()).await;
    let batch = jobs.claim("one").await;
    let nack = jobs.fail(&batch, "ann", "retry").await;
    assert_eq!(nack["dead_letters"], 0, "{nack}");
    let batch = jobs.claim("one").await;
    let attempts: Vec<Value> = keys(&batch).iter().map(|key| key["attempt"].clone()).collect();
    assert_eq!(attempts, [json!(1), json!(0)], "{batch}");
    let nack = jobs.fail(&batch, "ann", "retry").await;
    assert_eq!(nack["dead_letters"], 1, "the second attempt was the last: {nack}");
    // Everyone else goes on; what comes behind waits.
    jobs.add(&[(3, "acme", "ann"), (4, "acme", "bob")]).await;
    jobs.add(&[(5, "acme", "ann")]).await;
    assert_eq!(done(&jobs, "one").await, [2, 4]);
    let letters = jobs.letters("").await;
    let states: Vec<(i64, &str)> = letters
        .iter()
        .map(|letter| (job(&letter["event"]), letter["state"].as_str().expect("a state")))
        .collect();
    assert_eq!(states, [(1, "dead"), (3, "parked"), (5, "parked")]);
    assert_eq!((&letters[0]["error"], &letters[0]["attempts"]), (&json!("it broke"), &json!(2)));
    let group = jobs.look().await;
    assert_eq!(
        (&group["dead_letters"], &group["parked_letters"]),
        (&json!(1), &json!(2)),
        "{group}"
    );

    let redriven = jobs.done("dead/redrive", &json!({ "host_id": "acme", "user_id": "ann" })).await;
    assert_eq!(redriven["keys"], 1);
    let batch = jobs.claim("two").await;
    assert_eq!(batch["redrive"], true, "{batch}");
    assert_eq!(jobs_of(&batch, "ann"), [1, 3, 5]);
    // It fails once more, and then does not.
    jobs.fail(&batch, "ann", "retry").await;
    let batch = jobs.claim("two").await;
    assert_eq!((&batch["redrive"], &batch["groups"][0]["attempt"]), (&json!(true), &json!(1)));
    jobs.ack(&batch).await;
    assert_eq!(jobs.letters("").await, Vec::<Value>::new());
    jobs.add(&[(6, "acme", "ann")]).await;
    assert_eq!(done(&jobs, "one").await, [6], "the key is free");
    let group = jobs.look().await;
    assert_eq!(group["partitions"][0]["parked_keys"], 0, "{group}");
    server.stop().await;
}

/// Events of one key before the one that is to blame stay work.
async fn the_event_that_is_to_blame_is_buried_alone(store: Store) {
    let (server, jobs) = start(&store, wish()).await;
    jobs.add(&[(3, "acme", "ann")]).await;
    jobs.add(&[(4, "acme", "ann")]).await;
    let batch = jobs.claim("one").await;
    assert_eq!(jobs_of(&batch, "ann"), [1, 3, 4]);
    let all = events(&batch);
    let blamed = all.iter().find(|event| job(event) == 3).expect("job 3");
    let nack = |offset: &Value, user: &str| {
        json!({
            "token": batch["token"],
            "failed": [{
                "host_id": "acme", "user_id": user, "offset": offset, "error": "no", "verdict": "dead",
            }],
        })
    };
    let wrong = jobs.post("nack", &nack(&blamed["offset"], "bob")).await;
    wrong.problem(400, "key_not_in_batch");
    jobs.post("nack", &nack(&Value::Null, "eve")).await.problem(400, "key_not_in_batch");
    let buried = jobs.done("nack", &nack(&blamed["offset"], "ann")).await;
    assert_eq!(buried, json!({ "retry_in_ms": 0, "dead_letters": 1 }));
    let batch = jobs.claim("one").await;
    assert_eq!((jobs_of(&batch, "ann"), jobs_of(&batch, "bob")), (vec![1], vec![2]), "{batch}");
    jobs.ack(&batch).await;
    let states: Vec<Value> = jobs.letters("").await.iter().map(|l| l["state"].clone()).collect();
    assert_eq!(states, ["dead", "parked"]);
    assert_eq!(jobs.letters("state=dead").await.len(), 1);

    // Redriven and found dead again, it waits for a person again.
    jobs.done("dead/redrive", &json!({ "offset": blamed["offset"] })).await;
    let batch = jobs.claim("one").await;
    assert_eq!(batch["redrive"], true, "{batch}");
    jobs.fail(&batch, "ann", "dead").await;
    assert!(jobs.try_claim(&json!({ "wait_ms": 0 })).await.is_none(), "it is not tried again");
    let letters = jobs.letters("").await;
    assert_eq!(letters.len(), 2, "{letters:?}");
    assert!(letters.iter().all(|letter| letter["redrive"] == false), "{letters:?}");
    server.stop().await;
}

async fn what_is_dropped_is_gone_and_the_rest_goes_on(store: Store) {
    let (server, jobs) = start(&store, wish()).await;
    let batch = jobs.claim("one").await;
    jobs.fail(&batch, "ann", "dead").await;
    jobs.add(&[(3, "acme", "ann")]).await;
    assert_eq!(done(&jobs, "one").await, [2]);
    let nobody = json!({ "host_id": "acme", "user_id": "eve" });
    jobs.post("dead/drop", &nobody).await.problem(404, "letter_not_found");
    let dropped = jobs.done("dead/drop", &json!({ "host_id": "acme", "user_id": "ann" })).await;
    assert_eq!(dropped["letters"], 1, "the dead one");
    let rest = eventually("what was behind it goes on", async || {
        let done = done(&jobs, "one").await;
        (!done.is_empty()).then_some(done)
    })
    .await;
    assert_eq!(rest, [3]);
    assert_eq!(jobs.letters("").await, Vec::<Value>::new());
    jobs.add(&[(4, "acme", "ann")]).await;
    assert_eq!(done(&jobs, "one").await, [4]);
    server.stop().await;
}

async fn others_go_on_where_that_is_wished(store: Store) {
    let mut wish = wish();
    wish["on_dead"] = "skip".into();
    let (server, jobs) = start(&store, wish).await;
    jobs.add(&[(3, "acme", "ann")]).await;
    let batch = jobs.claim("one").await;
    let first = events(&batch)[0]["offset"].clone();
    let failed = json!([{
        "host_id": "acme", "user_id": "ann", "offset": first, "error": "no", "verdict": "dead",
    }]);
    jobs.done("nack", &json!({ "token": batch["token"], "failed": failed })).await;
    let batch = jobs.claim("one").await;
    assert_eq!((jobs_of(&batch, "ann"), jobs_of(&batch, "bob")), (vec![3], vec![2]), "{batch}");
    jobs.ack(&batch).await;
    let letters = jobs.letters("").await;
    assert_eq!(letters.iter().map(|letter| job(&letter["event"])).collect::<Vec<_>>(), [1]);
    server.stop().await;
}
