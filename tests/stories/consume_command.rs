//! `tidewire consume`: programs and web services that work for a group without knowing of it.

mod webhooks;

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use tidewire_stories::{Http, Jobs, Launch, Process, Store, eventually, on_both_stores};

on_both_stores!(
    a_command_gets_the_events_of_each_key_in_order,
    the_exit_code_says_what_becomes_of_the_events,
    the_batch_in_hand_is_finished_when_it_is_told_to_stop,
    a_second_signal_ends_it_and_all_it_started,
    a_handler_that_hangs_keeps_nobody_from_stopping,
    a_file_says_how_to_work,
);

/// What the workers work with: a server, a group, and a folder for their files.
struct Shop {
    jobs: Jobs,
    folder: TempDir,
    /// Their folders must outlive the processes.
    launches: RefCell<Vec<Launch>>,
}

impl Shop {
    async fn open(http: &Http, wish: &Value) -> Shop {
        let folder = tempfile::tempdir().expect("a folder");
        let jobs = Jobs::start(http, "mail", wish).await;
        Shop { jobs, folder, launches: RefCell::default() }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn written(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    /// Starts `tidewire consume` with a handler in the shell's language, which finds the folder as `$at`.
    fn consume(&self, words: &[&str], script: &str) -> Process {
        let launch = Launch::command("consume").with(words.iter().copied());
        let launch = launch.with(["--exec", "sh", "-c", script]);
        self.spawn(launch.set("at", &self.path()))
    }

    fn spawn(&self, launch: Launch) -> Process {
        let launch = launch.set("TIDEWIRE_URL", self.jobs.http.base());
        let process = launch.spawn();
        self.launches.borrow_mut().push(launch);
        process
    }

    fn path(&self) -> String {
        self.folder.path().to_string_lossy().into_owned()
    }

    async fn nothing_is_left(&self) {
        eventually("all events are consumed", async || {
            (self.jobs.look().await["lag_events"] == 0).then_some(())
        })
        .await;
    }
}

/// Ends it as an operator does.
async fn stop(process: Process) -> String {
    process.signal("TERM");
    let ended = process.ended().await;
    assert_eq!(ended.code, Some(0), "{}", ended.said);
    ended.said
}

const ONE: &[&str] = &["--group", "mail"];

async fn a_command_gets_the_events_of_each_key_in_order(store: Store) {
    let server = Launch::dev(&store).start().await;
    let wish = json!({ "partitions": 4, "tables": ["jobs"] });
    let shop = Shop::open(server.http(), &wish).await;
    for id in 0..24 {
        shop.jobs.add(&[(id, if id % 2 == 0 { "acme" } else { "zoo" }, "ann")]).await;
    }
    let words = ["--group", "mail", "--concurrency", "2", "--batch-size", "5"];
    let process = shop.consume(
        &words,
        r#"test "$TIDEWIRE_GROUP $TIDEWIRE_USER_ID $TIDEWIRE_ATTEMPT" = "mail ann 0" || exit 78
           cat >> "$at/$TIDEWIRE_HOST_ID""#,
    );
    shop.nothing_is_left().await;
    let said = stop(process).await;
    assert!(said.contains("24 events"), "{said}");
    for (first, host) in [(0, "acme"), (1, "zoo")] {
        let lines = shop.written(host);
        let ids = lines.lines().map(|line| {
            let event: Value = serde_json::from_str(line).expect("a JSON object a line");
            assert_eq!(event["host_id"], host);
            event["after_data"]["id"].as_i64().expect("a number")
        });
        let expected: Vec<i64> = (first..24).step_by(2).collect();
        assert_eq!(ids.collect::<Vec<_>>(), expected, "of {host}, each once and in order");
    }
    let members = shop.jobs.look().await["partitions"].to_string();
    assert!(members.contains("-0") || members.contains("-1"), "its members: {members}");
}

async fn the_exit_code_says_what_becomes_of_the_events(store: Store) {
    let server = Launch::dev(&store).start().await;
    let wish = json!({ "partitions": 1, "tables": ["jobs"], "max_attempts": 3 });
    let shop = Shop::open(server.http(), &wish).await;
    shop.jobs.add(&[(1, "acme", "ann"), (2, "acme", "bob"), (3, "acme", "eve")]).await;
    let process = shop.consume(
        ONE,
        r#"case $TIDEWIRE_USER_ID in
             ann) echo "try $TIDEWIRE_ATTEMPT" >> "$at/ann"; echo ann is out >&2; exit 3;;
             bob) echo bob is unknown >&2; exit 65;;
             *) cat >> "$at/eve";;
           esac"#,
    );
    shop.nothing_is_left().await;
    stop(process).await;
    let letters = shop.jobs.letters("state=dead").await;
    let told: Vec<(&str, &str, &Value)> = letters
        .iter()
        .map(|letter| {
            let text = |value: &'static str| letter[value].as_str().expect("text");
            let user = letter["event"]["user_id"].as_str().expect("a user");
            (user, text("error"), &letter["attempts"])
        })
        .collect();
    let expected = [
        ("ann", "exit code 3: ann is out", &json!(3)),
        ("bob", "exit code 65: bob is unknown", &json!(1)),
    ];
    assert_eq!(told, expected);
    assert_eq!(shop.written("ann"), "try 0\ntry 1\ntry 2\n");
    assert_eq!(shop.written("eve").lines().count(), 1, "eve was handled");

    // Nobody should go on: the command ends, nothing is counted, and the batch is there for the next.
    shop.jobs.add(&[(4, "acme", "eve")]).await;
    let ended = shop.consume(ONE, "echo the disk is full >&2; exit 78").ended().await;
    assert_eq!(ended.code, Some(1), "{}", ended.said);
    assert!(ended.said.contains("exit code 78: the disk is full"), "{}", ended.said);
    let process = shop.consume(ONE, r#"cat >> "$at/eve"; test $TIDEWIRE_ATTEMPT = 0 || exit 65"#);
    shop.nothing_is_left().await;
    stop(process).await;
    assert_eq!(shop.written("eve").lines().count(), 2);
    assert_eq!(shop.jobs.letters("state=dead").await.len(), 2, "no more of them");
    let ended = shop.consume(&["--group", "nobody"], "cat").ended().await;
    assert_eq!(ended.code, Some(1), "{}", ended.said);
    assert!(ended.said.contains("group_not_found"), "{}", ended.said);
}

