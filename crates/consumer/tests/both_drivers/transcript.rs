//! What a driver handed out, partition by partition.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use tidewire_store::Position;
use tidewire_store::groups::{Holdings, partition_of};

/// A host and a user.
pub(crate) type Who = (String, String);

/// All that was handed out to one driver's handlers. Two drivers that decide alike have the same.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    /// All events that there are: where, and of which host.
    pub(crate) events: Vec<(Position, String)>,
    /// By partition, in order.
    batches: BTreeMap<u32, Vec<Batch>>,
    /// Runs that failed: partition, whose, after how many others, and at which event.
    failures: BTreeSet<(u32, Who, u32, u64)>,
}

#[derive(Debug, PartialEq, Eq)]
enum Batch {
    /// A stretch of the log that begins with this event of the partition; whose events, in the order of their turns, and which of them were
    /// handled. The rest are letters.
    Log { from: u64, keys: Vec<(Who, BTreeSet<u64>)> },
    /// Letters, handed out after so many failures.
    Letters { who: Who, attempt: u32, events: Vec<u64> },
}

impl Transcript {
    /// The first event of a partition that it has not passed: by that a batch is known. When a partition writes down
    /// that it has passed what is not its own is a matter of time.
    pub(crate) fn first_event(&self, held: &Holdings) -> u64 {
        let total = NonZeroU32::new(held.group.total).expect("partitions");
        let at = &held.partition;
        let own = |(position, host): &&(Position, String)| {
            *position >= at.next && partition_of(host, total) == at.partition
        };
        self.events.iter().find(own).expect("an event of the partition").0.number()
    }

    /// Events of a key were handed out from the log. A batch that is handed out again is the same batch.
    pub(crate) fn handed_out(&mut self, partition: u32, from: u64, who: &Who) {
        self.key(partition, from, who);
    }

    /// They were handled.
    pub(crate) fn handled(&mut self, partition: u32, from: u64, who: &Who, events: &[u64]) {
        self.key(partition, from, who).extend(events);
    }

    /// Letters of a key were handed out.
    pub(crate) fn letters(&mut self, partition: u32, who: &Who, attempt: u32, events: &[u64]) {
        let (who, events) = (who.clone(), events.to_vec());
        self.batches.entry(partition).or_default().push(Batch::Letters { who, attempt, events });
    }

    /// A run failed.
    pub(crate) fn failed(&mut self, partition: u32, who: &Who, attempt: u32, event: u64) {
        self.failures.insert((partition, who.clone(), attempt, event));
    }

    fn key(&mut self, partition: u32, from: u64, who: &Who) -> &mut BTreeSet<u64> {
        let batches = self.batches.entry(partition).or_default();
        let is_it = |batch: &Batch| matches!(batch, Batch::Log { from: its, .. } if *its == from);
        let place = batches.iter().position(is_it).unwrap_or_else(|| {
            batches.push(Batch::Log { from, keys: Vec::new() });
            batches.len() - 1
        });
        let Batch::Log { keys, .. } = &mut batches[place] else { panic!("it is of the log") };
        let known = keys.iter().position(|(key, _)| key == who).unwrap_or_else(|| {
            keys.push((who.clone(), BTreeSet::new()));
            keys.len() - 1
        });
        &mut keys[known].1
    }

    /// How many batches, and how many of them were letters.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let all = || self.batches.values().flatten();
        let letters = all().filter(|batch| matches!(batch, Batch::Letters { .. })).count();
        (all().count(), letters)
    }

    /// Panics, and shows the first batch that the other has otherwise.
    pub(crate) fn assert_same(&self, other: &Transcript, seed: u64) {
        for partition in self.batches.keys().chain(other.batches.keys()) {
            let batches = |of: &Transcript| of.batches.get(partition).map_or(0, Vec::len);
            for place in 0..batches(self).max(batches(other)) {
                let batch = |of| Transcript::batch(of, *partition, place);
                assert_eq!(
                    batch(self),
                    batch(other),
                    "seed {seed}, partition {partition}, batch {place}: the library's, and the server's"
                );
            }
        }
        assert_eq!(self.failures, other.failures, "seed {seed}");
    }

    fn batch(&self, partition: u32, place: usize) -> Option<&Batch> {
        self.batches.get(&partition)?.get(place)
    }
}
