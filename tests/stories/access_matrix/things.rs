//! What is tried: the things that rows name in braces, made for them and looked at afterwards.

use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::Method;
use serde_json::{Value, json};
use tidewire_stories::worker::{claim, subscribe, woken};
use tidewire_stories::{Answer, Http, QueryTab, Tab, eventually};

use super::callers::{Caller, Callers};
use super::table::Row;

/// Names, and what they stand for.
#[derive(Debug, Clone)]
pub(crate) struct Things {
    names: Vec<(&'static str, String)>,
    /// The content of the stream: in no answer but those that show it.
    pub(crate) content: String,
    /// Of the wake that a worker has claimed.
    pub(crate) token: Option<String>,
    /// Whoever follows the live query: it lasts no longer than they do.
    follower: Option<Rc<QueryTab>>,
}

/// Those that are there. The others are yet to be made, or say something about these.
const EXISTING: [&str; 9] =
    ["stream", "hidden", "session", "subscription", "others", "mixed", "key", "group", "buried"];

impl Things {
    /// Makes what a row needs. The owner makes it, or an administrator for them.
    pub(crate) async fn make(callers: &Callers, row: &Row) -> Things {
        let unique = || uuid::Uuid::new_v4().simple().to_string();
        let (owner, admin, name) = (callers.owner(), callers.admin(), unique());
        let stream = format!("doc/{}", unique());
        let mut names = vec![
            ("new", format!("doc/new-{name}")),
            ("new elsewhere", format!("other/new-{name}")),
            ("new subscription", format!("new-{name}")),
            ("wakes", format!("doc/wakes-{name}")),
            ("new group", format!("jobs-new-{name}")),
        ];
        let mut things =
            Things { names: Vec::new(), content: unique(), token: None, follower: None };
        owner.create(&stream).await;
        let mut offset = owner.append(&stream, &json!(things.content)).await;
        if row.uses("session") {
            let tab = Tab::open(&owner).await;
            tab.subscribe_at(&stream, "-1").await;
            names.push(("session", tab.session));
        }
        if row.uses("hidden") {
            let hidden = format!("doc/hidden-{name}");
            hide(&owner, &hidden).await;
            names.push(("hidden", hidden));
        }
        if row.uses("others") {
            let others = format!("others-{name}");
            subscribe(admin, &others, &format!("secret/{name}")).await;
            names.push(("others", others));
        }
        if row.uses("mixed") {
            let mixed = format!("mixed-{name}");
            subscribe(admin, &mixed, &stream).await;
            let streams = json!({ "streams": [format!("secret/{name}")] });
            let path = format!("/v1/stream/__ds/subscriptions/{mixed}/streams");
            let answer = admin.json(Method::POST, &path, &streams).await;
            assert_eq!(answer.status, 204, "add a stream: {}", answer.text());
            names.push(("mixed", mixed));
        }
        if row.uses("subscription") {
            subscribe(admin, &name, &stream).await;
            offset = owner.append(&stream, &json!("more")).await;
            woken(admin, &name).await;
            names.push(("subscription", name.clone()));
        }
        if row.uses("wake") {
            let claim = claim(admin, &name).await;
            names.push(("wake", claim["wake_id"].as_str().expect("a wake").to_owned()));
            names.push(("generation", claim["generation"].to_string()));
            things.token = claim["token"].as_str().map(ToOwned::to_owned);
        }
        for thing in ["group", "buried"].into_iter().filter(|thing| row.uses(thing)) {
            let group = format!("jobs-{thing}-{name}");
            let wish = json!({ "partitions": 1, "streams": [stream] });
            let made = admin.json(Method::PUT, &format!("/v1/groups/{group}"), &wish).await;
            assert_eq!(made.status, 201, "make a group: {}", made.text());
            if row.uses("lease") || thing == "buried" {
                let batch = claim_batch(admin, &group).await;
                if thing == "buried" {
                    bury(admin, &group, &batch).await;
                }
                names.push(("lease", batch["token"].as_str().expect("a token").to_owned()));
            }
            names.push((thing, group));
        }
        if row.uses("key") {
            let key = json!({ "name": name, "scopes": { "tables": [] } });
            let made = admin.json(Method::POST, "/v1/keys", &key).await.json();
            names.push(("key", made["id"].to_string()));
        }
        for thing in ["table", "watched"].into_iter().filter(|thing| row.uses(thing)) {
            let table = format!("t_{}", unique());
            let sql = json!({ "sql": format!("CREATE TABLE {table} (id INTEGER PRIMARY KEY)") });
            let answer = admin.json(Method::POST, "/v1/sql", &sql).await;
            assert_eq!(answer.status, 200, "make a table: {}", answer.text());
            if thing == "watched" {
                let watch = json!({ "table": table });
                let answer = admin.json(Method::POST, "/v1/watch", &watch).await;
                assert_eq!(answer.status, 200, "watch a table: {}", answer.text());
            }
            names.push((thing, table));
        }
        if row.uses("live query") {
            let (live_id, follower) = follow_live(admin).await;
            names.push(("live query", live_id));
            things.follower = Some(Rc::new(follower));
        }
        names.extend([("stream", stream), ("offset", offset), ("name", name)]);
        things.names = names;
        things
    }

