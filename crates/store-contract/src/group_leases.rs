//! Leases: work on a partition by somebody elsewhere, until a time.

use super::Opener;
use super::group_fixture::{GROUP, GroupFixture, LONG_MS, failure, handled, key, well_done, wish};
use super::test_store::eventually;
use tidewire_store::groups::{
    Acked, Batch, Begun, Claim, Ending, GroupError, GroupSettings, LeaseRef, OnDead, Verdict,
};

impl GroupFixture<'_> {
    /// Leases a partition up to a batch's end.
    async fn leases(&self, member: &str, batch: &Batch, lease_ms: u64) -> LeaseRef {
        let claim = self.claim(0, member).await;
        let generation = self.groups.lease(&claim, batch.next, lease_ms).await.expect("an answer");
        let generation = generation.unwrap_or_else(|| panic!("{claim:?} is not free"));
        LeaseRef { group: GROUP.to_owned(), partition: 0, generation }
    }

    async fn acks(&self, lease: &LeaseRef, ending: &Ending) -> Result<Acked, GroupError> {
        self.groups.ack(lease, ending, Vec::new()).await
    }

    /// Waits until the partition's lease is over.
    async fn lease_ends(&self) {
        let over = || async {
            let left = self.holds(0).await.partition.lease_ms;
            left.is_some_and(|left| left <= 0).then_some(())
        };
        eventually("the lease ends", over).await;
    }
}

/// Who leased a partition is alone with it, and its ack moves it.
pub async fn a_lease_is_acknowledged(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    let tip = fixture.say("h", "u", &["1", "2"]).await;
    let batch = fixture.batch(0).await;
    let claim = fixture.claim(0, "other").await;
    let lease = fixture.leases("worker", &batch, LONG_MS).await;
    assert!(lease.generation > claim.generation);
    let partition = fixture.holds(0).await.partition;
    assert_eq!(
        (partition.member.as_deref(), partition.leased_to),
        (Some("worker"), Some(tip.next()))
    );
    assert!(partition.lease_ms.is_some_and(|left| left > 0));
    assert_eq!((partition.generation, partition.next), (lease.generation, claim.next));
    for claim in [claim, fixture.claim(0, "other").await] {
        assert!(!matches!(fixture.begins(&claim).await, Begun::Work(_)));
        assert_eq!(
            fixture.groups.lease(&claim, batch.next, LONG_MS).await.expect("an answer"),
            None
        );
        assert!(!fixture.groups.skip(&claim, batch.next).await.expect("an answer"));
    }
    let acked = fixture.acks(&lease, &well_done(&batch)).await.expect("it is acknowledged");
    assert_eq!(acked, Acked::Done { next: tip.next(), offset: None });
    let partition = fixture.holds(0).await.partition;
    assert_eq!((partition.next, partition.lease_ms), (tip.next(), None));
    assert!(fixture.next_batch(0).await.is_none());
    fixture.works(&fixture.claim(0, "other").await).await.abandon().await;
}

/// An ack that comes twice is told so, until somebody else was there.
pub async fn a_repeated_ack_changes_nothing(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    fixture.say("h", "u", &["1"]).await;
    let batch = fixture.batch(0).await;
    let lease = fixture.leases("worker", &batch, LONG_MS).await;
    fixture.acks(&lease, &well_done(&batch)).await.expect("it is acknowledged");
    let again = fixture.acks(&lease, &well_done(&batch)).await.expect("it was acknowledged");
    assert_eq!(again, Acked::Before);
    fixture.say("h", "u", &["2"]).await;
    let next = fixture.batch(0).await;
    let second = fixture.leases("worker", &next, LONG_MS).await;
    let late = fixture.acks(&lease, &well_done(&batch)).await;
    assert!(matches!(late, Err(GroupError::Fenced)), "{late:?}");
    fixture.acks(&second, &well_done(&next)).await.expect("it is acknowledged");
}

/// An expired lease goes to the next, and who had it is fenced off.
pub async fn an_expired_lease_goes_to_others(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    fixture.say("h", "u", &["1"]).await;
    let batch = fixture.batch(0).await;
    let slow = fixture.leases("slow", &batch, 1).await;
    fixture.lease_ends().await;
    let quick = fixture.leases("quick", &batch, LONG_MS).await;
    assert!(quick.generation > slow.generation);
    let late = fixture.acks(&slow, &well_done(&batch)).await;
    assert!(matches!(late, Err(GroupError::Fenced)), "{late:?}");
    let late = fixture.groups.extend_lease(&slow, LONG_MS).await;
    assert!(matches!(late, Err(GroupError::Fenced)), "{late:?}");
    let late = fixture.groups.nack(&slow, &[], &Ending::default(), 0).await;
    assert!(matches!(late, Err(GroupError::Fenced)), "{late:?}");
    fixture.acks(&quick, &well_done(&batch)).await.expect("it is acknowledged");
}

