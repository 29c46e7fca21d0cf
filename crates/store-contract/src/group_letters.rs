//! Events that were set aside: those that could not be handled, and those behind them.

use std::sync::Arc;

use super::Opener;
use super::group_fixture::{
    GROUP, GroupFixture, LETTERS, LONG_MS, STREAM, handled, key, letter, well_done, wish,
};
use super::test_store::EVERYTHING;
use tidewire_store::groups::{
    Batch, Begun, DEAD_LETTERS_MAX, Ending, GroupChange, GroupError, GroupEvent, GroupSettings,
    LeaseRef, LetterSelection, LetterState, OnDead, Start,
};
use tidewire_store::log::PageLimit;
use tidewire_store::offset::Position;

impl GroupFixture<'_> {
    /// Handles a batch but for its first event, which is dead and whose key is parked.
    async fn poisoned(&self) -> Arc<GroupEvent> {
        let batch = self.batch(0).await;
        let event = Arc::clone(&handled(&batch)[0]);
        let mut park: Vec<_> = handled(&batch)
            .into_iter()
            .skip(1)
            .filter(|other| other.key() == event.key())
            .collect();
        park.extend(batch.park.iter().cloned());
        let parked_from = vec![(event.key(), event.position)];
        let dead = vec![letter(&event, "poison")];
        self.ends(0, &Ending { dead, park, parked_from, ..well_done(&batch) }).await;
        event
    }

    async fn due(&self, limit: PageLimit) -> Option<Batch> {
        self.groups.letters_due(GROUP, 0, limit).await.expect("letters can be read")
    }

    /// Works off letters that are due.
    async fn works_off(&self, batch: &Batch) {
        let next = self.holds(0).await.partition.next;
        let redriven = handled(batch).iter().map(|event| event.position).collect();
        let free = batch.redrive.clone();
        self.ends(0, &Ending { next, redriven, free, ..Ending::default() }).await;
    }

    async fn redrives(&self, which: &LetterSelection) -> u64 {
        self.groups.redrive(GROUP, which).await.expect("they are marked")
    }

    /// What the partition's row and the group tell of letters: keys parked, redrive, dead, parked.
    async fn told(&self) -> (u32, bool, u64, u64) {
        let view = self.view().await;
        let partition = &view.partitions[0];
        (partition.parked, partition.redrive, view.dead, view.parked)
    }
}

fn positions(batch: &Batch) -> Vec<Position> {
    handled(batch).iter().map(|event| event.position).collect()
}

/// An event that cannot be handled is a letter, its key is parked, and the rest goes on.
pub async fn a_dead_letter_parks_its_key(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    let first = fixture.say("h", "u", &["1"]).await;
    let second = fixture.say("h", "v", &["2"]).await;
    let behind = fixture.say("h", "u", &["3"]).await;
    let before = fixture.claim(0, "m").await;
    fixture.poisoned().await;
    assert_eq!(fixture.letters().await, [(first, "dead"), (behind, "parked")]);
    let holdings = fixture.holds(0).await;
    assert_eq!(holdings.parked, [(key("h", "u"), first)].into());
    assert!(holdings.partition.generation > before.generation, "what is parked has changed");
    assert_eq!(fixture.told().await, (1, false, 1, 1));
    assert_eq!(holdings.partition.next, behind.next());
    let later = fixture.say("h", "u", &["4"]).await;
    let fine = fixture.say("h", "v", &["5"]).await;
    let batch = fixture.batch(0).await;
    assert_eq!(positions(&batch), [fine]);
    assert_eq!(batch.park.iter().map(|event| event.position).collect::<Vec<_>>(), [later]);
    let generation = holdings.partition.generation;
    fixture.ends(0, &well_done(&batch)).await;
    assert_eq!(fixture.holds(0).await.partition.generation, generation, "the same keys are parked");
    assert_eq!(fixture.letters().await, [(first, "dead"), (behind, "parked"), (later, "parked")]);
    assert!(second < behind && fixture.due(EVERYTHING).await.is_none(), "nobody asked for them");
}

