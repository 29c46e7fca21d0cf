//! The dispatcher of a group on this node: looks for work, for all claims that wait.
//!
//! A thousand waiting workers cost one look: at the group's rows and at what is new in the log. Who asked
//! first is served first. What it remembers saves looking twice and is never relied on: a lease is taken
//! from the store, which compares what was seen with what is.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use tidewire_store::Position;
use tidewire_store::groups::decide::{TAKEN_WAIT, Unfinished, is_at_barrier};
use tidewire_store::groups::{
    Decision, GroupError, GroupView, MemberKind, MemberReport, Pages, PartitionView, Source, Wants,
    decide,
};

use super::dispatchers::GroupDispatchers;
use super::find;
use super::problem::{stop_text, trouble_parts};
use super::waiting_claim::{Refused, WaitingClaim};

/// How long it stays when nobody asks.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// The pause between two looks that nobody new asked for.
const PAUSE: Duration = Duration::from_millis(20);
/// Workers that are made known in one look. When a thousand come at once, work is not to wait until all of them are
/// written down, nor is a node that goes away.
const MADE_KNOWN_MAX: usize = 32;

/// See the [module documentation](self).
#[derive(Debug)]
pub(super) struct WorkDispatcher {
    pub(super) dispatchers: Arc<GroupDispatchers>,
    pub(super) group: String,
    asks: mpsc::UnboundedReceiver<WaitingClaim>,
    nudge: Arc<Notify>,
    pub(super) queue: VecDeque<WaitingClaim>,
    pub(super) pages: Pages,
    wants: Option<Arc<Wants>>,
    pub(super) known: HashMap<u32, PartitionCache>,
    /// Until when members are known to live.
    members: HashMap<String, Instant>,
    /// Counts what was handed out.
    pub(super) handed_out: u64,
}

/// What is remembered of a partition.
#[derive(Debug, Default)]
pub(super) struct PartitionCache {
    /// When it was handed out last, as a number that rises.
    pub(super) taken: u64,
    /// Whether that were letters.
    pub(super) letters_were_last: bool,
    /// As it was when there was nothing to do: generation, next, and the log's tip.
    pub(super) empty: Option<(u64, Position, Position)>,
    /// The transaction whose end it waits for.
    pub(super) unfinished: Option<Unfinished>,
}

/// A partition that can be handed out, and of what.
type AvailablePartition<'a> = (&'a PartitionView, &'static [Source]);

/// What came of looking at a partition.
#[derive(Debug)]
pub(super) enum OfferOutcome {
    /// It was given to whoever waited first.
    Given,
    /// There is nothing to do.
    Nothing,
    /// Something was done that makes another look worth while.
    Again(Duration),
}

impl WorkDispatcher {
    pub(super) fn new(
        dispatchers: Arc<GroupDispatchers>,
        group: &str,
        asks: mpsc::UnboundedReceiver<WaitingClaim>,
        nudge: Arc<Notify>,
    ) -> WorkDispatcher {
        let pages = Pages::new(dispatchers.hub.options.groups.page_cache_bytes_max);
        WorkDispatcher {
            dispatchers,
            group: group.to_owned(),
            asks,
            nudge,
            queue: VecDeque::new(),
            pages,
            wants: None,
            known: HashMap::new(),
            members: HashMap::new(),
            handed_out: 0,
        }
    }

