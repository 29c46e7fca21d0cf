//! A source transaction is larger than a batch, or larger than anything may be.

use tidewire_store::groups::GroupChange;
use tidewire_stories::{Keeper, Ledger, Store, eventually, on_both_stores};

on_both_stores!(
    a_batch_is_extended_to_the_transactions_end,
    one_that_is_too_large_is_told_and_waits
);

async fn handled(ledger: &Ledger, count: i64) {
    eventually(&format!("{count} events are handled"), async || {
        (ledger.number("SELECT count(*) FROM ledger").await == count).then_some(())
    })
    .await;
}

async fn a_batch_is_extended_to_the_transactions_end(store: Store) {
    let ledger = Ledger::open(store).await;
    ledger.order("h", "before", &["a"]).await;
    ledger.order("h", "big", &["x"; 120]).await;
    ledger.order("h", "after", &["b"]).await;
    let member = ledger.member().partitions(1).batch_size(100);
    let worker = member.start(Keeper::default()).await.expect("a member");
    handled(&ledger, 122).await;
    let stats = worker.stop().await.expect("it stops");
    // All 121 that end at the transaction's end are one batch, and the last is another.
    assert_eq!(stats.batches, 2, "{stats:?}");
    ledger.holds().await;
}

async fn one_that_is_too_large_is_told_and_waits(store: Store) {
    let ledger = Ledger::open(store).await;
    ledger.order("h", "before", &["a"]).await;
    ledger.order("h", "big", &["x"; 50]).await;
    let member = || ledger.member().partitions(1).batch_size(10);
    let limited = member().transaction_max(40, 1 << 20).start(Keeper::default()).await;
    let limited = limited.expect("a member");
    let trouble = eventually("the trouble is told", async || {
        let group = ledger.groups().group("g").await.expect("a look").expect("a group");
        group.partitions[0].trouble.clone()
    })
    .await;
    assert!(trouble.starts_with("transaction_too_large: transaction "), "{trouble}");
    assert!(trouble.contains("40 (transactionEventsMax)"), "{trouble}");
    assert!(trouble.contains("tidewire groups resume g"), "{trouble}");
    // What came before it was handled, and nothing of it.
    handled(&ledger, 1).await;
    limited.stop().await.expect("it stops");
    let roomy = member().transaction_max(50, 1 << 20).start(Keeper::default()).await;
    let roomy = roomy.expect("a member");
    let resume = GroupChange { clear_trouble: true, ..GroupChange::default() };
    ledger.groups().change_group("g", &resume).await.expect("resumed");
    handled(&ledger, 51).await;
    roomy.stop().await.expect("it stops");
    ledger.holds().await;
}
