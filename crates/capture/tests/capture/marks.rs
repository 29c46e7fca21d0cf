//! Waiting for all that is committed to be in the log: each mark is an event, so those who wait share them.

use futures_util::future::join_all;
use tidewire_store::Sql as _;

use crate::fixture::Fixture;

const MARKS: &str = "SELECT count(*) FROM tidewire.log WHERE control = 'mark'";

#[tokio::test]
async fn many_who_wait_set_two_marks() {
    let fixture = Fixture::start().await;
    fixture
        .run("CREATE TABLE orders (id integer PRIMARY KEY); SELECT tidewire.watch('orders')")
        .await;
    fixture.caught_up().await;
    let before = fixture.number(MARKS).await;
    fixture.run("INSERT INTO orders VALUES (1)").await;
    // All of them have asked before the first mark is set.
    let reached = join_all((0..50).map(|_| fixture.store.caught_up(30_000))).await;
    let row = "SELECT c_offset FROM tidewire.log WHERE table_name = 'orders'";
    let row = u64::try_from(fixture.number(row).await).expect("an offset");
    for position in reached {
        assert!(position.expect("the log has it").number() > row, "the row is before the mark");
    }
    assert_eq!(
        fixture.number(MARKS).await - before,
        2,
        "the first who asked has one, all others share one"
    );
    fixture.tear_down().await;
}
