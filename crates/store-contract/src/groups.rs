//! Groups: made, changed, set to another place, removed.

use super::Opener;
use super::group_fixture::{
    GROUP, GroupFixture, LONG_MS, failure, handled, letter, well_done, wish,
};
use super::test_store::TestStore;
use tidewire_store::groups::{
    Begun, Ending, Filter, GroupChange, GroupError, GroupSettings, LeaseRef, MemberKind,
    MemberReport, OnDead, Start,
};
use tidewire_store::offset::{Epoch, Position};

const NO_CHANGE: GroupChange = GroupChange {
    partitions: None,
    filter: None,
    max_attempts: None,
    on_dead: None,
    paused: None,
    accept_loss: false,
    clear_trouble: false,
};

fn reads(tables: &[&str], streams: &[&str]) -> Filter {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Filter { tables: owned(tables), streams: owned(streams) }
}

/// A group is there after it was made, and making it again changes nothing.
pub async fn a_group_is_made_once(data: &dyn Opener) {
    let fixture = GroupFixture::open(data).await;
    let usual = GroupSettings { partitions: None, ..wish(1) };
    let view = fixture.makes("usual", &usual).await;
    assert_eq!((view.total, view.max_attempts, view.on_dead), (8, 5, OnDead::Park));
    assert!(view.filter.is_all() && view.stopped.is_none() && view.wanted.is_none());
    let numbers: Vec<u32> = view.partitions.iter().map(|partition| partition.partition).collect();
    assert_eq!(numbers, (0..8).collect::<Vec<u32>>());
    assert!(view.partitions.iter().all(|partition| partition.next.number() == 1));
    let filter = Some(reads(&["orders"], &["chat/*"]));
    let special = GroupSettings {
        filter: filter.clone(),
        max_attempts: Some(2),
        on_dead: Some(OnDead::Skip),
        ..wish(3)
    };
    let view = fixture.makes("a special group", &special).await;
    assert_eq!((view.total, view.max_attempts, view.on_dead), (3, 2, OnDead::Skip));
    assert_eq!(Some(&view.filter), filter.as_ref());
    for again in [special, GroupSettings { start: Start::Now, ..usual }] {
        let (view, made) =
            fixture.groups.put_group("a special group", &again).await.expect("the same");
        assert!(!made && view.total == 3 && Some(&view.filter) == filter.as_ref());
        assert_eq!(view.partitions[0].next.number(), 1, "where it begins was said once");
    }
    let names: Vec<String> =
        fixture.groups.list_groups().await.expect("groups").into_iter().map(|g| g.group).collect();
    assert_eq!(names, ["a special group", "usual"]);
    assert!(fixture.groups.group("other").await.expect("no group").is_none());
}

/// A wish that differs from the group is told so, and what to do.
pub async fn a_group_that_is_otherwise_is_told(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 2).await;
    let filter = Some(reads(&["orders"], &[]));
    for other in [wish(3), GroupSettings { filter, ..wish(2) }] {
        match fixture.groups.put_group(GROUP, &other).await {
            Err(GroupError::Differs(text)) => assert!(text.contains("groups change"), "{text}"),
            outcome => panic!("{other:?} gave {outcome:?}"),
        }
    }
    assert_eq!(fixture.view().await.total, 2);
}

/// What cannot be a group is refused.
pub async fn what_cannot_be_a_group_is_refused(data: &dyn Opener) {
    let fixture = GroupFixture::open(data).await;
    let long = "x".repeat(256);
    for name in ["", "a/b", "a\nb", long.as_str()] {
        let outcome = fixture.groups.put_group(name, &wish(1)).await;
        assert!(matches!(outcome, Err(GroupError::Invalid(_))), "{name:?} gave {outcome:?}");
    }
    for wrong in [
        wish(0),
        wish(1_025),
        GroupSettings { max_attempts: Some(0), ..wish(1) },
        GroupSettings { filter: Some(reads(&[], &["table/orders"])), ..wish(1) },
    ] {
        let outcome = fixture.groups.put_group(GROUP, &wrong).await;
        assert!(matches!(outcome, Err(GroupError::Invalid(_))), "{wrong:?} gave {outcome:?}");
    }
    assert!(fixture.groups.list_groups().await.expect("groups").is_empty());
    fixture.makes(&"x".repeat(255), &wish(1_024)).await;
}

