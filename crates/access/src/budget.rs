//! Bytes on their way: what a node keeps in memory of requests that arrive and of answers that leave, for
//! all clients together (`limits.inflight_bytes_max`).
//!
//! Three things are counted: bodies of requests, from their first byte until the request is answered;
//! messages of WebSockets, while they arrive; and answers, from when they are made until they are sent. What
//! would be more is refused (`inflight_bytes_exhausted`), and comes back. Limits on one body or one page do
//! not bound how many there are at once; this does.
//!
//! Nobody takes all of it: one credential has at most three quarters, and those who have shown none yet
//! have an eighth between them, so that they keep nobody out who has.
//!
//! What waits in the hub for live connections has limits of its own (`live.queue_bytes_max`), and so have
//! batches of groups (`groups.batch_memory_bytes_max`).

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use axum::body::{Body, HttpBody};
use axum::http::{Method, Response, StatusCode};
use bytes::Bytes;

use crate::AccessControl;
use crate::problem::Problem;
use tidewire_wire::kept_body::keep_with;

/// Answers up to this size are not counted: there are many of them, and they are gone at once.
pub(crate) const SMALL_ANSWER_BYTES: u64 = 4 << 10;

/// What bytes are held for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Body,
    Message,
    Answer,
}

const PURPOSES: [(Purpose, &str); 3] =
    [(Purpose::Body, "body"), (Purpose::Message, "message"), (Purpose::Answer, "answer")];

/// See the [module documentation](self). Cheap to clone.
#[derive(Debug, Clone)]
pub struct Budget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    bytes_max: usize,
    /// `used <= bytes_max`, but for one who is alone with more, and for answers to what is done already.
    used: AtomicUsize,
    tallies: [BudgetTotals; 3],
    strangers: Arc<Account>,
}

#[derive(Debug, Default)]
struct BudgetTotals {
    bytes: AtomicUsize,
    refusals: AtomicU64,
}

/// What one credential holds, or all who have shown none.
#[derive(Debug, Default)]
pub struct Account {
    used: AtomicUsize,
    of_strangers: bool,
}

/// Bytes that are held. Given back when dropped.
#[derive(Debug)]
pub struct MemoryLease {
    budget: Budget,
    account: Arc<Account>,
    purpose: Purpose,
    bytes: usize,
}

/// There is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exhausted {
    /// For anyone.
    Budget,
    /// In the account's share.
    Share,
}

impl Budget {
    pub(crate) fn new(bytes_max: usize) -> Budget {
        let strangers = Arc::new(Account { used: AtomicUsize::new(0), of_strangers: true });
        let (used, tallies) = (AtomicUsize::new(0), Default::default());
        Budget(Arc::new(Shared { bytes_max, used, tallies, strangers }))
    }

    /// The account of those who have shown no credential yet.
    pub fn strangers(&self) -> &Arc<Account> {
        &self.0.strangers
    }

    /// Holds nothing yet.
    pub fn open(&self, purpose: Purpose, account: &Arc<Account>) -> MemoryLease {
        MemoryLease { budget: self.clone(), account: Arc::clone(account), purpose, bytes: 0 }
    }

    fn share_max(&self, account: &Account) -> usize {
        if account.of_strangers { self.0.bytes_max / 8 } else { self.0.bytes_max / 4 * 3 }
    }

    fn tally(&self, purpose: Purpose) -> &BudgetTotals {
        &self.0.tallies[purpose as usize]
    }

    fn refused(&self, purpose: Purpose) -> Problem {
        self.tally(purpose).refusals.fetch_add(1, Ordering::Relaxed);
        Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "inflight_bytes_exhausted",
            "the requests and answers under way take as much memory as they may \
             (limits.inflight_bytes_max)",
            "try again after the time in Retry-After, with less at once, or go to another node",
        )
        .retry_after_s(1)
    }

    /// What a scraper gets of it.
    pub fn write_metrics(&self, body: &mut String) -> std::fmt::Result {
        let name = "tidewire_inflight_bytes";
        writeln!(body, "# HELP {name} Bytes of requests and answers under way.")?;
        writeln!(body, "# TYPE {name} gauge")?;
        for (purpose, label) in PURPOSES {
            let bytes = self.tally(purpose).bytes.load(Ordering::Relaxed);
            writeln!(body, "{name}{{purpose=\"{label}\"}} {bytes}")?;
        }
        let name = "tidewire_inflight_refusals";
        writeln!(
            body,
            "# HELP {name} Requests, messages and answers for which there was no room."
        )?;
        writeln!(body, "# TYPE {name} counter")?;
        for (purpose, label) in PURPOSES {
            let refusals = self.tally(purpose).refusals.load(Ordering::Relaxed);
            writeln!(body, "{name}_total{{purpose=\"{label}\"}} {refusals}")?;
        }
        let strangers = self.0.strangers.used.load(Ordering::Relaxed) as u64;
        crate::exposition::write_gauges(
            body,
            &[
                ("inflight_stranger_bytes", "Of those, of who has shown no credential", strangers),
                ("inflight_budget_bytes", "What they may be together", self.0.bytes_max as u64),
            ],
        )
    }
}

