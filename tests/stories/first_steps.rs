//! What someone meets who tries it for the first time, and makes the mistakes that everyone makes: each is told what
//! to do.

use serde_json::json;
use tidewire_stories::postgres::{Sql, fresh_database};
use tidewire_stories::query_tab::{run, watch};
use tidewire_stories::{
    Answer, Authority, Ended, Files, Http, Launch, QueryTab, Raw, Store, eventually, on_both_stores,
};

on_both_stores!(a_server_that_is_well_is_told_so, mistakes_are_told_with_what_to_do);

const KEY: &str = "story-first-0c5d1be7a94f3826";

async fn tidewire(http: &Http, token: Option<&str>, words: &[&str]) -> Ended {
    let launch = Launch::command(words[0]).with(words[1..].iter().copied());
    let launch = launch.set("TIDEWIRE_URL", http.base());
    match token {
        Some(token) => launch.set("TIDEWIRE_TOKEN", token).run().await,
        None => launch.run().await,
    }
}

/// Runs it, and it must fail, with a sentence that says all of this.
#[track_caller]
fn says(ended: &Ended, code: i32, parts: &[&str]) {
    let all = format!("{}{}", ended.printed, ended.said);
    assert_eq!(ended.code, Some(code), "{all}");
    for part in parts {
        assert!(all.contains(part), "{part:?} is not in {all}");
    }
}

async fn a_server_that_is_well_is_told_so(store: Store) {
    let server = Launch::serve(&store, KEY).start().await;
    let http = server.http().clone();
    let http = &http;
    run(http, "CREATE TABLE orders (id INTEGER PRIMARY KEY)").await;
    watch(http, &json!({ "table": "orders" })).await;
    // On PostgreSQL a node is chosen first that brings changes into the log.
    let well = eventually("the doctor is content", async || {
        let ended = tidewire(http, Some(KEY), &["doctor"]).await;
        (ended.code == Some(0)).then_some(ended)
    })
    .await;
    says(
        &well,
        0,
        &[
            http.base(),
            "good  credential",
            "good  clock",
            "good  live queries",
            "1 watched: orders",
        ],
    );
    let json = tidewire(http, Some(KEY), &["doctor", "--json"]).await;
    let document: serde_json::Value = serde_json::from_str(&json.printed).expect("JSON");
    assert_eq!(document["healthy"], true, "{document}");

    let denied = tidewire(http, Some("not-the-admin-key"), &["doctor"]).await;
    says(&denied, 1, &["good  server", "bad   credential", "TIDEWIRE_TOKEN"]);
    let reader = http.make_key(&json!({ "tables": ["orders"] })).await.key;
    says(
        &tidewire(http, Some(&reader), &["doctor"]).await,
        1,
        &["bad   credential", "--can admin"],
    );
    server.stop().await;
    let gone = tidewire(http, Some(KEY), &["doctor"]).await;
    says(&gone, 1, &["bad   server", "no server listens there", "tidewire dev"]);
}

