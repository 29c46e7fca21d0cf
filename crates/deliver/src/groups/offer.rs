//! Hands out one partition's work to a waiting claim.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use tidewire_store::Position;
use tidewire_store::groups::decide::{TAKEN_WAIT, Unfinished};
use tidewire_store::groups::{
    Assembled, Batch, Ending, GroupError, GroupView, Holdings, LeaseRef, Limits, PartitionView,
    Source, Wants,
};

use super::batch_permits::BatchPermit;
use super::counters::Counts;
use super::dispatcher::{OfferOutcome, WorkDispatcher};
use super::find;
use super::token::Token;
use super::upkeep;
use super::waiting_claim::Leased;

impl WorkDispatcher {
    /// Looks for work in a partition that is free, in these of its sources, and gives it to whoever waits first.
    pub(super) async fn offer(
        &mut self,
        view: &GroupView,
        at: &PartitionView,
        sources: &[Source],
        wants: &Arc<Wants>,
        tip: Position,
    ) -> Result<OfferOutcome, GroupError> {
        let known = self.known.entry(at.partition).or_default();
        let seen = (at.generation, at.next, tip);
        let empty = known.empty == Some(seen);
        if empty && sources == [Source::Log] {
            return Ok(OfferOutcome::Nothing);
        }
        let held = find::holdings(&self.dispatchers, view, at).await?;
        for source in sources {
            let offered = match source {
                Source::Letters => self.offer_letters(&held).await?,
                Source::Log if empty => None,
                Source::Log => self.offer_log(&held, wants, tip).await?,
            };
            if let Some(offered) = offered {
                return Ok(offered);
            }
        }
        self.known.entry(at.partition).or_default().empty = Some(seen);
        Ok(OfferOutcome::Nothing)
    }

    /// The next events of the log.
    async fn offer_log(
        &mut self,
        held: &Holdings,
        wants: &Arc<Wants>,
        tip: Position,
    ) -> Result<Option<OfferOutcome>, GroupError> {
        let at = &held.partition;
        let Some(limits) = self.limits_for(at.partition) else { return Ok(None) };
        let store = Arc::clone(&self.dispatchers.store);
        let read = |limits| self.pages.assemble(&*store, wants, held, limits, at.next, tip);
        let Some(mut place) = self.dispatchers.room.try_take(limits.batch_bytes) else {
            return Ok(Some(self.crowded(at.partition)));
        };
        // A transaction that has more bytes than a usual batch needs more room first.
        let usual = Limits { transaction_bytes_max: limits.batch_bytes, ..limits };
        let mut assembled = read(usual).await?;
        if matches!(assembled, Assembled::TooLarge(_)) {
            drop(place);
            match self.dispatchers.room.try_take(limits.transaction_bytes_max) {
                Some(larger) => place = larger,
                None => return Ok(Some(self.crowded(at.partition))),
            }
            assembled = read(limits).await?;
        }
        match assembled {
            Assembled::Batch(batch) => self.hand_out(held, batch, None, place).await.map(Some),
            Assembled::Nothing { next } => {
                upkeep::pass(&self.dispatchers, held, next).await?;
                Ok(None)
            }
            Assembled::Incomplete { txid } => {
                self.wait_for_end(at, txid);
                Ok(None)
            }
            Assembled::TooLarge(too_large) => {
                let trouble = find::trouble(&self.dispatchers.hub.options.groups, &too_large);
                tracing::warn!(group = self.group, partition = at.partition, trouble);
                store.set_trouble(&held.claim("tidewire", 0), Some(&trouble)).await?;
                Ok(Some(OfferOutcome::Again(Duration::ZERO)))
            }
        }
    }

    /// What a batch of a partition may have, for whoever is to have it.
    fn limits_for(&self, partition: u32) -> Option<Limits> {
        let size = self.queue[self.first_for(partition)?].batch_size;
        Some(find::limits(&self.dispatchers.hub.options.groups, size))
    }