impl MemoryLease {
    /// Holds so many bytes from now on, if there is room for them. What is larger than its share goes alone.
    fn grow_to(&mut self, bytes: usize) -> Result<(), Exhausted> {
        let Some(more) = bytes.checked_sub(self.bytes) else {
            self.shrink_to(bytes);
            return Ok(());
        };
        if more == 0 {
            return Ok(());
        }
        let own = self.bytes;
        let shared = &self.budget.0;
        let fits = |bytes_max: usize| {
            move |used: usize| {
                let all = used.saturating_add(more);
                (all <= bytes_max || used == own).then_some(all)
            }
        };
        let (order, share_max) = (Ordering::Relaxed, self.budget.share_max(&self.account));
        let of_account = self.account.used.fetch_update(order, order, fits(share_max));
        of_account.map_err(|_| Exhausted::Share)?;
        if shared.used.fetch_update(order, order, fits(shared.bytes_max)).is_err() {
            self.account.used.fetch_sub(more, order);
            return Err(Exhausted::Budget);
        }
        self.budget.tally(self.purpose).bytes.fetch_add(more, order);
        self.bytes = bytes;
        Ok(())
    }

    /// Holds so many bytes from now on, whether there is room or not: for what can be refused no more.
    fn grow_anyway(&mut self, bytes: usize) {
        let more = bytes.saturating_sub(self.bytes);
        self.account.used.fetch_add(more, Ordering::Relaxed);
        self.budget.0.used.fetch_add(more, Ordering::Relaxed);
        self.budget.tally(self.purpose).bytes.fetch_add(more, Ordering::Relaxed);
        self.bytes += more;
    }

    /// Gives back what so many bytes do not need.
    pub fn shrink_to(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        self.budget.tally(self.purpose).bytes.fetch_sub(less, Ordering::Relaxed);
        self.budget.0.used.fetch_sub(less, Ordering::Relaxed);
        self.account.used.fetch_sub(less, Ordering::Relaxed);
        self.bytes -= less;
    }

    /// The same bytes, which are held for as long as anyone has them.
    pub fn with(self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(LeasedBytes { bytes, _held: self })
    }
}

impl Drop for MemoryLease {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

struct LeasedBytes {
    bytes: Bytes,
    _held: MemoryLease,
}

impl AsRef<[u8]> for LeasedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// An answer carries it if its bytes are held by whoever made it.
#[derive(Debug, Clone, Copy)]
pub struct PrepaidBody;

/// What is held only because someone may ask for it again.
pub trait Reclaimable: std::fmt::Debug + Send + Sync {
    /// Gives back what was made for an account, or all.
    fn forget(&self, made_for: Option<&Arc<Account>>);
}

/// Nothing makes room.
#[derive(Debug)]
pub struct NothingToSpare;

impl Reclaimable for NothingToSpare {
    fn forget(&self, _: Option<&Arc<Account>>) {}
}

impl AccessControl {
    /// Holds so many bytes from now on. What is only held because someone may ask for it again makes room
    /// first: all of it, or what was made for the account whose share is used up.
    pub fn hold(&self, held: &mut MemoryLease, bytes: usize) -> Result<(), Problem> {
        match held.grow_to(bytes) {
            Ok(()) => return Ok(()),
            Err(Exhausted::Budget) => self.spare.forget(None),
            Err(Exhausted::Share) => self.spare.forget(Some(&held.account)),
        }
        held.grow_to(bytes).map_err(|_| self.budget.refused(held.purpose))
    }

    /// An answer's bytes, which are held for as long as anyone has them, where there is room for them.
    pub fn hold_bytes(&self, bytes: Bytes, account: &Arc<Account>) -> Result<Bytes, Problem> {
        if bytes.len() as u64 <= SMALL_ANSWER_BYTES {
            return Ok(bytes);
        }
        let mut held = self.budget.open(Purpose::Answer, account);
        self.hold(&mut held, bytes.len())?;
        Ok(held.with(bytes))
    }

    /// Holds an answer's bytes until they are sent, where there is room for them. An answer to what has
    /// changed something goes out in any case.
    pub fn hold_answer(
        &self,
        answer: Response<Body>,
        account: &Arc<Account>,
        method: &Method,
    ) -> Result<Response<Body>, Problem> {
        let size = answer.body().size_hint().exact().unwrap_or(0);
        if size <= SMALL_ANSWER_BYTES || answer.extensions().get::<PrepaidBody>().is_some() {
            return Ok(answer);
        }
        let mut held = self.budget.open(Purpose::Answer, account);
        let bytes = usize::try_from(size).unwrap_or(usize::MAX);
        match self.hold(&mut held, bytes) {
            Ok(()) => {}
            Err(problem) if method.is_safe() => return Err(problem),
            Err(_) => held.grow_anyway(bytes),
        }
        Ok(answer.map(|body| keep_with(body, held)))
    }
}

#[cfg(test)]
mod tests;