/// A letter is a copy of its event, with why and how often.
pub async fn letters_are_whole(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    fixture.row("h", 7, false, 1_700_000_000).await;
    fixture.row("h", 7, true, 1_700_000_000).await;
    fixture.say("h", "u", &["{\"a\": [1, \"\\u0000\"]}"]).await;
    let batch = fixture.batch(0).await;
    let events = handled(&batch);
    let dead = events.iter().map(|event| letter(event, "why\0")).collect();
    let parked_from = vec![(key("h", ""), events[0].position), (key("h", "u"), events[2].position)];
    fixture.ends(0, &Ending { dead, parked_from, ..well_done(&batch) }).await;
    let tip = fixture.say("h", "", &["9"]).await;
    // What is in the log may go: the letters stay.
    let removed = format!("DELETE FROM tidewire.log WHERE c_offset < {}", tip.number());
    data.run_sql(&removed).await;
    let letters = fixture
        .groups
        .letters(GROUP, Position::START, LETTERS, None)
        .await
        .expect("letters")
        .letters;
    assert_eq!(letters.len(), 3);
    for (view, event) in letters.iter().zip(&events) {
        assert_eq!(view.letter.event, *event);
        assert_eq!((view.letter.error.as_str(), view.letter.attempts), ("why\u{fffd}", 3));
        assert_eq!((view.partition, view.state, view.redrive), (0, LetterState::Dead, false));
        assert!(view.died_at_ms > 1_700_000_000_000);
    }
}

/// Letters are listed after an offset, so many, of one state or both.
pub async fn letters_are_listed_in_order(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    for text in ["1", "2", "3", "4"] {
        fixture.say("h", "u", &[text]).await;
    }
    fixture.poisoned().await;
    let list = async |after: u64, limit: usize, state: Option<LetterState>| -> Vec<u64> {
        let limit = PageLimit { events: limit, ..LETTERS };
        let letters = fixture.groups.letters(GROUP, Position::new(after), limit, state).await;
        letters.expect("letters").letters.iter().map(|l| l.letter.event.position.number()).collect()
    };
    assert_eq!(list(0, 10, None).await, [2, 3, 4, 5]);
    assert_eq!(list(2, 2, None).await, [3, 4]);
    assert_eq!(list(0, 10, Some(LetterState::Dead)).await, [2]);
    assert_eq!(list(0, 2, Some(LetterState::Parked)).await, [3, 4]);
    assert!(list(5, 10, None).await.is_empty());
    let none = fixture
        .groups
        .letters("other", Position::START, LETTERS, None)
        .await
        .expect("none")
        .letters;
    assert!(none.is_empty());
}

/// What was parked twice is there once, and what is dead stays dead.
pub async fn a_letter_is_written_once(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    let first = fixture.say("h", "u", &["1"]).await;
    let second = fixture.say("h", "u", &["2"]).await;
    let event = fixture.poisoned().await;
    let next = fixture.holds(0).await.partition.next;
    fixture.ends(0, &Ending { next, park: vec![event], ..Ending::default() }).await;
    assert_eq!(fixture.letters().await, [(first, "dead"), (second, "parked")]);
    assert_eq!(fixture.told().await, (1, false, 1, 1));
}

