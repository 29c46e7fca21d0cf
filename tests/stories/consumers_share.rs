//! Members come, go, and are killed; each works on its share of the partitions.

use tidewire_consumer::Consumer;
use tidewire_stories::ledger::worker;
use tidewire_stories::{Keeper, Ledger, Process, Store, eventually, on_both_stores};

on_both_stores!(
    members_come_and_go_and_each_has_its_share,
    a_pinned_member_works_on_its_partition_only,
);

async fn member(ledger: &Ledger, name: &str) -> Consumer {
    let member = ledger.member().partitions(8).member(name);
    member.start(Keeper::default()).await.expect("a member")
}

/// The partitions that each of these works on.
fn shares(members: &[&Consumer]) -> Vec<Vec<u32>> {
    let share =
        |member: &&Consumer| member.stats().partitions.iter().map(|one| one.partition).collect();
    members.iter().map(share).collect()
}

/// Waits until these members have all partitions among them, each once, and each about as many.
async fn balanced(members: &[&Consumer]) {
    eventually("the shares are even", async || {
        let shares = shares(members);
        let mut all = shares.concat();
        all.sort_unstable();
        let (least, most) =
            (shares.iter().map(Vec::len).min()?, shares.iter().map(Vec::len).max()?);
        (all == (0..8).collect::<Vec<u32>>() && most - least <= 1).then_some(())
    })
    .await;
}

/// Orders of many hosts, so that every partition has some.
async fn orders_for_all(ledger: &Ledger) {
    for host in 0..40 {
        ledger.order(&format!("h{host}"), "u", &["a", "b"]).await;
    }
}

async fn worked_off(ledger: &Ledger) {
    eventually("all is worked off", async || {
        let rows = ledger.number("SELECT count(*) FROM orders").await;
        (ledger.number("SELECT count(*) FROM ledger").await == rows).then_some(())
    })
    .await;
    ledger.holds().await;
}

async fn members_come_and_go_and_each_has_its_share(store: Store) {
    let ledger = Ledger::open(store).await;
    let one = member(&ledger, "one").await;
    balanced(&[&one]).await;
    orders_for_all(&ledger).await;
    let (two, three) = (member(&ledger, "two").await, member(&ledger, "three").await);
    balanced(&[&one, &two, &three]).await;
    orders_for_all(&ledger).await;
    two.stop().await.expect("it stops");
    balanced(&[&one, &three]).await;
    orders_for_all(&ledger).await;
    // One that is dropped does not say goodbye: it is missed when its lease is over.
    drop(one);
    balanced(&[&three]).await;
    worked_off(&ledger).await;
    let stats = three.stop().await.expect("it stops");
    assert!(stats.rebalances >= 2, "{stats:?}");
}

async fn a_pinned_member_works_on_its_partition_only(store: Store) {
    let ledger = Ledger::open(store).await;
    let free = member(&ledger, "free").await;
    let pinned = ledger.member().partitions(8).member("pinned").pin(3);
    let pinned = pinned.start(Keeper::default()).await.expect("a member");
    eventually("the pinned one has its partition, the other the rest", async || {
        let rest: Vec<u32> = (0..8).filter(|partition| *partition != 3).collect();
        (shares(&[&pinned, &free]) == [vec![3], rest]).then_some(())
    })
    .await;
    orders_for_all(&ledger).await;
    worked_off(&ledger).await;
}

/// Over PostgreSQL members are processes, and what a killed one had goes to the others.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_process_had_is_taken_over() {
    let ledger = Ledger::open(Store::postgres().await).await;
    let binary = env!("CARGO_BIN_EXE_ledger-worker");
    let mut other = Process::spawn(worker(binary, ledger.url(), "other", None));
    let here = member(&ledger, "here").await;
    eventually("both have four partitions", async || {
        (shares(&[&here])[0].len() == 4).then_some(())
    })
    .await;
    orders_for_all(&ledger).await;
    other.kill();
    balanced(&[&here]).await;
    orders_for_all(&ledger).await;
    worked_off(&ledger).await;
}
