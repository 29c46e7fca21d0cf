//! Clients come and go on all nodes while rows are written, and each has in the end what the query gives.

use serde_json::json;
use tidewire_stories::query_tab::run;
use tidewire_stories::{Http, Nodes, QueryTab, Store, on_both_stores};

use crate::live_queries::orders;

on_both_stores!(whoever_comes_amid_writers_misses_nothing);

const SELECTS: [(&str, &str, bool); 4] = [
    ("filter", "SELECT id, total FROM orders WHERE status = 'open'", false),
    ("window", "SELECT id, total FROM orders ORDER BY total DESC, id LIMIT 5", true),
    (
        "groups",
        "SELECT owner, count(*) AS n, sum(total) AS total FROM orders GROUP BY owner",
        false,
    ),
    (
        "requery",
        "SELECT a.id FROM orders a WHERE a.total >= (SELECT max(b.total) FROM orders b)",
        false,
    ),
];

/// I4 at rest, after subscribing and resuming under concurrent writers.
async fn whoever_comes_amid_writers_misses_nothing(store: Store) {
    const WRITERS: i64 = 3;
    const STATEMENTS: i64 = 60;
    let nodes = Nodes::of(&store, &[]).await;
    orders(nodes.http(0)).await;
    let mut writing = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let http =
            nodes.https()[usize::try_from(writer).expect("few") % nodes.https().len()].clone();
        writing.spawn(async move {
            for number in 0..STATEMENTS {
                write(&http, writer, number).await;
            }
        });
    }
    let mut tabs = Vec::new();
    for number in 0..9 {
        let http = &nodes.https()[number % nodes.https().len()];
        let mut tab = QueryTab::open(http).await;
        for (name, sql, _) in SELECTS {
            tab.follow(&json!({ "query_id": name, "sql": sql })).await;
        }
        tabs.push(tab);
    }
    while let Some(written) = writing.join_next().await {
        written.expect("a writer");
    }
    for (number, tab) in tabs.iter_mut().enumerate() {
        let http = &nodes.https()[number % nodes.https().len()];
        for (name, sql, ordered) in SELECTS {
            tab.until_as_run(http, name, sql, ordered).await;
        }
    }
}

async fn write(http: &Http, writer: i64, number: i64) {
    let id = writer * 1_000 + number;
    let text = match number % 4 {
        0 | 1 => format!(
            "INSERT INTO orders VALUES ({id},'w{writer}','open',{number}),({},'w{writer}','new',1)",
            id + 500
        ),
        2 => {
            format!("UPDATE orders SET total = total + 7, status = 'open' WHERE id = {}", id + 498)
        }
        _ => format!("DELETE FROM orders WHERE id = {}", id - 3),
    };
    run(http, &text).await;
}