/// A group that is made again under its old name has nothing to do with leases of the one before.
pub async fn a_lease_ends_with_its_group(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    fixture.say("h", "u", &["1"]).await;
    let batch = fixture.batch(0).await;
    let old = fixture.leases("worker", &batch, LONG_MS).await;
    assert!(fixture.groups.remove_group(GROUP).await.expect("it is removed"));
    // The clock that tells them apart must have moved on.
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    fixture.makes(GROUP, &wish(1)).await;
    let new = fixture.leases("other", &batch, LONG_MS).await;
    let late = fixture.acks(&old, &well_done(&batch)).await;
    assert!(matches!(late, Err(GroupError::Fenced)), "{late:?}");
    fixture.acks(&new, &well_done(&batch)).await.expect("it is acknowledged");
}

/// Past its deadline an ack is taken for as long as nobody else was there.
pub async fn a_late_ack_is_taken(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    fixture.say("h", "u", &["1"]).await;
    let batch = fixture.batch(0).await;
    let lease = fixture.leases("worker", &batch, 1).await;
    fixture.lease_ends().await;
    let acked = fixture.acks(&lease, &well_done(&batch)).await.expect("it is acknowledged");
    assert_eq!(acked, Acked::Done { next: batch.next, offset: None });
}

/// Work in a transaction over an expired lease fences it off, and only if it is committed.
pub async fn work_over_an_expired_lease_fences_it(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    fixture.say("h", "u", &["1"]).await;
    fixture.say("h", "u", &["2"]).await;
    let batch = fixture.batch(0).await;
    let lease = fixture.leases("slow", &batch, 1).await;
    fixture.lease_ends().await;
    fixture.works(&fixture.claim(0, "library").await).await.abandon().await;
    fixture.groups.extend_lease(&lease, 1).await.expect("nobody was there");
    fixture.lease_ends().await;
    let first = handled(&batch)[0].position;
    fixture.ends(0, &Ending { next: first.next(), ..Ending::default() }).await;
    let late = fixture.acks(&lease, &well_done(&batch)).await;
    assert!(matches!(late, Err(GroupError::Fenced)), "{late:?}");
    assert_eq!(fixture.holds(0).await.partition.next, first.next());
}

/// A lease can be made to end later, while it is one.
pub async fn a_lease_is_extended(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    fixture.say("h", "u", &["1"]).await;
    let batch = fixture.batch(0).await;
    let lease = fixture.leases("worker", &batch, 1).await;
    fixture.groups.extend_lease(&lease, LONG_MS).await.expect("it is extended");
    let left = fixture.holds(0).await.partition.lease_ms.expect("a lease");
    let long = i64::try_from(LONG_MS).expect("a time");
    assert!(left > long / 2 && left <= long, "{left}");
    assert!(matches!(fixture.begins(&fixture.claim(0, "other").await).await, Begun::Taken));
    fixture.acks(&lease, &well_done(&batch)).await.expect("it is acknowledged");
    let ended = fixture.groups.extend_lease(&lease, LONG_MS).await;
    assert!(matches!(ended, Err(GroupError::Fenced)), "{ended:?}");
}

/// What is given back is free at once, and nothing is counted.
pub async fn a_lease_is_given_back(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    fixture.say("h", "u", &["1"]).await;
    let batch = fixture.batch(0).await;
    let lease = fixture.leases("worker", &batch, LONG_MS).await;
    fixture.groups.nack(&lease, &[], &Ending::default(), 0).await.expect("it is given back");
    let late = fixture.acks(&lease, &well_done(&batch)).await;
    assert!(matches!(late, Err(GroupError::Fenced)), "{late:?}");
    let holdings = fixture.holds(0).await;
    assert!(holdings.attempts.is_empty() && holdings.partition.lease_ms.is_none());
    assert_eq!(holdings.partition.next, batch.from);
    let next = fixture.leases("other", &batch, LONG_MS).await;
    assert!(next.generation > lease.generation);
}

/// Failures of a leased batch are counted, and it waits.
pub async fn a_nack_counts_failures(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    fixture.say("h", "u", &["1"]).await;
    let batch = fixture.batch(0).await;
    let failures = [failure(&handled(&batch)[0], "no")];
    let lease = fixture.leases("worker", &batch, LONG_MS).await;
    fixture.groups.nack(&lease, &failures, &Ending::default(), 0).await.expect("it is given back");
    let lease = fixture.leases("worker", &batch, LONG_MS).await;
    fixture
        .groups
        .nack(&lease, &failures, &Ending::default(), LONG_MS)
        .await
        .expect("it is given back");
    let holdings = fixture.holds(0).await;
    assert_eq!(holdings.attempts, [(key("h", "u"), (2, Verdict::Retry))].into());
    assert!(holdings.partition.retry_in_ms.is_some() && holdings.partition.lease_ms.is_none());
    assert!(matches!(fixture.begins(&fixture.claim(0, "other").await).await, Begun::Taken));
}

