//! Marks in the log, which readers wait for: once the log has one, it has all that was committed before it was
//! set. Each is an event, so those who wait on a node share them: one at a time is set and waited for, and
//! whoever comes meanwhile takes part in the next.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;
use tokio::time::Instant;

use tidewire_store::error::StoreError;
use tidewire_store::offset::Position;

/// The marks of a node. See the [module documentation](self).
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// How many were begun.
    begun: AtomicU64,
    /// The number of the last that was reached, and where it is. Held while one is set and waited for.
    reached: Mutex<Option<(u64, Position)>>,
}

impl Marks {
    /// A place that everything committed before this call lies before: that of a mark which was begun after
    /// it. `reach` sets one and waits for it, if nobody else has done so meanwhile. None if there is none by
    /// the deadline.
    pub(super) async fn one_for_all<F>(
        &self,
        deadline: Instant,
        reach: impl FnOnce() -> F,
    ) -> Result<Option<Position>, StoreError>
    where
        F: Future<Output = Result<Option<Position>, StoreError>>,
    {
        let before = self.begun.load(Ordering::SeqCst);
        // Whoever goes away while it is their turn leaves it to the next.
        let Ok(mut reached) = tokio::time::timeout_at(deadline, self.reached.lock()).await else {
            return Ok(None);
        };
        if let Some((number, position)) = *reached
            && number > before
        {
            return Ok(Some(position));
        }
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let position = reach().await?;
        if let Some(position) = position {
            *reached = Some((number, position));
        }
        Ok(position)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::future::join_all;
    use tokio::sync::Semaphore;

    use super::*;

    fn deadline() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    /// Those who come while one is set cannot take it: it may have been set before they wrote.
    #[tokio::test]
    async fn many_share_the_next_mark() {
        let (marks, gate, set) = (Marks::default(), Semaphore::new(0), AtomicU64::new(0));
        let reach = || async {
            let number = set.fetch_add(1, Ordering::SeqCst) + 1;
            gate.acquire().await.expect("it is open").forget();
            Ok(Some(Position::new(number)))
        };
        let first = marks.one_for_all(deadline(), reach);
        let others = join_all((0..50).map(|_| async {
            // After the first has begun.
            tokio::task::yield_now().await;
            marks.one_for_all(deadline(), reach).await
        }));
        let open = async {
            while set.load(Ordering::SeqCst) == 0 {
                tokio::task::yield_now().await;
            }
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            gate.add_permits(100);
        };
        let (first, others, ()) = tokio::join!(first, others, open);
        assert_eq!(first.expect("a mark"), Some(Position::new(1)));
        for other in others {
            assert_eq!(other.expect("a mark"), Some(Position::new(2)), "the one after");
        }
        assert_eq!(set.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn who_goes_away_or_fails_leaves_it_to_the_next() {
        let marks = Marks::default();
        let (now, soon) = (Instant::now(), Instant::now() + Duration::from_millis(20));
        let never = || std::future::pending::<Result<Option<Position>, StoreError>>();
        let gone = tokio::time::timeout_at(soon, marks.one_for_all(deadline(), never));
        let late = marks.one_for_all(now, || async { Ok(Some(Position::new(1))) });
        let (gone, late) = tokio::join!(gone, late);
        assert!(gone.is_err(), "it never comes");
        assert_eq!(late.expect("no failure"), None, "its time is over before its turn");
        let failed = marks.one_for_all(deadline(), || async { Err(StoreError::Closed) }).await;
        assert!(matches!(failed, Err(StoreError::Closed)), "{failed:?}");
        let next = marks.one_for_all(deadline(), || async { Ok(Some(Position::new(7))) }).await;
        assert_eq!(next.expect("a mark"), Some(Position::new(7)));
    }
}
