//! A member is set up by `db-event-consumer.yml`, with the keys that other systems' files have.

use tidewire_consumer::Settings;
use tidewire_stories::{Keeper, Ledger, Store, eventually, on_both_stores};

on_both_stores!(a_file_pins_a_member_to_a_partition, a_group_reads_what_its_file_names);

async fn a_file_pins_a_member_to_a_partition(store: Store) {
    let ledger = Ledger::open(store).await;
    let text = "groupId: user-query-group\nbatchSize: 100\ntotalPartitions: 8\npartitionId: 0\nwaitPeriodMs: 10000\n";
    let settings = Settings { signals: false, ..Settings::from_yaml(text).expect("settings") };
    let member =
        ledger.member().settings(settings).start(Keeper::default()).await.expect("a member");
    eventually("it works on its partition", async || {
        let partitions: Vec<u32> =
            member.stats().partitions.iter().map(|one| one.partition).collect();
        (partitions == [0]).then_some(())
    })
    .await;
    let group = ledger.groups().group("user-query-group").await.expect("a look").expect("a group");
    assert_eq!((group.total, group.max_attempts), (8, 5));
    let report = group.members[0].report.clone();
    assert_eq!((report.pinned, group.members.len()), (Some(0), 1));
    member.stop().await.expect("it stops");
}

async fn a_group_reads_what_its_file_names(store: Store) {
    let ledger = Ledger::open(store).await;
    ledger.order("h", "u", &["before"]).await;
    let text = "groupId: g\ntables: [orders]\nstart: now\nmaxAttempts: 2\nonDead: skip\n";
    let settings = Settings { signals: false, ..Settings::from_yaml(text).expect("settings") };
    // What was written before is in the log by now, so that "now" is after it.
    eventually("the order is in the log", async || {
        let tip = ledger.groups().log_tip().await.expect("a tip");
        let counted = ledger.events().await;
        (tip.number() > 0 && counted == 1).then_some(())
    })
    .await;
    let member =
        ledger.member().settings(settings).start(Keeper::default()).await.expect("a member");
    ledger.order("h", "u", &["after"]).await;
    eventually("what came after is handled", async || {
        (ledger.story_of("u").await == "after").then_some(())
    })
    .await;
    let group = ledger.groups().group("g").await.expect("a look").expect("a group");
    assert_eq!((group.filter.tables, group.max_attempts), (vec!["orders".to_owned()], 2));
    member.stop().await.expect("it stops");
}
