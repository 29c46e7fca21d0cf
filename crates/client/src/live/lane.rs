//! How the server stands to one `query_id`, beside what the caller wants of it. Pure.
//!
//! In a lane at most one question is open. So an answer can be told from the answer to an older
//! question, however quickly the caller changes their mind:
//!
//! ```text
//!           sent            created
//!   Due ───────────► Asked ─────────► Live ───► a gap: Due; a temporary problem: Resting
//!    ▲                 │ stale          │
//!    └─────────────────┘                │ unsubscribe
//!                                       ▼     sent            ended
//!                                   LeaveDue ──────► Leaving ───────► gone
//! ```
//!
//! Events count in `Live` alone. A lost connection takes every lane back to its beginning.

use std::sync::Arc;

use super::subscription::Subscription;

#[derive(Debug)]
pub(super) struct Lane {
    pub(super) stream: Arc<str>,
    pub(super) wire: LaneState,
    /// What the caller wants; `None`: to be rid of it.
    pub(super) subscription: Option<Subscription>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LaneState {
    /// It is the session's to bring.
    Quiet,
    /// It is to be asked for. Anew: one of the same name stood before it on this connection, and
    /// what still comes of that one does not count, not even its end.
    Due { anew: bool },
    /// It was asked for. Stale: the caller has changed their mind since.
    Asked { anew: bool, stale: bool },
    /// It stands.
    Live,
    /// A temporary problem: it is asked for again after a while.
    Resting,
    /// The server is to be told that it is not wanted.
    LeaveDue,
    /// It was told.
    Leaving,
}

pub(super) const DUE: LaneState = LaneState::Due { anew: false };

/// The server's reason for the end of what it was told to end.
const UNSUBSCRIBED: &str = "unsubscribed";

/// What becomes of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LaneOutcome {
    Stays,
    /// It stays, and the server must be told something.
    Asks,
    Gone,
}

impl Lane {
    pub(super) fn is_live(&self) -> bool {
        self.wire == LaneState::Live
    }

    /// Whether this is a subscription that the session brought.
    pub(super) fn is_of_session(&self) -> bool {
        self.subscription.as_ref().is_some_and(|subscription| subscription.of_session)
    }

    /// Whether this is to the rows of a table or of a query: the connection's, not the session's.
    pub(super) fn is_of_connection(&self) -> bool {
        let is_of_rows = |of: &Subscription| of.rows.is_some() || of.query.is_some();
        self.subscription.as_ref().is_some_and(is_of_rows)
    }

    /// The caller wants it to begin, or to begin anew.
    pub(super) fn restart(&self) -> LaneState {
        match self.wire {
            LaneState::Asked { anew, .. } => LaneState::Asked { anew, stale: true },
            LaneState::Leaving => LaneState::Leaving,
            LaneState::Live | LaneState::LeaveDue | LaneState::Due { anew: true } => {
                LaneState::Due { anew: true }
            }
            _ => DUE,
        }
    }

    /// The caller does not want it any more.
    pub(super) fn leave(&mut self, session: bool) -> LaneOutcome {
        self.subscription = None;
        let (wire, fate) = match self.wire {
            LaneState::Asked { anew, .. } => {
                (LaneState::Asked { anew, stale: true }, LaneOutcome::Stays)
            }
            LaneState::Leaving => (LaneState::Leaving, LaneOutcome::Stays),
            LaneState::Live | LaneState::LeaveDue | LaneState::Due { anew: true } => {
                (LaneState::LeaveDue, LaneOutcome::Asks)
            }
            // A session follows the stream until it is told otherwise, connected or not.
            _ if session => (LaneState::LeaveDue, LaneOutcome::Asks),
            other => (other, LaneOutcome::Gone),
        };
        self.wire = wire;
        fate
    }

    /// The server answered with an end what the caller does not want in this way any more.
    fn over(&mut self) -> LaneOutcome {
        self.wire = DUE;
        if self.subscription.is_some() { LaneOutcome::Asks } else { LaneOutcome::Gone }
    }

    /// The server says that the subscription stands. `true`: and it is the one that is wanted.
    pub(super) fn created(&mut self) -> (LaneOutcome, bool) {
        match self.wire {
            LaneState::Asked { stale: true, .. } => {
                let wanted = self.subscription.is_some();
                self.wire =
                    if wanted { LaneState::Due { anew: true } } else { LaneState::LeaveDue };
                (LaneOutcome::Asks, false)
            }
            LaneState::Asked { .. } | LaneState::Live | LaneState::Quiet
                if self.subscription.is_some() =>
            {
                self.wire = LaneState::Live;
                (LaneOutcome::Stays, true)
            }
            _ => (LaneOutcome::Stays, false),
        }
    }

    /// The server dropped events.
    pub(super) fn gap(&mut self) -> LaneOutcome {
        if !self.is_live() {
            return LaneOutcome::Stays;
        }
        self.wire = LaneState::Due { anew: true };
        if let Some(subscription) = &mut self.subscription {
            subscription.interrupt();
        }
        LaneOutcome::Asks
    }

    /// The server says that the subscription has ended. `true`: and it is the one that is wanted.
    pub(super) fn ended(&mut self, reason: &str) -> (LaneOutcome, bool) {
        match self.wire {
            LaneState::Live => (LaneOutcome::Stays, true),
            LaneState::Leaving | LaneState::LeaveDue => (self.over(), false),
            // The end of one that was told to end before this one was asked for.
            LaneState::Asked { .. } if reason == UNSUBSCRIBED => (LaneOutcome::Stays, false),
            LaneState::Asked { anew: false, stale: true } => (self.over(), false),
            LaneState::Asked { anew: false, stale: false } => (LaneOutcome::Stays, true),
            _ => (LaneOutcome::Stays, false),
        }
    }

    /// The server refuses the subscription. `true`: and it is the one that is wanted.
    pub(super) fn refused(&mut self, temporary: bool) -> (LaneOutcome, bool) {
        match self.wire {
            LaneState::Asked { stale: true, .. } | LaneState::Leaving => (self.over(), false),
            LaneState::Asked { .. } | LaneState::Live if temporary => {
                self.wire = LaneState::Resting;
                if let Some(subscription) = &mut self.subscription {
                    subscription.interrupt();
                }
                (LaneOutcome::Stays, true)
            }
            LaneState::Asked { .. } | LaneState::Live => (LaneOutcome::Gone, true),
            _ => (LaneOutcome::Stays, false),
        }
    }

    /// The connection is gone, and with it all that the server knew. Whether the lane stays.
    pub(super) fn disconnected(&mut self, session: bool) -> bool {
        match &mut self.subscription {
            Some(subscription) => {
                subscription.interrupt();
                self.wire = if subscription.of_session { LaneState::Quiet } else { DUE };
                true
            }
            None => {
                self.wire = LaneState::LeaveDue;
                session
            }
        }
    }
}
