//! Changes of a group's number of partitions.

use super::Opener;
use super::group_fixture::{
    GROUP, GroupFixture, LETTERS, LONG_MS, failure, handled, host_in, letter, well_done, wish,
};
use tidewire_store::groups::{
    Begun, Ending, GroupChange, GroupError, GroupView, LeaseRef, Start, partition_of,
};
use tidewire_store::offset::Position;

impl GroupFixture<'_> {
    async fn wants_partitions(&self, total: u32) -> Result<GroupView, GroupError> {
        let change = GroupChange { partitions: Some(total), ..GroupChange::default() };
        self.groups.change_group(GROUP, &change).await
    }

    async fn finishes_change(&self) -> bool {
        self.groups.finish_change(GROUP).await.expect("an answer")
    }
}

/// Nothing at or past the barrier is handed out until all stand there, and then there are as many as
/// were wanted.
pub async fn partitions_are_changed_at_a_barrier(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 2).await;
    let hosts = [host_in(0, 2), host_in(1, 2)];
    fixture.say(&hosts[0], "u", &["1"]).await;
    let barrier = fixture.say(&hosts[1], "u", &["2"]).await.next();
    fixture.ends(1, &well_done(&fixture.batch(1).await)).await;
    let behind = fixture.claim(0, "m").await;
    let view = fixture.wants_partitions(3).await.expect("it is begun");
    assert_eq!((view.total, view.wanted, view.barrier), (2, Some(3), Some(barrier)));
    assert!(matches!(fixture.begins(&behind).await, Begun::Moved), "who does not know the barrier");
    let later = fixture.say(&hosts[0], "u", &["3"]).await;
    assert!(!fixture.finishes_change().await);
    assert!(matches!(fixture.wants_partitions(4).await, Err(GroupError::Changing)));
    let batch = fixture.batch(0).await;
    assert_eq!((handled(&batch).len(), batch.next), (1, barrier));
    fixture.ends(0, &well_done(&batch)).await;
    assert!(fixture.next_batch(1).await.is_none());
    let generation = fixture.view().await.partitions[0].generation;
    assert!(fixture.finishes_change().await);
    assert!(!fixture.finishes_change().await, "it is done");
    let view = fixture.view().await;
    assert_eq!((view.total, view.wanted, view.barrier), (3, None, None));
    let nexts: Vec<Position> = view.partitions.iter().map(|partition| partition.next).collect();
    assert_eq!(nexts, [barrier; 3]);
    assert!(view.partitions[0].generation > generation);
    let partition = partition_of(&hosts[0], 3.try_into().expect("three"));
    let batch = fixture.batch(partition).await;
    assert_eq!(handled(&batch)[0].position, later);
    let outcome = fixture.groups.put_group(GROUP, &wish(2)).await;
    assert!(matches!(outcome, Err(GroupError::Differs(_))), "{outcome:?}");
}

/// Parked keys, letters and failed attempts go to the partition that has their host.
pub async fn what_is_known_of_keys_goes_along(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    let hosts: Vec<String> = (0..6).map(|number| format!("host-{number}")).collect();
    for host in &hosts {
        fixture.say(host, "u", &["1"]).await;
    }
    let batch = fixture.batch(0).await;
    let events = handled(&batch);
    let dead = events[..4].iter().map(|event| letter(event, "poison")).collect();
    let parked_from = events[..4].iter().map(|event| (event.key(), event.position)).collect();
    fixture.ends(0, &Ending { dead, parked_from, ..well_done(&batch) }).await;
    let failures: Vec<_> = events[4..].iter().map(|event| failure(event, "no")).collect();
    let claim = fixture.claim(0, "m").await;
    fixture.groups.note_failures(&claim, &failures, 0).await.expect("they are noted");
    for total in [7, 1_024, 1, 4] {
        let counted = fixture.view().await.total;
        fixture.wants_partitions(total).await.expect("it is begun");
        assert!(fixture.finishes_change().await, "all {counted} stand at the same place");
        let of = |host: &str| partition_of(host, total.try_into().expect("partitions"));
        for event in &events[..4] {
            let partition = of(&event.key().host);
            let parked = fixture.holds(partition).await.parked;
            assert_eq!(parked.get(&event.key()), Some(&event.position), "{total}");
        }
        for event in &events[4..] {
            let attempts = fixture.attempts(of(&event.key().host)).await;
            assert!(attempts.contains_key(&event.key()), "{total}");
        }
        let letters = fixture
            .groups
            .letters(GROUP, Position::START, LETTERS, None)
            .await
            .expect("letters")
            .letters;
        for view in &letters {
            assert_eq!(view.partition, of(&view.letter.event.key().host), "{total}");
        }
        let view = fixture.view().await;
        let counted = view.partitions.iter().map(|row| (row.parked, row.failing));
        let counted = counted.fold((0, 0), |all, row| (all.0 + row.0, all.1 + row.1));
        assert_eq!((counted, letters.len(), view.dead), ((4, 2), 4, 4), "{total}");
    }
}

/// A lease from before a change is lost.
pub async fn a_change_fences_leases(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    fixture.say("h", "u", &["1"]).await;
    let batch = fixture.batch(0).await;
    let claim = fixture.claim(0, "worker").await;
    let leased = fixture.groups.lease(&claim, batch.next, LONG_MS).await.expect("an answer");
    let generation = leased.expect("it is free");
    let lease = LeaseRef { group: GROUP.to_owned(), partition: 0, generation };
    fixture.wants_partitions(2).await.expect("it is begun");
    let late = fixture.groups.ack(&lease, &well_done(&batch), Vec::new()).await;
    assert!(matches!(late, Err(GroupError::Fenced)), "{late:?}");
    assert!(fixture.finishes_change().await);
    let late = fixture.groups.ack(&lease, &well_done(&batch), Vec::new()).await;
    assert!(matches!(late, Err(GroupError::Fenced)), "{late:?}");
}

/// What is no change, or cannot be one, begins nothing.
pub async fn a_change_to_the_same_number_is_none(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 2).await;
    let view = fixture.wants_partitions(2).await.expect("nothing to do");
    assert_eq!((view.wanted, view.barrier), (None, None));
    assert!(!fixture.finishes_change().await);
    for wrong in [0, 1_025] {
        let outcome = fixture.wants_partitions(wrong).await;
        assert!(matches!(outcome, Err(GroupError::Invalid(_))), "{wrong} gave {outcome:?}");
    }
    let outcome = fixture.groups.finish_change("other").await;
    assert!(matches!(outcome, Ok(false) | Err(GroupError::NotFound)), "{outcome:?}");
    fixture.wants_partitions(3).await.expect("it is begun");
    let outcome = fixture.groups.reset_group(GROUP, Start::Now, None, false).await;
    assert!(matches!(outcome, Err(GroupError::Changing)), "{outcome:?}");
}