    /// Works until the node drains, or nobody has asked for long.
    pub(super) async fn run(mut self) {
        let draining = self.dispatchers.hub.draining.clone();
        let store = Arc::clone(&self.dispatchers.store);
        let (mut grown, mut signals) = (store.log_grown(), store.group_signals());
        let fallback = self.dispatchers.hub.options.log.fallback_poll;
        loop {
            while let Ok(ask) = self.asks.try_recv() {
                self.queue.push_back(ask);
            }
            self.dismiss();
            if self.queue.is_empty() {
                tokio::select! {
                    () = draining.cancelled() => return,
                    ask = self.asks.recv() => match ask {
                        Some(ask) => self.queue.push_back(ask),
                        None => return,
                    },
                    () = tokio::time::sleep(IDLE_MAX) => {
                        if self.dispatchers.leave(&self.group, &self.asks) {
                            return;
                        }
                    }
                }
                continue;
            }
            grown.borrow_and_update();
            signals.borrow_and_update();
            let looked_at = Instant::now();
            let again = match self.look().await {
                Ok(again) => again.unwrap_or(fallback).min(fallback),
                Err(error) => {
                    self.refuse_all(&error);
                    continue;
                }
            };
            let Some(deadline) = self.queue.iter().map(|ask| ask.deadline).min() else { continue };
            tokio::select! {
                () = draining.cancelled() => return,
                ask = self.asks.recv() => match ask {
                    Some(ask) => self.queue.push_back(ask),
                    None => return,
                },
                () = self.nudge.notified() => {}
                _ = grown.changed() => tokio::time::sleep_until(looked_at + PAUSE).await,
                _ = signals.changed() => tokio::time::sleep_until(looked_at + PAUSE).await,
                () = tokio::time::sleep(again) => {}
                () = tokio::time::sleep_until(deadline) => {}
            }
        }
    }

    /// Lets those go who waited long enough. Who does not want to wait has had one look.
    fn dismiss(&mut self) {
        for _ in 0..self.queue.len() {
            let Some(ask) = self.queue.pop_front() else { return };
            match ask.is_over() && ask.looked {
                true => ask.dismiss(),
                false => self.queue.push_back(ask),
            }
        }
    }

    fn refuse_all(&mut self, error: &GroupError) {
        for ask in self.queue.drain(..) {
            ask.refuse(Refused::Group(error.clone()));
        }
    }

    /// Looks for work, and hands it out. Says when it is worth while to look again, if that is known.
    async fn look(&mut self) -> Result<Option<Duration>, GroupError> {
        self.queue.iter_mut().for_each(|ask| (ask.looked, ask.crowded) = (true, false));
        let store = Arc::clone(&self.dispatchers.store);
        let view = store.group(&self.group).await?.ok_or(GroupError::NotFound)?;
        if let Some(code) = &view.stopped {
            return Err(GroupError::Stopped { code: code.clone(), text: stop_text(code).into() });
        }
        if is_at_barrier(&view) {
            match store.finish_change(&self.group).await {
                Ok(true) => return Ok(Some(Duration::ZERO)),
                Ok(false) => {}
                // Someone holds a partition for a moment, or does the same.
                Err(error) if error.temporary() => return Ok(Some(TAKEN_WAIT)),
                Err(error) => return Err(error),
            }
        }
        self.turn_away(&view);
        let known = self.renew_members().await;
        let strangers = self.queue.len() > known;
        // Whoever came and is gone again was here: they are made known before they go.
        self.queue.iter_mut().skip(known).for_each(|ask| ask.looked = false);
        let tip = store.log_tip().await?;
        let wants = self.wants_of(&view);
        let (mut free, waits) = self.decide(&view);
        free.sort_by_key(|(at, _)| self.known.get(&at.partition).map_or(0, |known| known.taken));
        let mut again = if strangers { Some(Duration::ZERO) } else { waits };
        for (at, sources) in free {
            if self.first_for(at.partition).is_none() {
                continue;
            }
            let offered = match self.offer(&view, at, sources, &wants, tip).await {
                // It is not as it was seen any more: the next look will tell.
                Err(GroupError::Moved | GroupError::Fenced | GroupError::NotFound) => {
                    OfferOutcome::Again(TAKEN_WAIT)
                }
                offered => offered?,
            };
            if let OfferOutcome::Again(wait) = offered {
                again = Some(again.map_or(wait, |again| again.min(wait)));
            }
        }
        if let Some(first) = view.partitions.iter().map(|at| at.next).min() {
            self.pages.forget_up_to(first.before());
        }
        Ok(again)
    }

