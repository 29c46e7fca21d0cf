//! A round: one piece of news on its way to its followers, a slice of them at a time.

use std::ops::Range;
use std::sync::Arc;

use super::audience::Follower;
use crate::kinds::News;

/// Bytes that one round takes along. What comes while a large audience is served goes out with the next
/// round, in one write for each follower; more than this would be too much for a socket to take at once.
pub(crate) const ROUND_BYTES_MAX: usize = 128 << 10;

/// One round through followers.
#[derive(Debug)]
pub struct Round {
    pub news: News,
    followers: Arc<Vec<Follower>>,
    /// `next <= followers.len()`: those before it have been served.
    next: usize,
    /// Some have been served.
    begun: bool,
    pub serving: Serving,
}

/// How a round is being served.
#[derive(Debug, Default)]
pub struct Serving {
    /// There is nothing else to serve in this turn: what a socket takes at once need not wait for
    /// company.
    pub alone: bool,
    /// Events that went straight to their sockets, and when the first of them was appended.
    pub straight: u64,
    pub created_at_ms: i64,
}

impl Round {
    /// Members that came or left since the list was taken do no harm: who came later does not need the
    /// news, and who left is not found any more.
    pub(crate) fn new(news: News, followers: Arc<Vec<Follower>>) -> Round {
        Round { news, followers, next: 0, begun: false, serving: Serving::default() }
    }

    /// One whose news says whom it concerns.
    pub(crate) fn of(news: News) -> Round {
        Round::new(news, Arc::default())
    }

    /// How many it concerns.
    pub(super) fn size(&self) -> usize {
        self.followers.len() + self.news.more()
    }

    /// The next, at most so many. None are left if these are none.
    pub(super) fn take(&mut self, count: usize) -> (Arc<Vec<Follower>>, Range<usize>) {
        self.begun = true;
        if self.next >= self.followers.len()
            && let Some(more) = self.news.next_members()
        {
            (self.followers, self.next) = (more, 0);
        }
        let end = self.followers.len().min(self.next.saturating_add(count));
        let taken = self.next..end;
        self.next = end;
        (Arc::clone(&self.followers), taken)
    }

    pub(super) fn is_done(&self) -> bool {
        self.next >= self.followers.len() && self.news.more() == 0
    }

    /// Takes along what comes after it for the same cohort, if it has not begun. Gives it back if it must
    /// be a round of its own.
    pub(super) fn absorb(&mut self, later: Round) -> Option<Round> {
        if self.begun {
            return Some(later);
        }
        let Round { news, followers, next, begun, serving } = later;
        match self.news.absorb(news) {
            Ok(()) => {
                // One who came since may need the later news; one who left is not found.
                self.followers = followers;
                None
            }
            Err(news) => Some(Round { news, followers, next, begun, serving }),
        }
    }
}