/// Letters are worked off in order, and with the last one the key is free.
pub async fn a_redriven_key_is_worked_off_in_order(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    let first = fixture.say("h", "u", &["1"]).await;
    fixture.say("h", "v", &["2"]).await;
    let behind = fixture.say("h", "u", &["3"]).await;
    fixture.poisoned().await;
    let before = fixture.holds(0).await.partition;
    assert_eq!(fixture.redrives(&LetterSelection::All).await, 1);
    assert_eq!(fixture.told().await, (1, true, 1, 1));
    let batch = fixture.due(EVERYTHING).await.expect("letters are due");
    assert_eq!(
        (batch.redrive.as_ref(), positions(&batch)),
        (Some(&key("h", "u")), vec![first, behind])
    );
    assert_eq!((batch.groups.len(), batch.park.len()), (1, 0));
    fixture.works_off(&batch).await;
    let holdings = fixture.holds(0).await;
    assert!(holdings.parked.is_empty() && fixture.letters().await.is_empty());
    assert_eq!(fixture.told().await, (0, false, 0, 0));
    assert_eq!(holdings.partition.next, before.next, "progress is as it was");
    assert!(holdings.partition.generation > before.generation);
    let later = fixture.say("h", "u", &["4"]).await;
    assert_eq!(positions(&fixture.batch(0).await), [later]);
}

/// While a key has letters it is not free: what comes meanwhile queues behind.
pub async fn a_key_with_letters_is_not_freed(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    let first = fixture.say("h", "u", &["1"]).await;
    let second = fixture.say("h", "u", &["2"]).await;
    fixture.poisoned().await;
    assert_eq!(fixture.redrives(&LetterSelection::Key(key("h", "u"))).await, 1);
    let one = PageLimit { events: 1, ..EVERYTHING };
    let batch = fixture.due(one).await.expect("letters are due");
    assert_eq!(positions(&batch), [first]);
    let third = fixture.say("h", "u", &["3"]).await;
    fixture.works_off(&batch).await;
    assert_eq!(fixture.holds(0).await.parked.len(), 1, "there is a letter left");
    let live = fixture.batch(0).await;
    assert!(live.groups.is_empty());
    fixture.ends(0, &well_done(&live)).await;
    assert_eq!(fixture.letters().await, [(second, "parked"), (third, "parked")]);
    for position in [second, third] {
        let batch = fixture.due(one).await.expect("letters are due");
        assert_eq!(positions(&batch), [position]);
        fixture.works_off(&batch).await;
    }
    assert!(fixture.holds(0).await.parked.is_empty());
    assert!(fixture.due(EVERYTHING).await.is_none());
}

/// Letters that failed again for good wait for a person again.
pub async fn letters_that_fail_again_wait(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    let first = fixture.say("h", "u", &["1"]).await;
    let event = fixture.poisoned().await;
    fixture.redrives(&LetterSelection::Offset(first)).await;
    let next = fixture.holds(0).await.partition.next;
    let dead = vec![letter(&event, "poison again")];
    let give_up = Some(key("h", "u"));
    fixture.ends(0, &Ending { next, dead, give_up, ..Ending::default() }).await;
    assert_eq!(fixture.told().await, (1, false, 1, 0));
    assert!(fixture.due(EVERYTHING).await.is_none());
    assert_eq!(fixture.letters().await, [(first, "dead")]);
    let letters = fixture
        .groups
        .letters(GROUP, Position::START, LETTERS, None)
        .await
        .expect("letters")
        .letters;
    assert_eq!(letters[0].letter.error, "poison again", "the last reason is told");
}

/// One that waited behind another, and then fails itself, is dead like that.
pub async fn a_parked_letter_may_die(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    let first = fixture.say("h", "u", &["1"]).await;
    let (second, third) =
        (fixture.say("h", "u", &["2"]).await, fixture.say("h", "u", &["3"]).await);
    fixture.poisoned().await;
    fixture.redrives(&LetterSelection::All).await;
    let batch = fixture.due(EVERYTHING).await.expect("letters are due");
    let next = fixture.holds(0).await.partition.next;
    let ending = Ending {
        next,
        redriven: vec![first],
        dead: vec![letter(&handled(&batch)[1], "poison too")],
        give_up: Some(key("h", "u")),
        ..Ending::default()
    };
    fixture.ends(0, &ending).await;
    assert_eq!(fixture.letters().await, [(second, "dead"), (third, "parked")]);
    assert_eq!(fixture.told().await, (1, false, 1, 1));
}