/// A handler that says who it is and waits for a file.
const WAITS: &str = r#"sh -c 'echo $$ > "$at/child.new"; mv "$at/child.new" "$at/child"
    until test -e "$at/go"; do sleep 0.02; done'; cat >> "$at/done""#;

async fn begun(shop: &Shop) -> PathBuf {
    let child = eventually("the handler runs", async || {
        let number = shop.written("child");
        (!number.is_empty()).then(|| number.trim().to_owned())
    })
    .await;
    Path::new("/proc").join(child)
}

async fn the_batch_in_hand_is_finished_when_it_is_told_to_stop(store: Store) {
    let server = Launch::dev(&store).start().await;
    let shop = Shop::open(server.http(), &json!({ "partitions": 1, "tables": ["jobs"] })).await;
    shop.jobs.add(&[(1, "acme", "ann")]).await;
    // The lease is so short that it must be extended on the way.
    let process = shop.consume(&["--group", "mail", "--lease", "1s"], WAITS);
    begun(&shop).await;
    let lease = shop.jobs.look().await["partitions"][0]["generation"].clone();
    process.signal("TERM");
    shop.jobs.add(&[(2, "acme", "ann")]).await;
    eventually("it says that it goes on for now", async || {
        process.said().contains("finishing the current batch").then_some(())
    })
    .await;
    std::fs::write(shop.file("go"), "").expect("a file");
    let ended = process.ended().await;
    assert_eq!(ended.code, Some(0), "{}", ended.said);
    assert!(ended.said.contains("1 events in 1 batches"), "{}", ended.said);
    assert_eq!(shop.written("done").lines().count(), 1, "no other batch was begun");
    let look = shop.jobs.look().await;
    assert_eq!((&look["lag_events"], &look["partitions"][0]["generation"]), (&json!(1), &lease));
}

