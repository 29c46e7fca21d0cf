//! Handing out one partition.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use tidewire_store::groups::{
    Assembled, Batch, Ending, GroupError, GroupView, LeaseRef, PartitionView, Wants,
};
use tidewire_store::{PageLimit, Position};

use super::ask::Leased;
use super::counters::Counts;
use super::find::{Scene, too_large};
use super::foreman::{Foreman, Offered, TAKEN_PAUSE, Unfinished};
use super::room::Place;
use super::token::Token;
use super::upkeep;

/// How long the end of a transaction may be missing before that is said.
const UNFINISHED_AGE: Duration = Duration::from_secs(60);

impl Foreman {
    /// Looks for work in a partition that is free, and gives it to whoever waits first.
    pub(super) async fn offer(
        &mut self,
        view: &GroupView,
        at: &PartitionView,
        wants: &Arc<Wants>,
        tip: Position,
    ) -> Result<Offered, GroupError> {
        let known = self.known.entry(at.partition).or_default();
        let seen = (at.generation, at.next, tip);
        let empty = known.empty == Some(seen);
        if empty && !at.redrive {
            return Ok(Offered::Nothing);
        }
        let letters_first = at.redrive && !known.redrove;
        let scene = Scene::of(&self.node, view, at).await?;
        if letters_first && let Some(offered) = self.offer_letters(&scene).await? {
            return Ok(offered);
        }
        if !empty && let Some(offered) = self.offer_log(&scene, wants, tip).await? {
            return Ok(offered);
        }
        if at.redrive
            && !letters_first
            && let Some(offered) = self.offer_letters(&scene).await?
        {
            return Ok(offered);
        }
        self.known.entry(at.partition).or_default().empty = Some(seen);
        Ok(Offered::Nothing)
    }

    /// The next events of the log.
    async fn offer_log(
        &mut self,
        scene: &Scene,
        wants: &Arc<Wants>,
        tip: Position,
    ) -> Result<Option<Offered>, GroupError> {
        let Some(index) = self.first_for(scene.at.partition) else { return Ok(None) };
        let size = self.queue[index].batch_size;
        let options = &self.node.options.groups;
        let Some(mut place) = self.node.groups.room.try_take(options.batch_bytes) else {
            return Ok(Some(self.crowded(scene.at.partition)));
        };
        let mut assembled = scene.assemble(&self.node, &self.pages, wants, tip, size).await?;
        if matches!(assembled, Assembled::TooLarge { .. }) {
            drop(place);
            match self.node.groups.room.try_take(options.transaction_bytes_max) {
                Some(larger) => place = larger,
                None => return Ok(Some(self.crowded(scene.at.partition))),
            }
            assembled = scene.assemble_one(&self.node, &self.pages, wants, tip, size).await?;
        }
        match assembled {
            Assembled::Batch(batch) => self.hand_out(scene, batch, None, place).await.map(Some),
            Assembled::Nothing { next } => {
                upkeep::pass(&self.node, scene, next).await?;
                Ok(None)
            }
            Assembled::Incomplete { txid } => {
                self.wait_for_end(scene, txid);
                Ok(None)
            }
            Assembled::TooLarge { txid, events, bytes } => {
                let trouble = too_large(&self.node, txid, events, bytes);
                tracing::warn!(group = self.group, partition = scene.at.partition, trouble);
                let store = &self.node.groups.store;
                store.set_trouble(&scene.claim("tidewire", 0), Some(&trouble)).await?;
                Ok(Some(Offered::Again(Duration::ZERO)))
            }
        }
    }

    /// A transaction's end is not in the log yet. If that stays so it is said, once: it may have been lost with
    /// its stream, and the next transaction that is captured ends it.
    fn wait_for_end(&mut self, scene: &Scene, txid: Option<i64>) {
        let at = &scene.at;
        let known = self.known.entry(at.partition).or_default();
        match &mut known.unfinished {
            Some(unfinished) if unfinished.next == at.next => {
                if !unfinished.told && unfinished.since.elapsed() >= UNFINISHED_AGE {
                    unfinished.told = true;
                    let (group, partition) = (&self.group, at.partition);
                    tracing::warn!(
                        group,
                        partition,
                        txid,
                        "a partition waits for the end of a transaction, which is not in the log; the next \
                         change of a watched table lets it go on"
                    );
                }
            }
            other => {
                *other = Some(Unfinished { next: at.next, since: Instant::now(), told: false });
            }
        }
    }

    /// There is no room for a batch: whoever waits for it is told if that stays so.
    fn crowded(&mut self, partition: u32) -> Offered {
        for ask in self.queue.iter_mut().filter(|ask| ask.takes(partition)) {
            ask.crowded = true;
        }
        Offered::Again(TAKEN_PAUSE)
    }

