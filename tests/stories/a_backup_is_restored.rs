//! A backup is made while clients append at full speed, and a server goes on from it. The commands
//! are those of BACKUP.md.

use std::path::Path;

use serde_json::json;
use tempfile::TempDir;
use tidewire_stories::postgres::fresh_database;
use tidewire_stories::{Ended, Http, Jobs, Launch, Store, Traffic, Transcript, WebSocket, manual};

/// What was read before a backup, of both of the traffic's streams.
struct BackedUp([Transcript; 2]);

impl BackedUp {
    async fn of(http: &Http) -> BackedUp {
        BackedUp([Transcript::read(http, "left").await, Transcript::read(http, "right").await])
    }

    fn count(&self) -> usize {
        self.0.iter().map(|transcript| transcript.events().len()).sum()
    }

    /// Checks that all of it is in the restored log, at the same places, and nothing before or between.
    async fn is_the_beginning_of(&self, http: &Http) {
        for before in &self.0 {
            let after = Transcript::read(http, before.stream()).await;
            assert!(after.events().len() >= before.events().len(), "acknowledged events are lost");
            for (known, found) in before.events().iter().zip(after.events()) {
                let places = (known.position(), found.position());
                assert_eq!(places.0, places.1, "the order of {}", before.stream());
                assert_eq!(known.payload, found.payload, "what lies at {}", places.0);
            }
        }
    }
}

/// I1, I2: the restored log is a prefix without gaps, and holds all that was acknowledged before the
/// backup began. (SQLite)
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_sqlite_under_load_is_a_prefix_of_the_log() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let store = Store::sqlite_in(home.path().join("tidewire-data"));
    let server = Launch::dev(&store).start().await;
    let traffic = Traffic::start(server.http()).await;
    traffic.flows().await;
    let before = BackedUp::of(server.http()).await;
    let made = manual::follow("sqlite backup", home.path(), &[]).await;
    assert!(made.printed.contains("up to offset 0001_"), "{}", made.said);
    traffic.flows().await;
    let again = manual::run("sqlite backup", home.path(), &[]).await;
    refused(&again, "does not overwrite");
    drop(traffic);
    let after = BackedUp::of(server.http()).await;
    assert!(after.count() > before.count(), "appends went on");
    server.kill();
    let told = manual::follow("sqlite restore", home.path(), &[]).await;
    assert!(told.printed.contains("Its epoch is 2; the backup's was 1."), "{}", told.printed);
    let restored = Store::sqlite_in(home.path().join("restored-data"));
    goes_on(&restored, &before).await;
}

/// I1, I2: the same of PostgreSQL, with pg_dump and pg_restore.
#[tokio::test(flavor = "multi_thread")]
async fn a_dump_of_postgres_under_load_is_a_prefix_of_the_log() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let (url, copy) = (fresh_database().await, fresh_database().await);
    let store = Store::postgres_at(&url);
    // The dump holds its lease, which is waited for.
    let launch = Launch::dev(&store).set("TIDEWIRE_NODE_LEASE_MS", "3000");
    let server = launch.start().await;
    let traffic = Traffic::start(server.http()).await;
    traffic.flows().await;
    let before = BackedUp::of(server.http()).await;
    manual::follow("postgres backup", home.path(), &[("TIDEWIRE_DATABASE", &url)]).await;
    traffic.flows().await;
    let live = Launch::command("restore").with(["--database", &url]).run().await;
    refused(&live, "a tidewire server uses this database");
    drop(traffic);
    let told = manual::follow("postgres restore", home.path(), &[("RESTORED", &copy)]).await;
    assert!(told.printed.contains("Its epoch is 2; the backup's was 1."), "{}", told.printed);
    // The old server goes on with its own database, which nobody raised the epoch of.
    server.http().append("left", &json!("still here")).await;
    server.stop().await;
    goes_on(&Store::postgres_at(copy), &before).await;
}

/// Checks a restored store, and that old cursors are told and clients start afresh.
async fn goes_on(store: &Store, before: &BackedUp) {
    for table in ["sessions", "session_offsets", "nodes", "tickets"] {
        assert_eq!(store.count(table, "1 = 1").await, 0, "{table}");
    }
    store.log_is_gapless().await;
    let server = Launch::dev(store).start().await;
    let http = server.http();
    before.is_the_beginning_of(http).await;
    let old = before.0[0].events().last().expect("an event").offset.clone();
    for live in ["", "&live=long-poll", "&live=sse"] {
        let path = format!("/v1/stream/left?offset={old}{live}");
        http.get(&path).await.problem(410, "offset_of_another_epoch");
    }
    let mut socket = WebSocket::connect(http, "/v1/ws").await;
    socket.hears("hello").await;
    let subscribe = json!({
        "type": "subscribe",
        "subscriptions": [{ "query_id": "q", "stream": "left", "offset": old }],
    });
    socket.say(&subscribe).await;
    assert_eq!(socket.hears("error").await["code"], "offset_of_another_epoch");
    let offset = http.append("left", &json!("after")).await;
    assert!(offset.starts_with("0002_"), "{offset}");
    let tail = http.get(&format!("/v1/stream/left?offset={offset}")).await;
    assert_eq!((tail.status, tail.next_offset()), (200, offset));
    server.stop().await;
    store.log_is_gapless().await;
}