/// There may be a hundred groups.
pub async fn groups_are_limited(data: &dyn Opener) {
    let fixture = GroupFixture::open(data).await;
    for number in 0..100 {
        fixture.makes(&number.to_string(), &wish(1)).await;
    }
    let outcome = fixture.groups.put_group("one more", &wish(1)).await;
    assert!(
        matches!(outcome, Err(GroupError::TooMany { limit: "groups_max", max: 100 })),
        "{outcome:?}"
    );
    let again = fixture.groups.put_group("7", &wish(1)).await;
    assert!(matches!(again, Ok((_, false))), "{again:?}");
}

/// A group begins with the log, at its end, after an event, or at a time.
pub async fn a_group_begins_where_it_is_told(data: &dyn Opener) {
    let fixture = GroupFixture::open(data).await;
    let hour = 1_700_000_000;
    data.run_sql(&format!("UPDATE tidewire.log SET created_at = to_timestamp({hour})")).await;
    for hours in [1, 2, 3] {
        fixture.row("h", hours, true, hour + u64::try_from(hours).expect("few") * 3_600).await;
    }
    let tip = fixture.say("h", "u", &["1"]).await.number();
    let first = tip - 3;
    let epoch = fixture.groups.log_epoch();
    let ms = |seconds: u64| i64::try_from(seconds * 1_000).expect("a time");
    for (start, next) in [
        (Start::Beginning, 1),
        (Start::Now, tip + 1),
        (Start::After(Position::new(first).in_epoch(epoch)), first + 1),
        (Start::After(Position::START.in_epoch(epoch)), 1),
        (Start::After(Position::new(tip).in_epoch(epoch)), tip + 1),
        (Start::Time(ms(hour + 7_200)), first + 1),
        (Start::Time(ms(hour + 7_200) + 1), first + 2),
        (Start::Time(i64::MAX), tip + 1),
    ] {
        let place = fixture.groups.place_at(start).await.expect("a place");
        assert_eq!(place.number(), next, "{start:?}");
    }
    let other = Epoch::new(epoch.number() + 1).expect("an epoch");
    for start in [
        Start::After(Position::new(tip + 1).in_epoch(epoch)),
        Start::After(Position::new(first).in_epoch(other)),
    ] {
        let outcome = fixture.groups.put_group(GROUP, &GroupSettings { start, ..wish(1) }).await;
        assert!(matches!(outcome, Err(GroupError::Invalid(_))), "{start:?} gave {outcome:?}");
    }
    let view = fixture.makes(GROUP, &GroupSettings { start: Start::Now, ..wish(2) }).await;
    assert!(view.partitions.iter().all(|partition| partition.next.number() == tip + 1));
}

/// Rows that SQL made before there was a group are its progress, if they are its partitions.
pub async fn rows_from_before_a_group_are_taken_over(data: &dyn Opener) {
    let fixture = GroupFixture::open(data).await;
    data.run_sql(
        "INSERT INTO tidewire.consumer_offsets (group_id, topic_id, partition_id, next_offset)
         VALUES ('g', 1, 0, 5), ('g', 1, 1, 7)",
    )
    .await;
    for other in [wish(1), wish(3)] {
        let outcome = fixture.groups.put_group(GROUP, &other).await;
        assert!(matches!(outcome, Err(GroupError::Differs(_))), "{other:?} gave {outcome:?}");
    }
    let view = fixture.makes(GROUP, &wish(2)).await;
    let nexts: Vec<u64> = view.partitions.iter().map(|row| row.next.number()).collect();
    assert_eq!(nexts, [5, 7]);
    // They began with zero, as leases of a group that is gone may have.
    assert!(view.partitions.iter().all(|row| row.generation > 1_700_000_000_000), "{view:?}");
}

