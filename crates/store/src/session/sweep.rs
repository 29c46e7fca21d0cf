//! What upkeep does to sessions, as pure code: how much a call takes, and what is written of it.
//!
//! A sweep has four steps, each bounded, in one transaction in which nobody else changes sessions:
//! sessions whose node's lease has ended are let go; sessions that have expired are removed; then
//! stale subscriptions; then wrong counts are put right. The first two are found by an index. For
//! the others all rows are looked at in turn, some a call: [`SweepCursor`] remembers where to go on.

use super::decide::{SessionPlan, SessionRow};
use super::{SessionChange, SessionRules};

/// Streams whose subscribers are counted a call.
pub const STREAMS_MAX: usize = 200;
/// Subscribers that are counted a call, unless a single stream has more.
const SUBSCRIBERS_MAX: usize = 20_000;

/// Where the next sweep goes on. Every node looks at everything, each at its own pace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SweepCursor {
    /// After this session and stream.
    pub pointer: (String, String),
    /// After this stream.
    pub stream: String,
}

/// The times by which a sweep goes.
#[derive(Debug, Clone, Copy)]
pub struct SweepTimes {
    pub now_ms: i64,
    /// Sessions whose node is gone live at least until then.
    pub expires_at_ms: i64,
    /// What nobody has used since then is stale.
    pub stale_before_ms: i64,
}

impl SweepTimes {
    pub fn new(now_ms: i64, rules: &SessionRules) -> SweepTimes {
        let stale_ms = i64::try_from(rules.stale_ms).unwrap_or(i64::MAX);
        SweepTimes {
            now_ms,
            expires_at_ms: super::decide::after(now_ms, rules.ttl_ms),
            stale_before_ms: now_ms.saturating_sub(stale_ms),
        }
    }
}

/// A session and how many streams it follows.
#[derive(Debug, Clone)]
pub struct SweptSession<T> {
    pub id: String,
    pub row: T,
    pub subscriptions: usize,
}

/// The first of what was found that have at most `rows_max` rows together, and always one, so that
/// a sweep moves on.
fn first<T>(mut found: Vec<T>, rows_max: usize, rows: impl Fn(&T) -> usize) -> Vec<T> {
    let mut sum: usize = 0;
    let fits = |item: &T| {
        sum = sum.saturating_add(rows(item));
        sum <= rows_max
    };
    let fitting = found.iter().map(fits).take_while(|fits| *fits).count();
    found.truncate(fitting.max(1));
    found
}

/// Of rows that are looked at in turn, those that a call takes, and after which the next one goes
/// on: from the beginning again, once there were fewer than asked for.
fn in_turn<T, K: Default>(
    found: Vec<T>,
    asked: usize,
    rows_max: usize,
    rows: impl Fn(&T) -> usize,
    key: impl Fn(&T) -> K,
) -> (Vec<T>, K) {
    let (count, at_the_end) = (found.len(), found.len() < asked);
    let taken = first(found, rows_max, rows);
    let done = at_the_end && taken.len() == count;
    let next = taken.last().filter(|_| !done).map(key).unwrap_or_default();
    (taken, next)
}

/// The pointers that a call looks at, and after which the next one goes on.
pub fn next_pointers(found: Vec<Pointer>, asked: usize) -> (Vec<Pointer>, (String, String)) {
    let key = |pointer: &Pointer| (pointer.session.clone(), pointer.stream.clone());
    in_turn(found, asked, asked, |_| 1, key)
}

/// The streams whose subscribers a call counts, with the counts that are kept, and after which the
/// next one goes on. [`STREAMS_MAX`] were asked for.
pub fn next_streams(found: Vec<(String, Option<i64>)>) -> (Vec<(String, Option<i64>)>, String) {
    let subscribers = |(_, kept): &(String, Option<i64>)| {
        kept.and_then(|count| usize::try_from(count).ok()).unwrap_or(0)
    };
    in_turn(found, STREAMS_MAX, SUBSCRIBERS_MAX, subscribers, |(stream, _)| stream.clone())
}

/// As many sessions as a call takes.
pub fn first_sessions<T>(found: Vec<SweptSession<T>>, rows_max: usize) -> Vec<SweptSession<T>> {
    first(found, rows_max, |session| session.subscriptions.saturating_add(1))
}