/// Dropped letters are gone, and what was behind them goes on in order.
pub async fn dropped_letters_let_the_others_go_on(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    let first = fixture.say("h", "u", &["1"]).await;
    let behind = fixture.say("h", "u", &["2"]).await;
    fixture.poisoned().await;
    let dropped = fixture.groups.drop_letters(GROUP, &LetterSelection::Offset(first), false).await;
    assert_eq!(dropped.expect("it is dropped"), 1);
    let batch = fixture.due(EVERYTHING).await.expect("the rest is due");
    assert_eq!(positions(&batch), [behind]);
    fixture.works_off(&batch).await;
    assert!(fixture.holds(0).await.parked.is_empty());
}

/// All letters of a key may be dropped, and then it is free with the next batch.
pub async fn a_key_may_be_dropped_with_all_it_has(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    fixture.say("h", "u", &["1", "2"]).await;
    fixture.say("h", "u", &["3"]).await;
    fixture.poisoned().await;
    let dropped = fixture.groups.drop_letters(GROUP, &LetterSelection::All, true).await;
    assert_eq!(dropped.expect("they are dropped"), 3);
    assert!(fixture.letters().await.is_empty());
    let batch = fixture.due(EVERYTHING).await.expect("the key is to be freed");
    assert!(batch.groups.is_empty() && batch.redrive == Some(key("h", "u")));
    fixture.works_off(&batch).await;
    assert!(fixture.holds(0).await.parked.is_empty());
    assert!(fixture.due(EVERYTHING).await.is_none());
    assert_eq!(fixture.told().await, (0, false, 0, 0));
}

/// With a letter that is dropped goes what waits behind it, if that is asked for.
pub async fn what_waits_behind_a_letter_is_dropped_with_it(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    let first = fixture.say("h", "u", &["1"]).await;
    fixture.say("h", "u", &["2"]).await;
    fixture.poisoned().await;
    let other = fixture.say("h", "v", &["3"]).await;
    fixture.poisoned().await;
    let dropped = fixture.groups.drop_letters(GROUP, &LetterSelection::Offset(first), true).await;
    assert_eq!(dropped.expect("they are dropped"), 2);
    assert_eq!(fixture.letters().await, [(other, "dead")]);
}

/// Where nothing is parked, a letter is set aside alone and can be worked off all the same.
pub async fn skipped_letters_are_worked_off_too(data: &dyn Opener) {
    let fixture = GroupFixture::open(data).await;
    fixture.makes(GROUP, &GroupSettings { on_dead: Some(OnDead::Skip), ..wish(1) }).await;
    let first = fixture.say("h", "u", &["1"]).await;
    let batch = fixture.batch(0).await;
    let dead = vec![letter(&handled(&batch)[0], "poison")];
    fixture.ends(0, &Ending { dead, ..well_done(&batch) }).await;
    assert!(fixture.holds(0).await.parked.is_empty());
    let second = fixture.say("h", "u", &["2"]).await;
    let batch = fixture.batch(0).await;
    assert_eq!(positions(&batch), [second], "it goes on");
    fixture.ends(0, &well_done(&batch)).await;
    assert_eq!(fixture.redrives(&LetterSelection::Offset(first)).await, 1);
    let third = fixture.say("h", "u", &["3"]).await;
    let batch = fixture.batch(0).await;
    assert_eq!((positions(&batch), batch.park.len()), (vec![third], 0), "it goes on meanwhile");
    let batch = fixture.due(EVERYTHING).await.expect("a letter is due");
    assert_eq!(positions(&batch), [first]);
    fixture.works_off(&batch).await;
    assert!(fixture.letters().await.is_empty() && fixture.holds(0).await.parked.is_empty());
}