    /// The partitions that can be handed out, and of what; and when the first of the others can be.
    fn decide<'a>(&self, view: &'a GroupView) -> (Vec<AvailablePartition<'a>>, Option<Duration>) {
        let (mut free, mut waits) = (Vec::new(), None);
        for at in &view.partitions {
            let known = self.known.get(&at.partition);
            match decide(view, at, known.is_some_and(|known| known.letters_were_last)) {
                Decision::HandOut(sources) => free.push((at, sources)),
                Decision::Leased(wait) | Decision::Failed(wait) => {
                    // A moment later, so that it is over when looked at.
                    let wait = wait + Duration::from_millis(1);
                    waits = Some(waits.map_or(wait, |least: Duration| least.min(wait)));
                }
                Decision::Stopped | Decision::AtBarrier => {}
            }
        }
        (free, waits)
    }

    /// Those who want a partition that is not there, or that stands still.
    fn turn_away(&mut self, view: &GroupView) {
        let trouble = |partition: u32| {
            let at = view.partitions.iter().find(|at| at.partition == partition);
            at.and_then(|at| at.trouble.as_deref())
        };
        let all = view.partitions.iter().all(|at| at.trouble.is_some());
        for _ in 0..self.queue.len() {
            let Some(ask) = self.queue.pop_front() else { return };
            let validity = match ask.partition {
                Some(partition) if partition >= view.total => {
                    ask.refuse(Refused::NoPartition(partition));
                    continue;
                }
                Some(partition) => trouble(partition),
                None if all => view.partitions.first().and_then(|at| at.trouble.as_deref()),
                None => None,
            };
            match validity.map(trouble_parts) {
                None => self.queue.push_back(ask),
                Some((code, text)) => ask.refuse(Refused::Group(GroupError::Stopped {
                    code: code.to_owned(),
                    text: text.to_owned(),
                })),
            }
        }
    }

    /// Who is to have a partition: whoever wants this one and no other, else whoever came first.
    pub(super) fn first_for(&self, partition: u32) -> Option<usize> {
        let pinned = self.queue.iter().position(|ask| ask.partition == Some(partition));
        pinned.or_else(|| self.queue.iter().position(|ask| ask.takes(partition)))
    }

    fn wants_of(&mut self, view: &GroupView) -> Arc<Wants> {
        let wants = find::wants(view, None);
        match &self.wants {
            Some(known) if **known == *wants => Arc::clone(known),
            _ => {
                self.pages.forget();
                self.known.clear();
                self.wants = Some(Arc::clone(&wants));
                wants
            }
        }
    }

    /// Says that those who wait live, for as long as they do. Returns how many of the queue that was said of: the
    /// others are yet to be made known.
    async fn renew_members(&mut self) -> usize {
        let now = Instant::now();
        self.members.retain(|_, until| *until > now);
        let mut refused = Vec::new();
        let (mut made_known, mut reached) = (0, self.queue.len());
        for (index, ask) in self.queue.iter().enumerate() {
            let until = ask.deadline.max(now) + ask.lease;
            let slack = (until - now) / 3;
            if self.members.get(&ask.member).is_some_and(|known| *known + slack >= until) {
                continue;
            }
            if made_known == MADE_KNOWN_MAX {
                reached = index;
                break;
            }
            made_known += 1;
            let report = MemberReport {
                group: self.group.clone(),
                member: ask.member.clone(),
                kind: MemberKind::Http,
                pinned: ask.partition,
                counts: nothing_counted(),
            };
            let lease_ms = u64::try_from((until - now).as_millis()).unwrap_or(u64::MAX);
            match self.dispatchers.store.renew_member(&report, lease_ms).await {
                Ok(_) => {
                    self.members.insert(ask.member.clone(), until);
                }
                // Members are listed for people to see: whoever is one too many works, and is not listed.
                Err(GroupError::TooMany { .. }) => {
                    self.members.insert(ask.member.clone(), until);
                }
                // Nor does work wait for it: the rest are made known in a later look.
                Err(error) if error.temporary() => {
                    tracing::debug!(%error, "could not record a worker");
                    break;
                }
                Err(error) => refused.push((index, error)),
            }
        }
        reached -= refused.len();
        for (index, error) in refused.into_iter().rev() {
            if let Some(ask) = self.queue.remove(index) {
                ask.refuse(Refused::Group(error));
            }
        }
        reached
    }
}

/// Over HTTP it is the server who counts.
fn nothing_counted() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
