//! A client follows a query and does not read. It fills no memory, nobody waits for it, and when it
//! reads again it has the rows as they are.

use serde_json::json;
use tidewire_stories::query_tab::run;
use tidewire_stories::{Launch, QueryTab, Store, on_both_stores};

use crate::live_queries::orders;

on_both_stores!(what_a_slow_reader_missed_is_told_by_all_rows);

const SELECT: &str = "SELECT id, owner, total FROM orders";

/// I5, and that there are no gaps in a query.
async fn what_a_slow_reader_missed_is_told_by_all_rows(store: Store) {
    const ROUNDS: usize = 400;
    let launch = Launch::dev(&store).set("TIDEWIRE_LIVE_QUEUE_EVENTS_MAX", "50");
    let server = launch.start().await;
    let http = server.http();
    orders(http).await;
    let filler = "x".repeat(20_000);
    run(http, &format!("INSERT INTO orders VALUES (1,'{filler}','open',0)")).await;
    let mut slow = QueryTab::open_narrow(http).await;
    let mut quick = QueryTab::open(http).await;
    for tab in [&mut slow, &mut quick] {
        tab.follow(&json!({ "query_id": "q", "sql": SELECT })).await;
    }
    for round in 1..=ROUNDS {
        run(http, &format!("UPDATE orders SET total = {round}")).await;
        while quick.rows("q")[0]["total"] != round {
            quick.hear().await;
        }
    }
    let last = json!([{ "id": 1, "owner": filler, "total": ROUNDS }]);
    let last = last.as_array().expect("rows");
    quick.until("q", last).await;
    assert_eq!(quick.entry("q")["reset"], false, "one who reads is not begun anew");
    slow.until("q", last).await;
    assert_eq!(slow.entry("q")["reset"], true, "one who did not read is");
    run(http, "UPDATE orders SET total = 0").await;
    slow.until("q", &[json!({ "id": 1, "owner": filler, "total": 0 })]).await;
}