/// A letter of an event that comes again from the log is neither worked off nor dropped before it has come.
pub async fn letters_wait_until_their_events_are_passed(data: &dyn Opener) {
    let fixture = GroupFixture::open(data).await;
    for on_dead in [OnDead::Park, OnDead::Skip] {
        fixture.groups.remove_group(GROUP).await.expect("it is gone");
        fixture
            .makes(GROUP, &GroupSettings { on_dead: Some(on_dead), start: Start::Now, ..wish(1) })
            .await;
        let poison = fixture.say("h", "u", &["1"]).await;
        fixture.say("h", "v", &["2"]).await;
        let batch = fixture.batch(0).await;
        let claim = fixture.claim(0, "worker").await;
        let leased = fixture.groups.lease(&claim, batch.next, LONG_MS).await.expect("an answer");
        let (partition, generation) = (0, leased.expect("it is free"));
        let lease = LeaseRef { group: GROUP.to_owned(), partition, generation };
        fixture.buries(&lease, &batch, &handled(&batch)[0]).await;
        assert_eq!(fixture.holds(0).await.dead, [poison].into(), "{on_dead:?}");
        assert_eq!(fixture.redrives(&LetterSelection::All).await, 1);
        assert!(fixture.due(EVERYTHING).await.is_none(), "{on_dead:?}: it would come twice");
        for which in [
            LetterSelection::All,
            LetterSelection::Offset(poison),
            LetterSelection::Key(key("h", "u")),
        ] {
            let dropped = fixture.groups.drop_letters(GROUP, &which, true).await;
            assert!(matches!(dropped, Err(GroupError::Invalid(_))), "{which:?}: {dropped:?}");
        }
        assert_eq!(fixture.letters().await, [(poison, "dead")]);
        fixture.ends(0, &Ending { next: batch.next, ..Ending::default() }).await;
        assert!(fixture.holds(0).await.dead.is_empty());
        let due = fixture.due(EVERYTHING).await.expect("now it is due");
        assert_eq!(positions(&due), [poison]);
        let dropped = fixture.groups.drop_letters(GROUP, &LetterSelection::All, false).await;
        assert_eq!(dropped.expect("it is dropped"), 1);
    }
}

/// Who read letters before another worked them off does not work them off again.
pub async fn letters_are_worked_off_once(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    let first = fixture.say("h", "u", &["1"]).await;
    let second = fixture.say("h", "u", &["2"]).await;
    fixture.poisoned().await;
    fixture.redrives(&LetterSelection::All).await;
    let one = PageLimit { events: 1, ..EVERYTHING };
    let (slow, batch) =
        (fixture.claim(0, "slow").await, fixture.due(one).await.expect("a letter is due"));
    fixture.works_off(&batch).await;
    assert_eq!(fixture.letters().await, [(second, "parked")]);
    assert!(matches!(fixture.begins(&slow).await, Begun::Moved), "letters were worked off since");
    // Nor does who has the partition as it is, with letters from before.
    let next = fixture.holds(0).await.partition.next;
    let (redriven, free) = (vec![first, second], batch.redrive.clone());
    let late = Ending { next, redriven, free, ..Ending::default() };
    let work = fixture.works(&fixture.claim(0, "m").await).await;
    let ended = work.finish(&late).await;
    assert!(matches!(ended, Err(GroupError::Moved)), "{ended:?}");
    let claim = fixture.claim(0, "worker").await;
    let leased = fixture.groups.lease(&claim, next, LONG_MS).await.expect("an answer");
    let generation = leased.expect("it is free");
    let lease = LeaseRef { group: GROUP.to_owned(), partition: 0, generation };
    let acked = fixture.groups.ack(&lease, &late, Vec::new()).await;
    assert!(matches!(acked, Err(GroupError::Fenced)), "{acked:?}");
    assert_eq!(fixture.letters().await, [(second, "parked")], "nothing of it is kept");
}