/// A change of what a group reads or does is known to whoever remembers something of it.
pub async fn a_group_is_changed(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 2).await;
    let filter = Some(reads(&["t"], &[]));
    let before = fixture.holds(1).await.partition.generation;
    let change = GroupChange { filter: filter.clone(), ..NO_CHANGE };
    let view = fixture.groups.change_group(GROUP, &change).await.expect("a change");
    assert_eq!(Some(&view.filter), filter.as_ref());
    assert!(view.partitions.iter().all(|partition| partition.generation > before));
    let change = GroupChange { max_attempts: Some(9), on_dead: Some(OnDead::Skip), ..NO_CHANGE };
    let view = fixture.groups.change_group(GROUP, &change).await.expect("a change");
    assert_eq!((view.max_attempts, view.on_dead), (9, OnDead::Skip));
    assert_eq!(Some(&view.filter), filter.as_ref(), "the rest is as it was");
    let outcome = fixture.groups.change_group("other", &NO_CHANGE).await;
    assert!(matches!(outcome, Err(GroupError::NotFound)), "{outcome:?}");
    let wrong = GroupChange { max_attempts: Some(0), ..NO_CHANGE };
    let outcome = fixture.groups.change_group(GROUP, &wrong).await;
    assert!(matches!(outcome, Err(GroupError::Invalid(_))), "{outcome:?}");
}

/// A paused group hands nothing out until it goes on.
pub async fn a_paused_group_hands_nothing_out(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    let tip = fixture.say("h", "u", &["1"]).await;
    let pause = |paused| GroupChange { paused: Some(paused), ..NO_CHANGE };
    let view = fixture.groups.change_group(GROUP, &pause(true)).await.expect("a pause");
    assert_eq!(view.stopped.as_deref(), Some("paused"));
    let claim = fixture.claim(0, "m").await;
    assert!(matches!(fixture.begins(&claim).await, Begun::Taken));
    let leased = fixture.groups.lease(&claim, tip.next(), LONG_MS).await.expect("an answer");
    assert_eq!(leased, None);
    let view = fixture.groups.change_group(GROUP, &pause(false)).await.expect("it goes on");
    assert_eq!(view.stopped, None);
    fixture.works(&fixture.claim(0, "m").await).await.abandon().await;
}

/// After a reset nobody goes on from where they were, by claim or by lease.
pub async fn a_reset_fences_who_was_there(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 2).await;
    let tip = fixture.say("h", "u", &["1", "2"]).await;
    let (claim, other) = (fixture.claim(0, "m").await, fixture.claim(1, "m").await);
    let leased = fixture.groups.lease(&claim, tip.next(), LONG_MS).await.expect("a lease");
    let lease =
        LeaseRef { group: GROUP.to_owned(), partition: 0, generation: leased.expect("it is free") };
    let view =
        fixture.groups.reset_group(GROUP, Start::Now, Some(0), false).await.expect("a reset");
    assert_eq!((view.partitions[0].next, view.partitions[1].next.number()), (tip.next(), 1));
    assert_eq!(view.partitions[0].lease_ms, None);
    let ending = Ending { next: tip.next(), ..Ending::default() };
    let acked = fixture.groups.ack(&lease, &ending, Vec::new()).await;
    assert!(matches!(acked, Err(GroupError::Fenced)), "{acked:?}");
    let view =
        fixture.groups.reset_group(GROUP, Start::Beginning, None, false).await.expect("a reset");
    assert!(view.partitions.iter().all(|partition| partition.next.number() == 1));
    assert!(
        matches!(fixture.begins(&other).await, Begun::Moved),
        "though it stands where it stood"
    );
    fixture.works(&fixture.claim(1, "m").await).await.abandon().await;
    for (name, partition) in [(GROUP, Some(2)), ("other", None)] {
        let outcome = fixture.groups.reset_group(name, Start::Now, partition, false).await;
        assert!(matches!(outcome, Err(GroupError::NotFound)), "{outcome:?}");
    }
}

