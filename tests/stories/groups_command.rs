//! A person at a terminal looks after consumer groups: `tidewire groups`.

use serde_json::{Value, json};
use tidewire_stories::{Ended, Http, Jobs, Launch, Store, on_both_stores};

on_both_stores!(
    a_group_is_made_shown_changed_and_removed,
    a_group_is_set_to_another_place,
    letters_are_listed_redriven_and_dropped,
    whoever_works_does_not_administer,
);

const KEY: &str = "story-e19b27d04c6fa853";

/// Runs `tidewire` as someone types it.
async fn tidewire(http: &Http, token: &str, words: &[&str]) -> Ended {
    let launch = Launch::command(words[0]).with(words[1..].iter().copied());
    launch.set("TIDEWIRE_URL", http.base()).set("TIDEWIRE_TOKEN", token).run().await
}

/// Runs it as the administrator. It must succeed.
async fn done(http: &Http, words: &[&str]) -> Ended {
    let ended = tidewire(http, KEY, words).await;
    assert_eq!(ended.code, Some(0), "{words:?}: {}", ended.said);
    ended
}

/// Runs it, and it must fail with a sentence that says all of this.
async fn fails(http: &Http, token: &str, words: &[&str], says: &[&str]) {
    let ended = tidewire(http, token, words).await;
    assert_eq!((ended.code, &*ended.printed), (Some(1), ""), "{words:?}: {}", ended.said);
    assert!(ended.said.starts_with("tidewire: "), "{words:?}: {}", ended.said);
    for part in says {
        assert!(ended.said.contains(part), "{words:?} says nothing of {part:?}: {}", ended.said);
    }
}

/// What a command prints as JSON, an object a line.
async fn objects(http: &Http, words: &[&str]) -> Vec<Value> {
    let printed = done(http, words).await.printed;
    printed.lines().map(|line| serde_json::from_str(line).expect("a JSON object")).collect()
}

async fn group(http: &Http, name: &str) -> Value {
    objects(http, &["groups", "describe", name, "--json"]).await.remove(0)
}

fn contains_all(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} in {text}");
    }
}