async fn a_second_signal_ends_it_and_all_it_started(store: Store) {
    let server = Launch::dev(&store).start().await;
    let shop = Shop::open(server.http(), &json!({ "partitions": 1, "tables": ["jobs"] })).await;
    shop.jobs.add(&[(1, "acme", "ann")]).await;
    let process = shop.consume(&["--group", "mail", "--lease", "1s"], WAITS);
    let child = begun(&shop).await;
    process.signal("INT");
    eventually("it says that it goes on for now", async || {
        process.said().contains("SIGINT").then_some(())
    })
    .await;
    process.signal("TERM");
    let ended = process.ended().await;
    assert_eq!(ended.code, Some(143), "{}", ended.said);
    eventually("what it started is gone", async || (!runs(&child)).then_some(())).await;
    assert_eq!(shop.jobs.look().await["lag_events"], 1, "nothing was done");
    // Who comes next has the event when the lease is over, and nothing was counted against it.
    let process = shop.consume(ONE, r#"cat >> "$at/done"; test $TIDEWIRE_ATTEMPT = 0 || exit 65"#);
    shop.nothing_is_left().await;
    stop(process).await;
    assert_eq!(shop.written("done").lines().count(), 1);
    assert_eq!(shop.jobs.letters("").await, Vec::<Value>::new());
}

/// Whoever stops it does not wait for ever: what hangs is given up after `--timeout`, as at any other time.
async fn a_handler_that_hangs_keeps_nobody_from_stopping(store: Store) {
    let server = Launch::dev(&store).start().await;
    let shop = Shop::open(server.http(), &json!({ "partitions": 1, "tables": ["jobs"] })).await;
    shop.jobs.add(&[(1, "acme", "ann")]).await;
    let process = shop.consume(&["--group", "mail", "--timeout", "1s"], WAITS);
    let child = begun(&shop).await;
    let said = stop(process).await;
    assert!(said.contains("0 events in 0 batches"), "{said}");
    eventually("what it started is gone", async || (!runs(&child)).then_some(())).await;
    let process = shop.consume(ONE, r#"cat >> "$at/done"; test $TIDEWIRE_ATTEMPT != 0 || exit 65"#);
    shop.nothing_is_left().await;
    stop(process).await;
    assert_eq!(shop.written("done").lines().count(), 1);
    assert_eq!(shop.jobs.letters("").await, Vec::<Value>::new(), "the attempt was counted");
}

/// A process that nobody waits for any more may stay as a zombie, where init does not reap.
fn runs(process: &Path) -> bool {
    let status = std::fs::read_to_string(process.join("status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}

async fn a_file_says_how_to_work(store: Store) {
    let server = Launch::dev(&store).start().await;
    let shop = Shop::open(server.http(), &json!({ "partitions": 1, "tables": ["jobs"] })).await;
    let file = shop.file("db-event-consumer.yml");
    let path = file.to_string_lossy().into_owned();
    let write = |text: &str| std::fs::write(&file, text).expect("a file");
    write(
        "groupId: mail\nbatchSize: 10\ntotalPartitions: 1\npartitionId: 0\nwaitPeriodMs: 10000\ntables: [jobs]\n",
    );
    shop.jobs.add(&[(1, "acme", "ann")]).await;
    let process = shop.consume(&["--config", &path], r#"cat >> "$at/done""#);
    shop.nothing_is_left().await;
    stop(process).await;
    assert_eq!(shop.written("done").lines().count(), 1);
    let refused = async |text: &str, says: &[&str]| {
        write(text);
        let ended = shop.consume(&["--config", &path], "cat").ended().await;
        assert_eq!(ended.code, Some(1), "{text:?}: {}", ended.said);
        for part in says {
            assert!(ended.said.contains(part), "{text:?} says nothing of {part}: {}", ended.said);
        }
    };
    let change = "tidewire groups change mail --partitions 8";
    refused("groupId: mail\ntotalPartitions: 8\n", &["has 1 partitions", change]).await;
    let reads = "the group mail reads tables jobs, but the file names other tables or streams";
    refused("groupId: mail\ntables: [jobs, others]\n", &[reads, "--tables"]).await;
    refused("groupId: mail\nstreams: [jobs]\n", &[reads]).await;
    refused("groupId: mail\nbatchsize: 8\n", &["batchSize"]).await;
    refused("groupId: nobody\n", &["group_not_found"]).await;
    std::fs::remove_file(&file).expect("it was there");
    let ended = shop.consume(&["--config", &path], "cat").ended().await;
    assert!(ended.code == Some(1) && ended.said.contains("cannot read"), "{}", ended.said);
}