async fn mistakes_are_told_with_what_to_do(store: Store) {
    let mut server =
        Launch::serve(&store, KEY).configured("[tables.order]\nread = \"id = 1\"\n").start().await;
    let http = server.http().clone();
    let http = &http;
    run(http, "CREATE TABLE orders (id INTEGER PRIMARY KEY)").await;
    watch(http, &json!({ "table": "orders" })).await;
    let doctor = tidewire(http, Some(KEY), &["doctor"]).await;
    says(&doctor, 1, &["bad   rules", "[tables.order]", "the nearest is \"orders\""]);

    for token in [None, Some("wrong")] {
        let ended = tidewire(http, token, &["nodes"]).await;
        says(
            &ended,
            1,
            &["cannot list the nodes", "unauthorized", "hint: give --token or TIDEWIRE_TOKEN"],
        );
    }
    let mixed_up = Launch::command("nodes").set("TIDEWIRE_URL", http.base());
    let mixed_up = mixed_up.set("TIDEWIRE_ADMIN_KEY", KEY).run().await;
    says(&mixed_up, 1, &["export TIDEWIRE_TOKEN=$TIDEWIRE_ADMIN_KEY"]);
    assert!(!mixed_up.said.contains(KEY), "{}", mixed_up.said);

    let create = ["keys", "create", "--name", "app", "--tables", "orders"];
    let made = tidewire(http, Some(KEY), &create).await;
    says(&made, 0, &[&format!("(app) of {}, shown this once", http.base())]);

    broken_json_makes_no_stream(http).await;
    says(
        &tidewire(http, Some(KEY), &["groups", "create", "jobs", "--tables", "orders"]).await,
        0,
        &[],
    );
    let spelt = match store {
        Store::Sqlite { .. } => "main.Orders",
        Store::Postgres { .. } => "public.orders",
    };
    let create = ["groups", "create", "others", "--tables", spelt];
    let other = format!("the table {spelt} is watched as orders");
    says(&tidewire(http, Some(KEY), &create).await, 1, &[&other]);
    let tail = tidewire(http, Some(KEY), &["tail", "--table", spelt]).await;
    says(&tail, 1, &["it is watched as orders: name it so"]);
    let absent = tidewire(http, Some(KEY), &["watch", "nosuchschema.orders"]).await;
    let why = match store {
        Store::Sqlite { .. } => "tables there have no schema",
        Store::Postgres { .. } => "there is no table 'nosuchschema.orders'",
    };
    says(&absent, 1, &[why]);
    // Nothing has happened that could be handled, and it is told all the same.
    let consume = ["consume", "--group", "jobs", "--exec", "no-such-program"];
    says(
        &tidewire(http, Some(KEY), &consume).await,
        1,
        &["no-such-program (--exec)", "no folder of PATH"],
    );

    let routed =
        Launch::command("nodes").with(["--url", &format!("{}/v1", http.base())]).run().await;
    says(&routed, 1, &["has the path /v1", &format!("without a path: {}", http.base())]);
    let below = Launch::command("nodes").with(["--url", &format!("{}/console", http.base())]);
    says(
        &below.set("TIDEWIRE_TOKEN", KEY).run().await,
        1,
        &["has the path /console: leave it out"],
    );
    let encrypted = http.base().replace("http://", "https://");
    let encrypted = Launch::command("nodes").with(["--url", &encrypted]).run().await;
    says(&encrypted, 1, &["does not speak TLS", "write http:// instead of https://"]);
    // Who follows comes back to a server that was there once; to this one there is no coming back.
    let encrypted = http.base().replace("http://", "https://");
    for command in [&["tail", "--stream", "doc"][..], &["sql", "--live", "SELECT id FROM orders"]] {
        let following =
            Launch::command(command[0]).with(command[1..].to_vec()).with(["--url", &encrypted]);
        says(
            &following.run().await,
            1,
            &["does not speak TLS", "write http:// instead of https://"],
        );
    }

    let page =
        http.request(reqwest::Method::GET, "/v1/nodes").header("origin", "https://shop.example");
    Answer::of(page).await.problem(403, "origin_not_allowed");
    eventually("the log names the origin", async || {
        server.process().said().contains("https://shop.example").then_some(())
    })
    .await;
}

/// What is no JSON makes no stream of JSON.
async fn broken_json_makes_no_stream(http: &Http) {
    let publish = |data: &'static str| ["publish", "doc", "--json", data];
    let broken = tidewire(http, Some(KEY), &publish("{text: hi}")).await;
    says(
        &broken,
        1,
        &["cannot publish to doc: the stream does not exist", "is not JSON", "single quotes"],
    );
    assert!(!broken.said.contains("the stream holds"), "{}", broken.said);
    http.get("/v1/stream/doc").await.problem(404, "stream_not_found");
    says(
        &tidewire(http, Some(KEY), &publish("{\"text\": \"hi\"}")).await,
        0,
        &["created the stream doc"],
    );
    says(
        &tidewire(http, Some(KEY), &["publish", "doc", "hi"]).await,
        1,
        &["the stream holds application/json", "the message is not JSON", "double quotes"],
    );
    let meant = tidewire(http, Some(KEY), &["publish", "note", "{text: hi}"]).await;
    says(&meant, 0, &["created the stream note (text/plain)", "looks like JSON but is not valid"]);
    let other = tidewire(http, Some(KEY), &["publish", "note", "--json", "{text: hi}"]).await;
    says(&other, 1, &["it is to be application/json", "the message is not JSON"]);
}