/// A reset forgets failed attempts, and letters if that is asked for.
pub async fn a_reset_forgets_failures(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    fixture.say("h", "u", &["1"]).await;
    fixture.say("h", "v", &["2"]).await;
    let batch = fixture.batch(0).await;
    let events = handled(&batch);
    let parked_from = vec![(events[0].key(), events[0].position)];
    let dead = vec![letter(&events[0], "poison")];
    fixture.ends(0, &Ending { dead, parked_from, ..well_done(&batch) }).await;
    let claim = fixture.claim(0, "m").await;
    let failures = [failure(&events[1], "no")];
    fixture.groups.note_failures(&claim, &failures, LONG_MS).await.expect("it is noted");
    fixture.groups.reset_group(GROUP, Start::Beginning, None, false).await.expect("a reset");
    let holdings = fixture.holds(0).await;
    assert!(holdings.attempts.is_empty());
    assert_eq!((holdings.partition.retry_in_ms, holdings.partition.failing), (None, 0));
    assert_eq!((holdings.parked.len(), fixture.letters().await.len()), (1, 1), "these stay");
    fixture.groups.reset_group(GROUP, Start::Beginning, None, true).await.expect("a reset");
    let holdings = fixture.holds(0).await;
    assert_eq!((holdings.parked.len(), holdings.partition.parked), (0, 0));
    assert!(fixture.letters().await.is_empty());
}

/// A removed group leaves nothing, and its name can be used again.
pub async fn a_removed_group_leaves_nothing(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 2).await;
    fixture.makes("other", &wish(1)).await;
    fixture.say("", "", &["1"]).await;
    let partition = tidewire_store::groups::partition_of("", 2.try_into().expect("two"));
    let batch = fixture.batch(partition).await;
    let event = &handled(&batch)[0];
    let parked_from = vec![(event.key(), event.position)];
    let dead = vec![letter(event, "poison")];
    fixture.ends(partition, &Ending { dead, parked_from, ..well_done(&batch) }).await;
    let claim = fixture.claim(partition, "m").await;
    let noted = fixture.groups.note_failures(&claim, &[failure(event, "no")], 0).await;
    noted.expect("it is noted");
    let report = MemberReport {
        group: GROUP.to_owned(),
        member: "m".to_owned(),
        kind: MemberKind::Http,
        pinned: None,
        counts: serde_json::value::RawValue::from_string("{}".to_owned()).expect("JSON"),
    };
    fixture.groups.renew_member(&report, LONG_MS).await.expect("it joins");
    assert!(fixture.groups.remove_group(GROUP).await.expect("it is removed"));
    assert!(!fixture.groups.remove_group(GROUP).await.expect("it is gone"));
    for table in ["groups", "offsets", "members", "attempts", "parked_keys", "dead_letters"] {
        let sql = format!("SELECT count(*) FROM tidewire.consumer_{table} WHERE group_id = 'g'");
        assert_eq!(data.run_sql(&sql).await, ["0"], "{table}");
    }
    assert!(matches!(fixture.groups.holdings(GROUP, 0).await, Err(GroupError::NotFound)));
    assert!(fixture.groups.group("other").await.expect("a group").is_some());
    fixture.makes(GROUP, &wish(5)).await;
}

/// Progress is there after a restart.
pub async fn groups_survive_a_restart(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    fixture.say("h", "u", &["1"]).await;
    let batch = fixture.batch(0).await;
    fixture.ends(0, &well_done(&batch)).await;
    let store: TestStore = fixture.store.clone();
    drop(fixture);
    let store = store.reopen(data).await;
    let view =
        store.groups().group(GROUP).await.expect("a group can be read").expect("it is there");
    assert_eq!(view.partitions[0].next, batch.next);
}