async fn a_group_is_made_shown_changed_and_removed(store: Store) {
    let server = Launch::serve(&store, KEY).start().await;
    let http = server.http();
    let make = "CREATE TABLE orders (id INTEGER PRIMARY KEY)";
    for words in [["sql", make], ["watch", "orders"]] {
        done(http, &words).await;
    }
    // A table that nobody watches would give the group nothing, for ever.
    for (name, near) in [("ordres", "did you mean orders?"), ("bills", "tidewire watch bills")] {
        let words = ["groups", "create", "billing", "--tables", name];
        let says = ["cannot make the group billing", "is not watched", near, "invalid_group"];
        fails(http, KEY, &words, &says).await;
    }
    let create = ["groups", "create", "billing", "--partitions", "3"];
    let reads = ["--tables", "orders", "--streams", "doc/*,mail/**", "--on-dead", "skip"];
    let made = done(http, &[&create[..], &reads, &["--start", "now"]].concat()).await;
    contains_all(&made.said, &["billing is made", "3 partitions", "doc/*, mail/**"]);
    let again = done(http, &["groups", "create", "billing"]).await;
    contains_all(&again.said, &["is there already", "3 partitions"]);
    let other = ["groups", "create", "billing", "--partitions", "4"];
    fails(http, KEY, &other, &["cannot make the group billing", "group_differs"]).await;

    let list = done(http, &["groups", "list"]).await.printed;
    contains_all(&list, &["GROUP", "LAG", "DEAD", "billing", "working"]);
    let list = objects(http, &["groups", "list", "--json"]).await;
    assert_eq!(list[0]["total_partitions"], 3, "{list:?}");
    let shown = done(http, &["groups", "describe", "billing"]).await.printed;
    contains_all(
        &shown,
        &[
            "tables orders; streams doc/*, mail/**",
            "PARTITION",
            "later ones go on",
            "No member works",
        ],
    );
    let lag = objects(http, &["groups", "lag", "billing", "--json"]).await;
    let numbers: Vec<&Value> = lag.iter().map(|partition| &partition["partition"]).collect();
    assert_eq!(numbers, [0, 1, 2], "{lag:?}");

    // What it reads already may stay, though the table is not watched any more; others may not come.
    done(http, &["unwatch", "orders"]).await;
    done(http, &["groups", "change", "billing", "--tables", "orders", "--max-attempts", "8"]).await;
    let more = ["groups", "change", "billing", "--tables", "orders,bills"];
    fails(http, KEY, &more, &["bills is not watched"]).await;
    let change = ["groups", "change", "billing", "--everything", "--max-attempts", "9", "--pause"];
    let changed = done(http, &change).await;
    contains_all(&changed.said, &["paused", "groups resume billing"]);
    let known = group(http, "billing").await;
    assert_eq!((&known["tables"], &known["streams"]), (&json!([]), &json!([])), "{known}");
    assert_eq!((&known["max_attempts"], &known["stopped"]["code"]), (&json!(9), &json!("paused")));
    assert!(done(http, &["groups", "list"]).await.printed.contains("paused"));
    done(http, &["groups", "resume", "billing"]).await;
    assert_eq!(group(http, "billing").await["stopped"], Value::Null);

    // Nobody can be asked here, so nothing is removed.
    fails(http, KEY, &["groups", "delete", "billing"], &["removes the group", "--yes"]).await;
    done(http, &["groups", "delete", "billing", "--yes"]).await;
    fails(http, KEY, &["groups", "describe", "billing"], &["group_not_found"]).await;
    let head = "GROUP  PARTITIONS  MEMBERS  LAG  AGE  DEAD  PARKED  STATE\n";
    assert_eq!(done(http, &["groups", "list"]).await.printed, head);
    // Mistakes that need no server.
    for words in [
        &["groups"][..],
        &["groups", "change", "billing"],
        &["groups", "change", "billing", "--everything", "--tables", "t"],
        &["groups", "reset", "billing"],
        &["groups", "create", "billing", "--on-dead", "panic"],
        &["groups", "dead", "drop", "billing"],
        &["groups", "dead", "redrive", "billing", "--all", "--offset", "1"],
        &["groups", "dead", "redrive", "billing", "--host", "acme"],
    ] {
        let ended = tidewire(http, KEY, words).await;
        assert_eq!((ended.code, &*ended.printed), (Some(2), ""), "{words:?}: {}", ended.said);
    }
}

async fn a_group_is_set_to_another_place(store: Store) {
    let server = Launch::serve(&store, KEY).start().await;
    let http = server.http();
    let jobs = Jobs::start(http, "mail", &json!({ "partitions": 1, "tables": ["jobs"] })).await;
    jobs.add(&[(1, "acme", "ann")]).await;
    jobs.add(&[(2, "acme", "ann")]).await;
    let batch = jobs.claim("one").await;
    jobs.ack(&batch).await;
    let lag = async || group(http, "mail").await["lag_events"].clone();
    assert_eq!(lag().await, 0);
    let reset =
        async |to: &str| done(http, &["groups", "reset", "mail", "--to", to, "--yes"]).await;
    reset("beginning").await;
    assert_eq!(lag().await, 2);
    reset("now").await;
    assert_eq!(lag().await, 0);
    let events = batch["groups"][0]["events"].as_array().expect("events");
    reset(events[0]["offset"].as_str().expect("an offset")).await;
    assert_eq!(lag().await, 1, "after the first");
    reset("2020-01-01T00:00:00Z").await;
    assert_eq!(lag().await, 2, "all were made later");
    reset("2120-01-01T00:00:00Z").await;
    assert_eq!(lag().await, 0, "none was made later");
    let one = ["groups", "reset", "mail", "--to", "beginning", "--partition", "0", "--yes"];
    done(http, &one).await;
    assert_eq!(lag().await, 2);
    let to = |place| ["groups", "reset", "mail", "--to", place, "--yes"];
    fails(http, KEY, &to("yesterday"), &["is not a position in the log"]).await;
    fails(http, KEY, &to("0001_9999999999999999"), &["cannot reset the group mail"]).await;
    let missing = ["groups", "reset", "mail", "--to", "now", "--partition", "7", "--yes"];
    fails(http, KEY, &missing, &["partition 7 of the group mail"]).await;
    let unasked = ["groups", "reset", "mail", "--to", "now"];
    fails(http, KEY, &unasked, &["the end of the log", "--yes"]).await;
    assert_eq!(lag().await, 2, "nothing was done");
}