/// Sessions whose node has gone. They live until `expires_at_ms` at least; a node that nobody ever
/// knew (`None`) kept nothing alive, so what it leaves is as it is without it.
pub fn let_go(
    sessions: Vec<SweptSession<SessionRow>>,
    now_ms: i64,
    expires_at_ms: Option<i64>,
) -> SessionPlan {
    let mut plan = SessionPlan { now_ms, ..SessionPlan::default() };
    for SweptSession { id, mut row, .. } in sessions {
        let expired_at_ms = row.expires_at_ms;
        match expires_at_ms {
            Some(at_ms) => row.detach(now_ms, at_ms.max(expired_at_ms)),
            None => row.node = None,
        }
        if row.expires_at_ms != expired_at_ms {
            plan.renewed.push((id.clone(), row.expires_at_ms));
        }
        plan.sessions.push((id, row));
    }
    plan
}

/// Sessions that have expired, and all that they follow.
pub fn expired(
    sessions: Vec<SweptSession<()>>,
    followed: Vec<(String, String)>,
    now_ms: i64,
) -> SessionPlan {
    let mut plan = SessionPlan { now_ms, ..SessionPlan::default() };
    for (session, stream) in followed {
        plan.remove(session, stream);
    }
    plan.sessions_removed = sessions.into_iter().map(|session| session.id).collect();
    plan.changed = plan.sessions_removed.iter().cloned().collect();
    plan
}

/// A pointer that was looked at.
#[derive(Debug, Clone)]
pub struct Pointer {
    pub session: String,
    pub stream: String,
    /// Nobody has acknowledged it, or served its session, for long.
    pub stale: bool,
    /// There is no such session.
    pub orphan: bool,
}

/// Stale pointers: the subscriptions to be ended, and besides what belongs to no session at all.
pub fn stale(looked_at: &[Pointer], now_ms: i64) -> (Vec<SessionChange>, SessionPlan) {
    let mut orphans = SessionPlan { now_ms, ..SessionPlan::default() };
    let mut ended = Vec::new();
    for pointer in looked_at.iter().filter(|pointer| pointer.stale) {
        let (session, stream) = (pointer.session.clone(), pointer.stream.clone());
        if pointer.orphan {
            orphans.remove(session, stream);
        } else {
            ended.push(SessionChange::Unsubscribe { session, stream });
        }
    }
    (ended, orphans)
}

/// A stream's count as it is kept, if it is, and as it should be.
#[derive(Debug, Clone)]
pub struct StreamCount {
    pub stream: String,
    pub kept: Option<i64>,
    pub right: i64,
}

/// Counts that are wrong. A row that says that nobody follows a stream is wrong too: it is removed.
pub fn recounted(counts: Vec<StreamCount>, now_ms: i64) -> SessionPlan {
    let wrong = |count: &StreamCount| match count.kept {
        None => count.right != 0,
        Some(kept) => kept != count.right || kept == 0,
    };
    let difference = |count: StreamCount| (count.stream, count.right - count.kept.unwrap_or(0));
    let counts = counts.into_iter().filter(wrong).map(difference).collect();
    SessionPlan { now_ms, counts, ..SessionPlan::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_takes_what_fits_and_always_something() {
        let taken = |sizes: &[usize], max| first(sizes.to_vec(), max, |size| *size).len();
        assert_eq!(taken(&[], 10), 0);
        assert_eq!(taken(&[3, 3, 3, 3], 10), 3);
        assert_eq!(taken(&[11, 1], 10), 1);
        assert_eq!(taken(&[5, 11, 1], 10), 1, "in order: what does not fit holds the next back");
        assert_eq!(taken(&[usize::MAX, usize::MAX], 10), 1);
    }

    #[test]
    fn rows_are_looked_at_in_turn_and_from_the_beginning_again() {
        let turn = |found: &[usize], asked| in_turn(found.to_vec(), asked, 10, |n| *n, |n| *n);
        assert_eq!(turn(&[1, 2, 3], 4), (vec![1, 2, 3], 0), "all were seen");
        assert_eq!(turn(&[1, 2, 3], 3), (vec![1, 2, 3], 3), "there may be more");
        assert_eq!(turn(&[6, 7], 4), (vec![6], 6), "one had to wait");
        assert_eq!(turn(&[], 4), (vec![], 0));
    }
}