    /// A transaction's end is not in the log yet.
    fn wait_for_end(&mut self, at: &PartitionView, txid: Option<i64>) {
        let known = self.known.entry(at.partition).or_default();
        let now = Instant::now().into_std();
        if Unfinished::is_to_be_told(&mut known.unfinished, at.next, now) {
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

    /// There is no room for a batch: whoever waits for it is told if that stays so.
    fn crowded(&mut self, partition: u32) -> OfferOutcome {
        for ask in self.queue.iter_mut().filter(|ask| ask.takes(partition)) {
            ask.crowded = true;
        }
        OfferOutcome::Again(TAKEN_WAIT)
    }

    /// Letters that are to be worked off again.
    async fn offer_letters(&mut self, held: &Holdings) -> Result<Option<OfferOutcome>, GroupError> {
        let at = &held.partition;
        let Some(limits) = self.limits_for(at.partition) else { return Ok(None) };
        // Those of one transaction are together, however large.
        let Some(place) = self.dispatchers.room.try_take(limits.transaction_bytes_max) else {
            return Ok(Some(self.crowded(at.partition)));
        };
        let store = &self.dispatchers.store;
        let due = store.letters_due(&self.group, at.partition, limits.letters()).await?;
        let Some(mut batch) = due else { return Ok(None) };
        let Some(key) = batch.redrive.clone() else { return Ok(None) };
        (batch.from, batch.next) = (at.next, at.next);
        let events = batch.groups.iter().flat_map(|group| &group.events);
        let last = events.map(|event| event.position).max();
        let letters = last.map(|last| (key.hash(), last));
        self.hand_out(held, batch, letters, place).await.map(Some)
    }

    /// Leases a batch and gives it to whoever waits first. What nobody needs to work on is passed.
    async fn hand_out(
        &mut self,
        held: &Holdings,
        batch: Batch,
        letters: Option<([u8; 32], Position)>,
        mut place: BatchPermit,
    ) -> Result<OfferOutcome, GroupError> {
        let partition = held.partition.partition;
        let events = batch.groups.iter().flat_map(|key| &key.events);
        place.shrink_to(events.map(|event| event.bytes()).sum());
        let index = self.first_for(partition);
        let Some(ask) = index.and_then(|index| self.queue.remove(index)) else {
            return Ok(OfferOutcome::Nothing);
        };
        let lease_ms = u64::try_from(ask.lease.as_millis()).unwrap_or(u64::MAX);
        let claim = held.claim(&ask.member, lease_ms);
        let store = Arc::clone(&self.dispatchers.store);
        let leased = store.lease(&claim, batch.next, lease_ms).await;
        let generation = match leased {
            Ok(Some(generation)) => generation,
            Ok(None) => {
                self.queue.push_front(ask);
                return Ok(OfferOutcome::Again(TAKEN_WAIT));
            }
            Err(error) => {
                self.queue.push_front(ask);
                return Err(error);
            }
        };
        if held.partition.lease_ms.is_some() {
            let more = Counts { lease_expirations: 1, ..Counts::default() };
            self.dispatchers.counters.count(&self.group, more);
        }
        let lease = LeaseRef { group: self.group.clone(), partition, generation };
        let known = self.known.entry(partition).or_default();
        known.letters_were_last = batch.redrive.is_some();
        let events = batch.groups.iter().map(|key| key.events.len()).sum();
        if events == 0 {
            self.queue.push_front(ask);
            store.ack(&lease, &batch.ending(), Vec::new()).await?;
            return Ok(OfferOutcome::Again(Duration::ZERO));
        }
        self.handed_out += 1;
        known.taken = self.handed_out;
        let token = Token { partition, generation, events, letters };
        if ask.reply.send(Ok(Some(Leased { token, batch, place }))).is_err() {
            // Whoever asked is gone: the next one shall have it at once.
            store.nack(&lease, &[], &Ending::default(), 0).await?;
            return Ok(OfferOutcome::Again(Duration::ZERO));
        }
        Ok(OfferOutcome::Given)
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use tidewire_store::groups::GroupSettings;

    use super::super::waiting_claim::{Refused, WaitingClaim};
    use super::*;
    use crate::testing::Bench;

    #[test]
    fn a_claim_for_which_there_is_no_room_is_told_so() {
        let bench = Bench::start_on_sqlite();
        let dispatchers = &bench.node().groups;
        let wanted = GroupSettings { partitions: Some(1), ..GroupSettings::default() };
        bench.wait(dispatchers.store.put_group("g", &wanted)).expect("a group");
        let claim = || {
            let (reply, answer) = oneshot::channel();
            let ask = WaitingClaim {
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
                dispatchers.ask("g", ask);
                answer.await.expect("an answer")
            })
        };
        let all = dispatchers.room.try_take(usize::MAX).expect("nobody else is there");
        assert!(matches!(claim(), Err(Refused::Crowded)));
        drop(all);
        assert!(matches!(claim(), Ok(None)), "there is room, and nothing to do");
    }
}