/// What a nack declares dead is set aside from there on, and the rest is handed out again.
pub async fn a_nack_sets_dead_events_aside(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    let first = fixture.say("h", "u", &["1"]).await;
    let poison = fixture.say("h", "u", &["2"]).await;
    let behind = fixture.say("h", "u", &["3"]).await;
    let fine = fixture.say("h", "v", &["4"]).await;
    let batch = fixture.batch(0).await;
    let events = handled(&batch);
    let lease = fixture.leases("worker", &batch, LONG_MS).await;
    fixture
        .groups
        .nack(&lease, &[failure(&events[1], "no")], &Ending::default(), 0)
        .await
        .expect("it is given back");
    let lease = fixture.leases("worker", &batch, LONG_MS).await;
    fixture.buries(&lease, &batch, &events[1]).await;
    let holdings = fixture.holds(0).await;
    assert_eq!(holdings.parked, [(key("h", "u"), poison)].into());
    assert!(holdings.attempts.is_empty(), "they are forgotten");
    assert_eq!((holdings.partition.next, holdings.partition.parked), (batch.from, 1));
    assert_eq!(fixture.letters().await, [(poison, "dead")]);
    let again = fixture.batch(0).await;
    let handed: Vec<_> = handled(&again).iter().map(|event| event.position).collect();
    assert_eq!(handed, [first, fine], "what came before it is handed out again, and only that");
    let lease = fixture.leases("worker", &again, LONG_MS).await;
    fixture.acks(&lease, &well_done(&again)).await.expect("it is acknowledged");
    assert_eq!(fixture.letters().await, [(poison, "dead"), (behind, "parked")]);
    assert_eq!(fixture.view().await.dead, 1);
    let repeated = fixture.acks(&lease, &well_done(&again)).await.expect("it was acknowledged");
    assert_eq!(repeated, Acked::Before);
}

/// Where nothing is parked, a nack sets dead events aside alone.
pub async fn a_nack_parks_nothing_where_dead_events_are_skipped(data: &dyn Opener) {
    let fixture = GroupFixture::open(data).await;
    fixture.makes(GROUP, &GroupSettings { on_dead: Some(OnDead::Skip), ..wish(1) }).await;
    let poison = fixture.say("h", "u", &["1"]).await;
    let batch = fixture.batch(0).await;
    let lease = fixture.leases("worker", &batch, LONG_MS).await;
    fixture.buries(&lease, &batch, &handled(&batch)[0]).await;
    assert!(fixture.holds(0).await.parked.is_empty());
    assert_eq!(fixture.letters().await, [(poison, "dead")]);
}

/// Of those who want a lease at once, one gets it.
pub async fn one_of_racing_workers_gets_the_lease(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    fixture.say("h", "u", &["1"]).await;
    let batch = fixture.batch(0).await;
    let claim = fixture.claim(0, "a").await;
    let ask = |name: &str| {
        let claim = Claim { member: name.to_owned(), ..claim.clone() };
        let (fixture, batch) = (&fixture, &batch);
        async move { fixture.groups.lease(&claim, batch.next, LONG_MS).await.expect("an answer") }
    };
    let asked = futures_util::future::join_all(["a", "b", "c", "d"].map(ask)).await;
    assert_eq!(asked.iter().flatten().count(), 1, "{asked:?}");
}

/// Letters that are worked off elsewhere are gone with the ack.
pub async fn letters_are_worked_off_by_lease(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    fixture.say("h", "u", &["1"]).await;
    let batch = fixture.batch(0).await;
    let lease = fixture.leases("worker", &batch, LONG_MS).await;
    fixture.buries(&lease, &batch, &handled(&batch)[0]).await;
    fixture.ends(0, &well_done(&fixture.batch(0).await)).await;
    fixture
        .groups
        .redrive(GROUP, &tidewire_store::groups::LetterSelection::All)
        .await
        .expect("they are marked");
    let due = fixture.groups.letters_due(GROUP, 0, super::test_store::EVERYTHING).await;
    let due = due.expect("letters can be read").expect("letters are due");
    let next = fixture.holds(0).await.partition.next;
    assert_eq!((due.from, due.next), (next, next), "progress is as it was");
    let lease = fixture.leases("worker", &due, LONG_MS).await;
    let redriven = handled(&due).iter().map(|event| event.position).collect();
    let ending = Ending { next, redriven, free: due.redrive.clone(), ..Ending::default() };
    fixture.acks(&lease, &ending).await.expect("it is acknowledged");
    let holdings = fixture.holds(0).await;
    assert!(fixture.letters().await.is_empty() && holdings.parked.is_empty());
    assert_eq!((holdings.partition.next, holdings.partition.redrive), (next, false));
}
