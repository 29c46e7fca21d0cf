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
    pub(super) wire: Wire,
    /// What the caller wants; `None`: to be rid of it.
    pub(super) subscription: Option<Subscription>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wire {
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

pub(super) const DUE: Wire = Wire::Due { anew: false };

/// The server's reason for the end of what it was told to end.
const UNSUBSCRIBED: &str = "unsubscribed";

/// What becomes of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Stays,
    /// It stays, and the server must be told something.
    Asks,
    Gone,
}

impl Lane {
    pub(super) fn is_live(&self) -> bool {
        self.wire == Wire::Live
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
    pub(super) fn restart(&self) -> Wire {
        match self.wire {
            Wire::Asked { anew, .. } => Wire::Asked { anew, stale: true },
            Wire::Leaving => Wire::Leaving,
            Wire::Live | Wire::LeaveDue | Wire::Due { anew: true } => Wire::Due { anew: true },
            _ => DUE,
        }
    }

    /// The caller does not want it any more.
    pub(super) fn leave(&mut self, session: bool) -> Fate {
        self.subscription = None;
        let (wire, fate) = match self.wire {
            Wire::Asked { anew, .. } => (Wire::Asked { anew, stale: true }, Fate::Stays),
            Wire::Leaving => (Wire::Leaving, Fate::Stays),
            Wire::Live | Wire::LeaveDue | Wire::Due { anew: true } => (Wire::LeaveDue, Fate::Asks),
            // A session follows the stream until it is told otherwise, connected or not.
            _ if session => (Wire::LeaveDue, Fate::Asks),
            other => (other, Fate::Gone),
        };
        self.wire = wire;
        fate
    }

    /// The server answered with an end what the caller does not want in this way any more.
    fn over(&mut self) -> Fate {
        self.wire = DUE;
        if self.subscription.is_some() { Fate::Asks } else { Fate::Gone }
    }

    /// The server says that the subscription stands. `true`: and it is the one that is wanted.
    pub(super) fn created(&mut self) -> (Fate, bool) {
        match self.wire {
            Wire::Asked { stale: true, .. } => {
                let wanted = self.subscription.is_some();
                self.wire = if wanted { Wire::Due { anew: true } } else { Wire::LeaveDue };
                (Fate::Asks, false)
            }
            Wire::Asked { .. } | Wire::Live | Wire::Quiet if self.subscription.is_some() => {
                self.wire = Wire::Live;
                (Fate::Stays, true)
            }
            _ => (Fate::Stays, false),
        }
    }

    /// The server dropped events.
    pub(super) fn gap(&mut self) -> Fate {
        if !self.is_live() {
            return Fate::Stays;
        }
        self.wire = Wire::Due { anew: true };
        if let Some(subscription) = &mut self.subscription {
            subscription.interrupt();
        }
        Fate::Asks
    }

    /// The server says that the subscription has ended. `true`: and it is the one that is wanted.
    pub(super) fn ended(&mut self, reason: &str) -> (Fate, bool) {
        match self.wire {
            Wire::Live => (Fate::Stays, true),
            Wire::Leaving | Wire::LeaveDue => (self.over(), false),
            // The end of one that was told to end before this one was asked for.
            Wire::Asked { .. } if reason == UNSUBSCRIBED => (Fate::Stays, false),
            Wire::Asked { anew: false, stale: true } => (self.over(), false),
            Wire::Asked { anew: false, stale: false } => (Fate::Stays, true),
            _ => (Fate::Stays, false),
        }
    }

    /// The server refuses the subscription. `true`: and it is the one that is wanted.
    pub(super) fn refused(&mut self, temporary: bool) -> (Fate, bool) {
        match self.wire {
            Wire::Asked { stale: true, .. } | Wire::Leaving => (self.over(), false),
            Wire::Asked { .. } | Wire::Live if temporary => {
                self.wire = Wire::Resting;
                if let Some(subscription) = &mut self.subscription {
                    subscription.interrupt();
                }
                (Fate::Stays, true)
            }
            Wire::Asked { .. } | Wire::Live => (Fate::Gone, true),
            _ => (Fate::Stays, false),
        }
    }

    /// The connection is gone, and with it all that the server knew. Whether the lane stays.
    pub(super) fn disconnected(&mut self, session: bool) -> bool {
        match &mut self.subscription {
            Some(subscription) => {
                subscription.interrupt();
                self.wire = if subscription.of_session { Wire::Quiet } else { DUE };
                true
            }
            None => {
                self.wire = Wire::LeaveDue;
                session
            }
        }
    }
}