    /// Besides: what belongs to one who tries, or would to the owner if they were let in.
    pub(crate) async fn with_own(&self, callers: &Callers, row: &Row, caller: &Caller) -> Things {
        let mut things = self.clone();
        if row.uses("own session") {
            let own = if caller.known { callers.http(caller) } else { callers.owner() };
            things.names.push(("own session", own.open_session().await));
        }
        let token = if caller.column == "wake" { &self.token } else { &caller.token };
        things.names.push(("credential", token.clone().unwrap_or_default()));
        things
    }

    /// The same, but nothing of it is there.
    pub(crate) fn absent(&self) -> Things {
        let mut things = self.clone();
        for (thing, name) in things.names.iter_mut().filter(|(t, _)| EXISTING.contains(t)) {
            *name = match *thing {
                "session" => format!("tws_{}", URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>())),
                "key" => "1234567".to_owned(),
                _ => format!("{name}-is-not-there"),
            };
        }
        things
    }

    /// Whether a row is about something that is there.
    pub(crate) fn exist_for(row: &Row) -> bool {
        EXISTING.iter().any(|thing| row.uses(thing))
    }

    /// A text with names in the place of braces.
    pub(crate) fn fill(&self, text: &str) -> String {
        let fill = |text: String, (thing, name): &(&str, String)| {
            text.replace(&format!("{{{thing}}}"), name)
        };
        self.names.iter().fold(text.to_owned(), fill)
    }

    /// What one who is refused is not told.
    pub(crate) fn private(&self, caller: &Caller) -> impl Iterator<Item = &str> {
        let is_private = |thing: &str| match thing {
            "stream" | "hidden" | "session" => true,
            "own session" => !caller.known,
            _ => false,
        };
        let names = self.names.iter().filter(move |(thing, _)| is_private(thing));
        names.map(|(_, name)| name.as_str()).chain([self.content.as_str()])
    }

    /// All of it as it is, as its owner and administrators see it.
    pub(crate) async fn look(&self, callers: &Callers, caller: &Caller) -> Value {
        let (admin, owner) = (callers.admin(), callers.owner());
        let mut seen = json!({});
        for (thing, name) in &self.names {
            let path = match *thing {
                "group" | "buried" | "new group" => {
                    seen[*thing] = group(admin, name).await;
                    continue;
                }
                "live query" => {
                    seen[*thing] = is_followed(admin, name).await.into();
                    continue;
                }
                "stream" | "hidden" | "new" | "new elsewhere" => format!("/v1/stream/{name}"),
                "session" | "own session" => format!("/v1/session-offsets/{name}"),
                "subscription" | "others" | "mixed" | "new subscription" => {
                    format!("/v1/stream/__ds/subscriptions/{name}")
                }
                _ => continue,
            };
            let own = if caller.known { callers.http(caller) } else { callers.owner() };
            let http = match *thing {
                "session" => &owner,
                "own session" => &own,
                _ => admin,
            };
            let answer = http.get(&path).await;
            seen[*thing] = json!([answer.status, answer.text(), answer.header("stream-closed")]);
        }
        let keys = admin.get("/v1/keys").await.json();
        let keys = keys["keys"].as_array().expect("keys").iter();
        seen["keys"] = keys.filter(|key| key["name"] == self.fill("{name}")).cloned().collect();
        let watches = admin.get("/v1/watch").await.json();
        let ours = |watch: &&Value| self.names.iter().any(|(_, name)| watch["table"] == **name);
        let watches = watches["watches"].as_array().expect("watches").iter();
        seen["watches"] = watches.filter(ours).map(|watch| watch["table"].clone()).collect();
        seen
    }
}

