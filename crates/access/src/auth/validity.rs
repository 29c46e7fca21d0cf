//! Whether a credential is still valid, for connections that outlive the request they began with.
//!
//! A request is over before anything changes. A live connection is not: it keeps its credential's
//! standing, and ends what it follows when the standing ends, with the reason.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

/// Why a credential holds no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Its key was revoked, or is gone.
    Revoked,
    /// Its time has run out.
    Expired,
    /// It allows something else now; coming back shows what.
    Changed,
    /// An operator ended it.
    Killed,
}

impl Ended {
    /// As clients are told.
    pub fn reason(self) -> &'static str {
        match self {
            Ended::Revoked => "key_revoked",
            Ended::Expired => "credential_expired",
            Ended::Changed => "permissions_changed",
            Ended::Killed => "ended_by_operator",
        }
    }
}

/// The standing of a credential, shared by all that came in with it.
#[derive(Debug, Clone)]
pub struct CredentialValidity(Arc<State>);

#[derive(Debug)]
struct State {
    over: CancellationToken,
    why: OnceLock<Ended>,
    /// Moves when the key's expiry is changed.
    ends_at: Mutex<Option<Instant>>,
}

impl CredentialValidity {
    /// One that holds until it is ended, or at the latest until a moment.
    pub(crate) fn until(ends_at: Option<Instant>) -> CredentialValidity {
        let (over, why) = (CancellationToken::new(), OnceLock::new());
        CredentialValidity(Arc::new(State { over, why, ends_at: Mutex::new(ends_at) }))
    }

    /// It holds until another moment than was thought.
    pub(crate) fn move_end(&self, ends_at: Option<Instant>) {
        *self.0.ends_at.lock().unwrap_or_else(PoisonError::into_inner) = ends_at;
    }

    fn ends_at(&self) -> Option<Instant> {
        *self.0.ends_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends it. The first reason stays.
    pub fn end(&self, why: Ended) {
        let _ = self.0.why.set(why);
        self.0.over.cancel();
    }

    /// Whether it has ended, and why.
    pub(crate) fn ended(&self) -> Option<Ended> {
        self.0.over.is_cancelled().then(|| self.why())
    }

    /// Waits until it has ended.
    pub async fn over(&self) -> Ended {
        self.0.over.cancelled().await;
        self.why()
    }

    /// Whether its time has run out.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.ends_at().is_some_and(|at| at <= now)
    }

    /// How long it still holds, where that is bounded.
    pub fn remaining(&self, now: Instant) -> Option<Duration> {
        self.ends_at().map(|at| at.saturating_duration_since(now))
    }

    fn why(&self) -> Ended {
        self.0.why.get().copied().unwrap_or(Ended::Killed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_who_share_a_standing_learn_the_first_reason() {
        let validity = CredentialValidity::until(None);
        let other = validity.clone();
        assert_eq!(other.ended(), None);
        validity.end(Ended::Revoked);
        validity.end(Ended::Killed);
        assert_eq!(other.over().await, Ended::Revoked);
        assert_eq!(other.ended(), Some(Ended::Revoked));
    }
}
