//! The order of a key's events, whatever happens to them on the way.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::Opener;
use super::group_fixture::{GROUP, GroupFixture, LETTERS, LONG_MS, letter, well_done};
use tidewire_store::groups::{
    Batch, DeadEvents, Ending, GroupError, Key, KeyEvents, LeaseRef, LetterSelection,
};
use tidewire_store::log::PageLimit;
use tidewire_store::offset::Position;

const STEPS: usize = 120;
const USERS: [&str; 3] = ["", "u", "v"];

/// What happened so far, besides what the store knows.
#[derive(Default)]
struct History {
    /// Events that cannot be handled for now.
    poison: BTreeSet<Position>,
    said: BTreeMap<Key, Vec<Position>>,
    /// What took effect, in that order.
    effects: BTreeMap<Key, Vec<Position>>,
    dropped: BTreeSet<Position>,
}

impl History {
    /// Handles a key's events, unit by unit, up to the first that fails. Returns how many were handled, and the
    /// end of the unit that failed.
    fn handle(&self, group: &KeyEvents) -> (usize, usize) {
        let mut done = 0;
        for unit in group.units() {
            if unit.iter().any(|event| self.poison.contains(&event.position)) {
                return (done, done + unit.len());
            }
            done += unit.len();
        }
        (done, done)
    }

    fn note(&mut self, group: &KeyEvents, done: usize) {
        let effects = self.effects.entry(group.key.clone()).or_default();
        effects.extend(group.events[..done].iter().map(|event| event.position));
    }

    /// The end of a batch of the log or of letters, as a careful run has it.
    fn ending(&mut self, batch: &Batch) -> Ending {
        let mut ending = well_done(batch);
        ending.free = batch.redrive.clone();
        for group in &batch.groups {
            let (done, failed) = self.handle(group);
            self.note(group, done);
            let letters = group.events[done..failed].iter().map(|event| letter(event, "poison"));
            ending.dead.extend(letters);
            let dies = failed > done;
            if batch.redrive.is_some() {
                ending.redriven = group.events[..done].iter().map(|event| event.position).collect();
                ending.give_up = dies.then(|| group.key.clone());
                ending.free = (!dies).then(|| group.key.clone());
            } else if dies {
                ending.parked_from.push((group.key.clone(), group.events[done].position));
                ending.park.extend(group.events[failed..].iter().cloned());
            }
        }
        ending
    }
}

impl GroupFixture<'_> {
    /// Works a batch off: in a transaction, or by a lease.
    async fn settles(&self, batch: &Batch, history: &mut History, by_lease: bool) {
        let ending = history.ending(batch);
        if !by_lease {
            return self.ends(0, &ending).await;
        }
        let claim = self.claim(0, "worker").await;
        let leased = self.groups.lease(&claim, batch.next, LONG_MS).await.expect("an answer");
        let generation = leased.expect("it is free");
        let lease = LeaseRef { group: GROUP.to_owned(), partition: 0, generation };
        self.groups.ack(&lease, &ending, Vec::new()).await.expect("it is acknowledged");
    }

    /// Gives a batch back by a nack that declares dead what cannot be handled. Nothing took effect.
    async fn gives_back(&self, batch: &Batch, history: &History) {
        let claim = self.claim(0, "worker").await;
        let leased = self.groups.lease(&claim, batch.next, LONG_MS).await.expect("an answer");
        let generation = leased.expect("it is free");
        let lease = LeaseRef { group: GROUP.to_owned(), partition: 0, generation };
        let mut dead = Vec::new();
        for group in &batch.groups {
            let (done, failed) = history.handle(group);
            let (key, error) = (&group.key, "poison".to_owned());
            dead.push(DeadEvents { key, events: &group.events[done..failed], error });
        }
        let ending = Ending::of_failures(batch, &self.holds(0).await, &dead);
        self.groups.nack(&lease, &[], &ending, 0).await.expect("it is given back");
    }

    async fn step(&self, history: &mut History, rng: &mut StdRng) {
        match rng.random_range(0..10) {
            0..=3 => {
                let user = USERS[rng.random_range(0..USERS.len())];
                let messages = vec!["1"; rng.random_range(1..4)];
                let last = self.say("h", user, &messages).await;
                let first = last.number() + 1 - messages.len() as u64;
                let key = super::group_fixture::key("h", user);
                let positions = (first..=last.number()).map(Position::new);
                history.said.entry(key).or_default().extend(positions);
                if rng.random_bool(0.3) {
                    history.poison.insert(last);
                }
            }
            4..=6 => {
                if let Some(batch) = self.next_batch(0).await {
                    if rng.random_bool(0.2) {
                        return self.gives_back(&batch, history).await;
                    }
                    self.settles(&batch, history, rng.random_bool(0.3)).await;
                }
            }
            7 => self.works_letters_off(history, rng).await,
            8 => {
                if rng.random_bool(0.5) {
                    history.poison.clear();
                }
                self.groups.redrive(GROUP, &LetterSelection::All).await.expect("they are marked");
            }
            _ => {
                let letters = self.groups.letters(GROUP, Position::START, LETTERS, None).await;
                let letters = letters.expect("letters can be read").letters;
                if letters.is_empty() || rng.random_bool(0.7) {
                    return;
                }
                let chosen = letters[rng.random_range(0..letters.len())].letter.event.position;
                let dropped =
                    self.groups.drop_letters(GROUP, &LetterSelection::Offset(chosen), false).await;
                match dropped {
                    Ok(count) => assert_eq!(count, 1),
                    // It is of a batch that was given back, and is still to be handed out again.
                    Err(GroupError::Invalid(_)) => return,
                    Err(error) => panic!("{chosen:?}: {error}"),
                }
                history.dropped.insert(chosen);
            }
        }
    }

    /// Works off some letters, if some are due.
    async fn works_letters_off(&self, history: &mut History, rng: &mut StdRng) {
        let limit = PageLimit { events: rng.random_range(1..4), bytes: 1 << 20 };
        let due = self.groups.letters_due(GROUP, 0, limit).await.expect("letters can be read");
        if let Some(batch) = due {
            self.settles(&batch, history, rng.random_bool(0.3)).await;
        }
    }
}

/// Dead, parked, redriven, dropped, while others come: the effects of a key's events are in the log's order, each
/// once, and in the end none is missing.
pub async fn events_of_a_key_take_effect_in_order(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    for seed in 0..4 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut history = History::default();
        for _ in 0..STEPS {
            fixture.step(&mut history, &mut rng).await;
        }
        history.poison.clear();
        while let Some(batch) = fixture.next_batch(0).await {
            fixture.settles(&batch, &mut history, false).await;
        }
        fixture.groups.redrive(GROUP, &LetterSelection::All).await.expect("they are marked");
        while fixture.holds(0).await.partition.redrive {
            fixture.works_letters_off(&mut history, &mut rng).await;
        }
        assert!(fixture.letters().await.is_empty() && fixture.holds(0).await.parked.is_empty());
        for (key, said) in &history.said {
            let left: Vec<Position> =
                said.iter().copied().filter(|place| !history.dropped.contains(place)).collect();
            let effects = history.effects.get(key).cloned().unwrap_or_default();
            assert_eq!(effects, left, "seed {seed}, {key:?}");
        }
    }
}
