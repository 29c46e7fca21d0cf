//! Problems that pass by themselves while a page is read for someone who is live.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use tidewire_store::PageLimit;

use super::{read_page, see_page};
use crate::Hub;
use crate::lookup::Reach;
use crate::testing;
use tidewire_access::auth::names::TableNames;
use tidewire_access::auth::scopes::Scopes;
use tidewire_access::auth::{Identity, Who};
use tidewire_access::options::{Access, Options};
use tidewire_fixtures::orders;

const LIMIT: PageLimit = PageLimit { events: 100, bytes: 1 << 20 };
/// How long the node waits for itself before it says that it lags.
const WAIT: Duration = Duration::from_millis(1);

/// A node that does not follow its log, with a table.
async fn node_that_lags() -> (Arc<Hub>, TempDir) {
    let (store, folder) = orders::watched_orders().await;
    let mut options = Options::new(Access::OpenOnLoopback);
    options.log.min_offset_wait = WAIT;
    let (hub, _unstarted) = testing::hub(options, store).await;
    (hub, folder)
}

#[tokio::test]
async fn who_sees_a_part_waits_for_a_node_that_lags() {
    let (hub, _folder) = node_that_lags().await;
    let behind = hub.tail.position();
    orders::run(&hub.store, "INSERT INTO orders VALUES (1, 10), (2, 1)").await;
    let scopes =
        Scopes::parse(&json!({ "tables": ["orders"] }).to_string(), &(), &TableNames::none())
            .expect("scopes");
    let identity = Identity::new(Who::Key(1), scopes, None);
    let view = hub.view(&identity, "table/orders", Some("total > 5")).await;
    let view = view.expect("allowed").expect("a view");
    let mut page =
        read_page(&hub, "table/orders", &Reach::everything(), behind, LIMIT).await.expect("rows");
    assert_eq!(page.events.len(), 2);
    let problem = hub.see(Some(&view), &mut page).await.expect_err("it has not seen the rows");
    assert!(problem.is_temporary(), "{problem:?}");
    // It says so before the other has even begun: its time is up earlier on the same clock.
    let catch_up = async {
        tokio::time::sleep(WAIT * 20).await;
        hub.tail.catch_up(&hub.store, &Vec::new()).await.expect("a log");
    };
    let (row_filter, ()) = tokio::join!(see_page(&hub, Some(&view), &mut page), catch_up);
    row_filter.expect("what is seen").expect("a row filter");
    assert_eq!(page.events.len(), 1);
}