/// Over HTTP to a server that speaks TLS, by GET and by HEAD.
#[tokio::test(flavor = "multi_thread")]
async fn http_for_https_is_told() {
    let (store, authority) = (Store::sqlite(), Authority::new());
    let files = Files::new(&authority.issue());
    let server = Launch::dev(&store).secured(&files, &authority).start().await;
    let plain = server.http().base().replace("https://", "http://");
    for words in [&["nodes"][..], &["publish", "doc", "hi"], &["tail", "--stream", "doc"]] {
        let ended = Launch::command(words[0]).with(words[1..].iter().copied());
        let ended = ended.with(["--url", &plain]).run().await;
        says(&ended, 1, &["write https:// instead of http://"]);
    }
    let unknown = Launch::command("nodes").with(["--url", server.http().base()]).run().await;
    says(&unknown, 1, &["invalid peer certificate", "--ca FILE"]);
}

/// The owner of a database who is nobody else: no superuser, and none who makes roles. All but live queries works at
/// once, and what those need is told at the start, by `watch`, by the query and by the doctor, to be run as it stands.
#[tokio::test(flavor = "multi_thread")]
async fn an_ordinary_owner_is_told_what_live_queries_need() {
    let url = fresh_database().await;
    let admin = Sql::connect(&url).await.expect("a connection");
    let mut owned = reqwest::Url::parse(&url).expect("a URL");
    let database = owned.path().trim_start_matches('/').to_owned();
    let (owner, role) = (format!("owner_of_{database}"), format!("live_of_{database}"));
    // In versions before 15 everyone may make tables in the schema public.
    let make = format!("CREATE ROLE {owner} LOGIN; ALTER DATABASE {database} OWNER TO {owner}");
    admin.batch_execute(&make).await.expect("an owner");
    owned.set_username(&owner).expect("a name");
    let store = Store::Postgres { url: owned.to_string() };
    let mut server = Launch::serve(&store, KEY).set("TIDEWIRE_QUERIES_ROLE", &role).start().await;
    let http = server.http().clone();
    let http = &http;

    let needs =
        [format!("CREATE ROLE \"{role}\" NOLOGIN;"), format!("GRANT \"{role}\" TO \"{owner}\";")];
    let needs: Vec<&str> = needs.iter().map(String::as_str).collect();
    eventually("the log says what to run", async || {
        let said = server.process().said();
        needs.iter().all(|statement| said.contains(statement)).then_some(())
    })
    .await;
    run(http, "CREATE TABLE orders (id INTEGER PRIMARY KEY)").await;
    let watched = tidewire(http, Some(KEY), &["watch", "orders"]).await;
    says(&watched, 0, &[&["Live queries of it do not work yet"][..], &needs].concat());
    let doctor = tidewire(http, Some(KEY), &["doctor"]).await;
    says(&doctor, 1, &[&["bad   live queries"][..], &needs].concat());
    let asked = tidewire(http, Some(KEY), &["sql", "--live", "SELECT id FROM orders"]).await;
    let told = format!("CREATE ROLE \"{role}\" NOLOGIN; GRANT \"{role}\" TO \"{owner}\"");
    says(&asked, 1, &["query_role_missing", &told]);

    admin.batch_execute(&needs.join(" ")).await.expect("what it says can be run");
    run(http, "INSERT INTO orders VALUES (1)").await;
    let mut tab = QueryTab::open(http).await;
    tab.follow(&json!({ "query_id": "q", "sql": "SELECT id FROM orders" })).await;
    tab.until("q", &[json!({ "id": 1 })]).await;
    says(&tidewire(http, Some(KEY), &["doctor"]).await, 0, &["good  live queries"]);

    let switch = tidewire(http, Some(KEY), &["capture", "switch", "wal"]).await;
    says(&switch, 1, &["capture_mode_refused", &format!("ALTER ROLE \"{owner}\" REPLICATION")]);
    // Somebody else's table is watched once one of two statements was run, as they stand.
    let theirs = format!("theirs_of_{database}");
    let make = format!(
        "CREATE ROLE {theirs}; CREATE TABLE theirs (id INTEGER PRIMARY KEY);
                        ALTER TABLE theirs OWNER TO {theirs}; GRANT ALL ON theirs TO {owner}"
    );
    admin.batch_execute(&make).await.expect("a table");
    let refused = tidewire(http, Some(KEY), &["watch", "theirs"]).await;
    let grant = format!("GRANT {theirs} TO {owner}");
    says(&refused, 1, &[&grant, &format!("ALTER TABLE public.theirs OWNER TO {owner}")]);
    admin.batch_execute(&grant).await.expect("what it says can be run");
    says(&tidewire(http, Some(KEY), &["watch", "theirs"]).await, 0, &[]);

    // A table that has become someone else's is theirs to open.
    run(http, "CREATE SCHEMA hers; CREATE TABLE hers.bills (id INTEGER PRIMARY KEY)").await;
    watch(http, &json!({ "table": "hers.bills" })).await;
    let given =
        "ALTER TABLE hers.bills OWNER TO CURRENT_USER; ALTER SCHEMA hers OWNER TO CURRENT_USER";
    admin.batch_execute(given).await.expect("another owner");
    let doctor = tidewire(http, Some(KEY), &["doctor"]).await;
    let grants = [
        format!("GRANT USAGE ON SCHEMA hers TO {role};"),
        format!("GRANT SELECT ON hers.bills TO {role};"),
    ];
    says(&doctor, 1, &["bad   live queries", &grants[0], &grants[1]]);
    admin.batch_execute(&grants.join(" ")).await.expect("rights");
    says(&tidewire(http, Some(KEY), &["doctor"]).await, 0, &["good  live queries"]);
    server.stop().await;
    drop(admin);
    let cluster =
        Sql::connect(&std::env::var("TIDEWIRE_TEST_DATABASE_URL").expect("a cluster")).await;
    let cluster = cluster.expect("a connection");
    cluster.batch_execute(&format!("DROP DATABASE {database} WITH (FORCE)")).await.expect("gone");
    cluster.batch_execute(&format!("DROP ROLE {owner}, {role}, {theirs}")).await.expect("gone");
}

/// Signs that an address cannot have are what people write who look for rows, and curl sends them as they are.
#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_none_is_told() {
    let store = Store::sqlite();
    let launch = Launch::dev(&store);
    let _server = launch.start().await;
    for query in ["where=total>100", "where=total<100", "where=total > 100"] {
        let mut client = Raw::connect(launch.port()).await;
        let line = format!("GET /v1/stream/table/orders?{query} HTTP/1.1\r\n");
        client.send(format!("{line}host: localhost\r\n\r\n")).await;
        let answer = client.hung_up(query).await;
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.starts_with("HTTP/1.1 400 ") && head.contains("problem+json"), "{head}");
        assert!(head.contains("content-security-policy: sandbox"), "{head}");
        let problem: serde_json::Value = serde_json::from_str(body).expect("JSON");
        assert_eq!(problem["code"], "malformed_request", "{problem}");
        assert!(
            problem["hint"].as_str().expect("a hint").contains("--data-urlencode"),
            "{problem}"
        );
    }
}