/// A restore does not harm what is there: not without being told to, not with a file that is no
/// backup, not under a server's feet.
#[tokio::test(flavor = "multi_thread")]
async fn a_restore_keeps_what_it_replaces() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let data = home.path().join("data");
    let store = Store::sqlite_in(&data);
    let launch = Launch::dev(&store);
    let server = launch.start().await;
    server.http().create("s").await;
    server.http().append("s", &json!("in the backup")).await;
    let backup = path(&home, "backup.db");
    let made = command("backup", &backup, &data, &[]).await;
    assert_eq!(made.code, Some(0), "{}", made.said);
    server.http().append("s", &json!("after the backup")).await;
    refused(
        &command("restore", &backup, &data, &["--replace"]).await,
        "in use by another tidewire",
    );
    server.stop().await;

    refused(&command("restore", &backup, &data, &[]).await, "there is a store in");
    let missing = path(&home, "nothing.db");
    refused(&command("restore", &missing, &data, &["--replace"]).await, "there is no file");
    let half = path(&home, "half.db");
    let bytes = std::fs::read(&backup).expect("the backup");
    std::fs::write(&half, &bytes[..bytes.len() / 2]).expect("half of it");
    refused(&command("restore", &half, &data, &["--replace"]).await, "is damaged, or not a store");
    refused(
        &command("restore", &backup, &data, &["--replace", "--epoch", "1"]).await,
        "not above 1",
    );
    let server = launch.start().await;
    assert_eq!(texts(server.http()).await, ["in the backup", "after the backup"]);
    server.stop().await;

    for epoch in ["0002_", "0003_"] {
        let done = command("restore", &backup, &data, &["--replace"]).await;
        assert_eq!(done.code, Some(0), "{}", done.said);
        let server = launch.start().await;
        assert_eq!(texts(server.http()).await, ["in the backup"]);
        assert!(server.http().append("s", &json!("anew")).await.starts_with(epoch), "{epoch}");
        server.stop().await;
    }
    let kept = std::fs::read_dir(&data).expect("the folder").filter_map(|entry| {
        let name = entry.expect("an entry").file_name().into_string().expect("text");
        name.ends_with(".db").then_some(name)
    });
    assert_eq!(kept.count(), 3, "the store and the two that it replaced");
}

async fn texts(http: &Http) -> Vec<String> {
    let page = http.get("/v1/stream/s?offset=-1").await.json();
    let messages = page.as_array().expect("messages").iter();
    messages.map(|message| message.as_str().unwrap_or_default().to_owned()).collect()
}

async fn command(name: &str, file: &str, data: &Path, flags: &[&str]) -> Ended {
    let data = data.to_string_lossy().into_owned();
    Launch::command(name).with([file, "--data", &data]).with(flags.iter().copied()).run().await
}

#[track_caller]
fn refused(ended: &Ended, why: &str) {
    assert_eq!(ended.code, Some(1), "{}", ended.said);
    assert!(ended.said.contains(why), "{}", ended.said);
}

fn path(home: &TempDir, name: &str) -> String {
    home.path().join(name).to_string_lossy().into_owned()
}

/// A group goes on where it stood when the backup was made; what was leased before fits nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_restored_group_goes_on_where_it_stood() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let data = home.path().join("data");
    let store = Store::sqlite_in(&data);
    let launch = Launch::dev(&store);
    let server = launch.start().await;
    let jobs =
        Jobs::start(server.http(), "mail", &json!({ "partitions": 1, "tables": ["jobs"] })).await;
    jobs.add(&[(1, "acme", "ann"), (2, "acme", "bob")]).await;
    let batch = jobs.claim("one").await;
    jobs.fail(&batch, "ann", "dead").await;
    let batch = jobs.claim("one").await;
    jobs.ack(&batch).await;
    jobs.add(&[(3, "acme", "bob")]).await;
    let leased = jobs.claim("one").await;
    let before = jobs.look().await;
    let backup = path(&home, "backup.db");
    let made = command("backup", &backup, &data, &[]).await;
    assert_eq!(made.code, Some(0), "{}", made.said);
    jobs.ack(&leased).await;
    server.stop().await;
    let restored = command("restore", &backup, &data, &["--replace"]).await;
    assert_eq!(restored.code, Some(0), "{}", restored.said);

    let server = launch.start().await;
    let jobs = jobs.at(server.http());
    let after = jobs.look().await;
    let consumed = |group: &serde_json::Value| {
        let text = group["partitions"][0]["consumed"].as_str().expect("an offset").to_owned();
        text.split_once('_').map(|(_, position)| position.to_owned())
    };
    assert_eq!(consumed(&before), consumed(&after), "it stands where it stood");
    assert_eq!((&after["dead_letters"], &after["member_count"]), (&json!(1), &json!(0)), "{after}");
    for step in ["ack", "extend", "nack"] {
        let answer = jobs.post(step, &json!({ "token": leased["token"] })).await;
        answer.problem(409, "lease_lost");
    }
    let batch = jobs.claim("two").await;
    assert_eq!(
        tidewire_stories::jobs::jobs_of(&batch, "bob"),
        [3],
        "what was done since is done again"
    );
    jobs.ack(&batch).await;
    server.stop().await;
}