/// A storm of letters stops the group, until somebody has looked.
pub async fn too_many_letters_stop_a_group(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    let count = usize::try_from(DEAD_LETTERS_MAX).expect("few");
    let append = tidewire_store::testing::commands::append_json(STREAM, &vec!["1"; count]);
    fixture.store.append(append).await;
    let batch = fixture.batch(0).await;
    let dead: Vec<_> = handled(&batch).iter().map(|event| letter(event, "bad deploy")).collect();
    assert_eq!(dead.len(), count);
    let parked_from = vec![(key("", ""), dead[0].event.position)];
    fixture.ends(0, &Ending { dead, parked_from, ..well_done(&batch) }).await;
    let view = fixture.view().await;
    assert_eq!((view.stopped.as_deref(), view.dead), (Some("dead_letters_full"), DEAD_LETTERS_MAX));
    assert!(matches!(fixture.begins(&fixture.claim(0, "m").await).await, Begun::Taken));
    fixture
        .groups
        .drop_letters(GROUP, &LetterSelection::All, true)
        .await
        .expect("they are dropped");
    let resume = GroupChange { paused: Some(false), ..GroupChange::default() };
    let view = fixture.groups.change_group(GROUP, &resume).await.expect("it goes on");
    assert_eq!((view.stopped, view.dead), (None, 0));
    fixture.works(&fixture.claim(0, "m").await).await.abandon().await;
}

/// Letters are cut where a batch of the log would be, and of keys that were marked at once the one that was parked
/// first comes first.
pub async fn letters_are_cut_as_the_log_is(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    fixture.say("h", "b", &["1", "2"]).await;
    fixture.say("h", "a", &["3"]).await;
    fixture.say("h", "b", &["4", "5", "6"]).await;
    let batch = fixture.batch(0).await;
    let events = handled(&batch);
    let firsts = [&events[0], &events[2]];
    let dead = firsts.iter().map(|event| letter(event, "poison")).collect();
    let parked_from = firsts.iter().map(|event| (event.key(), event.position)).collect();
    let park = events.iter().filter(|event| !firsts.contains(event)).cloned().collect();
    fixture.ends(0, &Ending { dead, park, parked_from, ..well_done(&batch) }).await;
    assert_eq!(fixture.redrives(&LetterSelection::All).await, 2);
    assert_eq!(
        fixture.redrives(&LetterSelection::Key(key("h", "b"))).await,
        1,
        "and it keeps its turn"
    );
    let of_b: Vec<_> = events.iter().filter(|event| event.key() == key("h", "b")).collect();
    let bytes = |count: usize| of_b[..count].iter().map(|event| event.bytes()).sum::<usize>();
    for (events, bytes, together) in [
        (1, usize::MAX, 2),
        (2, usize::MAX, 2),
        (3, usize::MAX, 5),
        (100, 1, 2),
        (100, bytes(5) - 1, 2),
        (100, bytes(5), 5),
    ] {
        let due = fixture.due(PageLimit { events, bytes }).await.expect("letters are due");
        assert_eq!(due.redrive, Some(key("h", "b")));
        let numbers: Vec<_> = of_b[..together].iter().map(|event| event.position).collect();
        assert_eq!(positions(&due), numbers, "{events} events, {bytes} bytes");
    }
}

/// Letters of a group that is not there cannot be worked off.
pub async fn letters_of_no_group_are_not_there(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    let redriven = fixture.groups.redrive("other", &LetterSelection::All).await;
    assert!(matches!(redriven, Err(GroupError::NotFound)), "{redriven:?}");
    let dropped = fixture.groups.drop_letters("other", &LetterSelection::All, true).await;
    assert!(matches!(dropped, Err(GroupError::NotFound)), "{dropped:?}");
    assert_eq!(fixture.redrives(&LetterSelection::All).await, 0);
    assert_eq!(fixture.redrives(&LetterSelection::Offset(Position::new(7))).await, 0);
    let dropped =
        fixture.groups.drop_letters(GROUP, &LetterSelection::Key(key("h", "u")), true).await;
    assert_eq!(dropped.expect("none"), 0);
}
