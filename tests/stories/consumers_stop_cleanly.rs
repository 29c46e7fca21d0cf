//! A worker is told to stop: it finishes what it has in hand, leaves the group, and ends well.

use tidewire_stories::ledger::worker;
use tidewire_stories::postgres::Sql;
use tidewire_stories::{Keeper, Ledger, Process, Store, eventually, on_both_stores};

on_both_stores!(a_member_that_is_stopped_leaves_the_group);

async fn a_member_that_is_stopped_leaves_the_group(store: Store) {
    let ledger = Ledger::open(store).await;
    let member = ledger.member().partitions(4).start(Keeper::default()).await.expect("a member");
    ledger.order("h", "u", &["a"]).await;
    eventually("it works", async || (member.stats().events == 1).then_some(())).await;
    let stats = member.stop().await.expect("it stops");
    assert_eq!((stats.events, stats.batches), (1, 1), "{stats:?}");
    let group = ledger.groups().group("g").await.expect("a look").expect("a group");
    assert!(group.members.is_empty(), "{:?}", group.members);
    ledger.holds().await;
}

/// SIGTERM while there is work: nothing in hand is lost or done twice, and nobody waits for a lease to end.
#[tokio::test(flavor = "multi_thread")]
async fn sigterm_ends_a_process_after_the_batches_in_hand() {
    let ledger = Ledger::open(Store::postgres().await).await;
    let binary = env!("CARGO_BIN_EXE_ledger-worker");
    for round in 0..5 {
        let process = Process::spawn(worker(binary, ledger.url(), "w", None));
        for host in 0..20 {
            ledger.order(&format!("h{host}"), "u", &["a", "b", "c"]).await;
        }
        // Before it has joined there is nothing in hand, and signals end it as they end anything.
        eventually("it has joined", async || {
            let group = ledger.groups().group("g").await.expect("a look")?;
            (!group.members.is_empty()).then_some(())
        })
        .await;
        process.signal(if round % 2 == 0 { "TERM" } else { "INT" });
        let ended = process.ended().await;
        assert_eq!(ended.code, Some(0), "{}", ended.said);
        assert!(ended.said.contains("stopped after"), "{}", ended.said);
        let group = ledger.groups().group("g").await.expect("a look").expect("a group");
        assert!(group.members.is_empty(), "{:?}", group.members);
    }
    let _last = Process::spawn(worker(binary, ledger.url(), "w", None));
    eventually("all is worked off", async || {
        (ledger.number("SELECT count(*) FROM ledger").await == 5 * 60).then_some(())
    })
    .await;
    ledger.holds().await;
}

/// A second signal while a handler hangs: nothing of the batch in hand stays, and whoever comes next has it.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_rolls_back_the_batches_in_hand() {
    let ledger = Ledger::open(Store::postgres().await).await;
    let binary = env!("CARGO_BIN_EXE_ledger-worker");
    let holder = Sql::connect(ledger.url()).await.expect("a connection");
    holder.batch_execute("BEGIN; LOCK TABLE ledger").await.expect("a lock");
    let process = Process::spawn(worker(binary, ledger.url(), "w", None));
    ledger.order("h", "u", &["a", "b", "c"]).await;
    eventually("the handler hangs", async || {
        let waiting =
            "SELECT count(*) FROM pg_locks WHERE relation = 'ledger'::regclass AND NOT granted";
        (holder.number(waiting).await > 0).then_some(())
    })
    .await;
    // Of different kinds, because one that comes while the same is not yet heeded is lost.
    process.signal("TERM");
    process.signal("INT");
    let ended = process.ended().await;
    assert_eq!(ended.code, Some(0), "{}", ended.said);
    assert!(ended.said.contains("stopped after 0 events"), "{}", ended.said);
    let group = ledger.groups().group("g").await.expect("a look").expect("a group");
    assert!(group.members.is_empty(), "{:?}", group.members);
    holder.batch_execute("COMMIT").await.expect("the lock is given back");
    let _next = Process::spawn(worker(binary, ledger.url(), "w", None));
    eventually("all is worked off", async || {
        (ledger.number("SELECT count(*) FROM ledger").await == 3).then_some(())
    })
    .await;
    ledger.holds().await;
}