/// Makes a stream that is deleted and kept for a fork.
async fn hide(http: &Http, stream: &str) {
    http.create(stream).await;
    let fork = http.request(Method::PUT, &format!("/v1/stream/{stream}-fork"));
    let answer = Answer::of(fork.header("stream-forked-from", stream)).await;
    assert_eq!(answer.status, 201, "fork {stream}: {}", answer.text());
    let answer = Answer::of(http.request(Method::DELETE, &format!("/v1/stream/{stream}"))).await;
    assert_eq!(answer.status, 204, "delete {stream}: {}", answer.text());
}

/// Follows a live query of the database, and waits until it is listed.
async fn follow_live(admin: &Http) -> (String, QueryTab) {
    let mut follower = QueryTab::open(admin).await;
    let entry = follower.follow(&json!({ "query_id": "q", "sql": "VALUES (1)" })).await;
    let live_id = entry["live_id"].as_str().expect("a live_id").to_owned();
    eventually("a live query is listed", async || is_followed(admin, &live_id).await.then_some(()))
        .await;
    (live_id, follower)
}

async fn is_followed(admin: &Http, live_id: &str) -> bool {
    let sql = format!("SELECT 1 FROM system.live_queries WHERE live_id = '{live_id}'");
    let answer = admin.json(Method::POST, "/v1/sql", &json!({ "sql": sql })).await;
    assert_eq!(answer.status, 200, "look for a live query: {}", answer.text());
    answer.json()["row_count"] == 1
}

/// What is different about a group when something was done to it. How far it is behind is a matter of time.
async fn group(admin: &Http, name: &str) -> Value {
    let answer = admin.get(&format!("/v1/groups/{name}")).await;
    if answer.status != 200 {
        return answer.status.into();
    }
    let group = answer.json();
    let of = |member: &str| {
        group["partitions"].as_array().map_or(Value::Null, |partitions| {
            partitions.iter().map(|partition| partition[member].clone()).collect()
        })
    };
    let places = ["consumed", "leased_to", "parked_keys", "redrive"].map(of);
    json!([group["max_attempts"], group["dead_letters"], places])
}

async fn claim_batch(admin: &Http, group: &str) -> Value {
    let answer = admin.json(Method::POST, &format!("/v1/groups/{group}/claim"), &json!({})).await;
    assert_eq!(answer.status, 200, "claim a batch: {}", answer.text());
    answer.json()
}

/// Makes what a batch has dead letters.
async fn bury(admin: &Http, group: &str, batch: &Value) {
    let key = &batch["groups"][0];
    let failed = json!({
        "host_id": key["host_id"], "user_id": key["user_id"], "error": "no", "verdict": "dead",
    });
    let nack = json!({ "token": batch["token"], "failed": [failed] });
    let answer = admin.json(Method::POST, &format!("/v1/groups/{group}/nack"), &nack).await;
    assert_eq!(answer.status, 200, "bury a batch: {}", answer.text());
    // A letter is left alone until its partition has passed the event, which it does when work is asked for.
    eventually("the group passes what is dead", async || {
        let claim = json!({ "wait_ms": 0 });
        let nothing = admin.json(Method::POST, &format!("/v1/groups/{group}/claim"), &claim).await;
        assert_eq!(nothing.status, 204, "nothing is left: {}", nothing.text());
        let now = admin.get(&format!("/v1/groups/{group}")).await.json();
        let consumed = now["partitions"][0]["consumed"].as_str().expect("a place").to_owned();
        (consumed.as_str() >= batch["to"].as_str().expect("a place")).then_some(())
    })
    .await;
}