    /// Letters that are to be worked off again.
    async fn offer_letters(&mut self, scene: &Scene) -> Result<Option<Offered>, GroupError> {
        let options = &self.node.options.groups;
        let limit =
            PageLimit { events: options.batch_size_max, bytes: options.transaction_bytes_max };
        let Some(place) = self.node.groups.room.try_take(options.transaction_bytes_max) else {
            return Ok(Some(self.crowded(scene.at.partition)));
        };
        let store = &self.node.groups.store;
        let due = store.letters_due(&self.group, scene.at.partition, limit).await?;
        let Some(mut batch) = due else { return Ok(None) };
        let Some(key) = batch.redrive.clone() else { return Ok(None) };
        scene.count_attempts(&mut batch);
        (batch.from, batch.next) = (scene.at.next, scene.at.next);
        let events = batch.groups.iter().flat_map(|group| &group.events);
        let last = events.map(|event| event.position).max();
        let letters = last.map(|last| (key.hash(), last));
        self.hand_out(scene, batch, letters, place).await.map(Some)
    }

    /// Leases a batch and gives it to whoever waits first. What nobody needs to work on is passed.
    async fn hand_out(
        &mut self,
        scene: &Scene,
        batch: Batch,
        letters: Option<([u8; 32], Position)>,
        mut place: Place,
    ) -> Result<Offered, GroupError> {
        let partition = scene.at.partition;
        let events = batch.groups.iter().flat_map(|key| &key.events);
        place.shrink_to(events.map(|event| event.bytes()).sum());
        let index = self.first_for(partition);
        let Some(ask) = index.and_then(|index| self.queue.remove(index)) else {
            return Ok(Offered::Nothing);
        };
        let lease_ms = u64::try_from(ask.lease.as_millis()).unwrap_or(u64::MAX);
        let claim = scene.claim(&ask.member, lease_ms);
        let store = Arc::clone(&self.node.groups.store);
        let leased = store.lease(&claim, batch.next, lease_ms).await;
        let generation = match leased {
            Ok(Some(generation)) => generation,
            Ok(None) => {
                self.queue.push_front(ask);
                return Ok(Offered::Again(TAKEN_PAUSE));
            }
            Err(error) => {
                self.queue.push_front(ask);
                return Err(error);
            }
        };
        if scene.at.lease_ms.is_some() {
            let more = Counts { lease_expirations: 1, ..Counts::default() };
            self.node.groups.counters.count(&self.group, more);
        }
        let lease = LeaseRef { group: self.group.clone(), partition, generation };
        let events = batch.groups.iter().map(|key| key.events.len()).sum();
        if events == 0 {
            self.queue.push_front(ask);
            let free = batch.redrive.clone();
            let ending = Ending { next: batch.next, park: batch.park, free, ..Ending::default() };
            store.ack(&lease, &ending, Vec::new()).await?;
            return Ok(Offered::Again(Duration::ZERO));
        }
        self.handed_out += 1;
        let known = self.known.entry(partition).or_default();
        (known.taken, known.redrove) = (self.handed_out, letters.is_some());
        let token = Token { partition, generation, events, letters };
        if ask.reply.send(Ok(Some(Leased { token, batch, place }))).is_err() {
            // Whoever asked is gone: the next one shall have it at once.
            store.nack(&lease, &[], &[], 0).await?;
            return Ok(Offered::Again(Duration::ZERO));
        }
        Ok(Offered::Given)
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use tidewire_store::groups::GroupWish;

    use super::super::ask::{Ask, Refused};
    use super::*;
    use crate::testing::Bench;

    #[test]
    fn a_claim_for_which_there_is_no_room_is_told_so() {
        let bench = Bench::start_on_sqlite();
        let node = bench.node();
        let wish = GroupWish { partitions: Some(1), ..GroupWish::default() };
        bench.wait(node.groups.store.put_group("g", &wish)).expect("a group");
        let claim = || {
            let (reply, answer) = oneshot::channel();
            let ask = Ask {
                member: "one".to_owned(),
                batch_size: 1,
                lease: Duration::from_secs(1),
                partition: None,
                looked: false,
                crowded: false,
                deadline: Instant::now(),
                reply,
            };
            bench.wait(async {
                node.groups.ask(node, "g", ask);
                answer.await.expect("an answer")
            })
        };
        let all = node.groups.room.try_take(usize::MAX).expect("nobody else is there");
        assert!(matches!(claim(), Err(Refused::Crowded)));
        drop(all);
        assert!(matches!(claim(), Ok(None)), "there is room, and nothing to do");
    }
}