async fn letters_are_listed_redriven_and_dropped(store: Store) {
    let server = Launch::serve(&store, KEY).start().await;
    let http = server.http();
    let jobs = Jobs::start(http, "mail", &json!({ "partitions": 1, "tables": ["jobs"] })).await;
    let die = async |id: i64, user: &str| {
        jobs.add(&[(id, "acme", user)]).await;
        let batch = jobs.claim("one").await;
        jobs.fail(&batch, user, "dead").await;
    };
    die(1, "ann").await;
    die(2, "bob").await;
    let table = done(http, &["groups", "dead", "list", "mail"]).await.printed;
    contains_all(&table, &["OFFSET", "dead", "acme", "ann", "bob", "table/jobs", "it broke"]);
    let letters = objects(http, &["groups", "dead", "list", "mail", "--json"]).await;
    assert_eq!(letters.len(), 2, "{letters:?}");
    assert_eq!(letters[0]["event"]["after_data"]["id"], 1, "{letters:?}");
    let page = ["groups", "dead", "list", "mail", "--limit", "1"];
    let first = done(http, &page).await;
    assert_eq!(first.printed.lines().count(), 2, "{}", first.printed);
    contains_all(&first.said, &["There are more: --after "]);
    let parked = ["groups", "dead", "list", "mail", "--state", "parked"];
    assert_eq!(done(http, &parked).await.printed.lines().count(), 1, "only the head");

    let ann = ["groups", "dead", "redrive", "mail", "--host", "acme", "--user", "ann"];
    contains_all(&done(http, &ann).await.said, &["1 host and user"]);
    let again = jobs.claim("one").await;
    assert_eq!((&again["redrive"], &again["groups"][0]["user_id"]), (&json!(true), &json!("ann")));
    jobs.ack(&again).await;
    let offset = letters[1]["event"]["offset"].as_str().expect("an offset");
    let one = ["groups", "dead", "drop", "mail", "--offset", offset];
    fails(http, KEY, &one, &["This drops the event", "--yes"]).await;
    contains_all(&done(http, &[&one[..], &["--yes"]].concat()).await.said, &["1 event dropped"]);
    assert_eq!(done(http, &["groups", "dead", "list", "mail", "--json"]).await.printed, "");
    fails(http, KEY, &[&one[..], &["--yes"]].concat(), &["letter_not_found"]).await;
    let all = ["groups", "dead", "drop", "mail", "--all", "--with-parked", "--yes"];
    contains_all(&done(http, &all).await.said, &["0 events dropped"]);
}

async fn whoever_works_does_not_administer(store: Store) {
    let server = Launch::serve(&store, KEY).start().await;
    let http = server.http();
    Jobs::start(http, "mail", &json!({ "partitions": 1, "tables": ["jobs"] })).await;
    let words = ["keys", "create", "--name", "worker", "--groups", "mail", "--can", "consume"];
    let made = done(http, &words).await;
    let worker = made.printed.trim();
    for words in [
        &["groups", "list"][..],
        &["groups", "describe", "mail"],
        &["groups", "create", "other"],
        &["groups", "change", "mail", "--pause"],
        &["groups", "reset", "mail", "--to", "now", "--yes"],
        &["groups", "resume", "mail"],
        &["groups", "delete", "mail", "--yes"],
        &["groups", "dead", "redrive", "mail", "--all"],
        &["groups", "dead", "drop", "mail", "--all", "--yes"],
        &["groups", "dead", "list", "other"],
    ] {
        fails(http, worker, words, &["forbidden"]).await;
    }
    let list = tidewire(http, worker, &["groups", "dead", "list", "mail"]).await;
    assert_eq!(list.code, Some(0), "{}", list.said);
}
