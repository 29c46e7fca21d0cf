//! The errors of handlers and of members.

use std::fmt::Display;
use std::time::Duration;

use tidewire_store::groups::{GroupError, Verdict};

/// Why a handler did not handle events, and what is to be done about it. Any error with `?` is a retry.
#[derive(Debug)]
pub struct HandlerError {
    pub(crate) verdict: Verdict,
    pub(crate) text: String,
    pub(crate) offset: Option<u64>,
    pub(crate) after: Option<Duration>,
}

impl HandlerError {
    /// Try again, until the attempts are used up.
    pub fn retry(error: impl Display) -> HandlerError {
        HandlerError::of(Verdict::Retry, error)
    }

    /// No attempt will help: a dead letter.
    pub fn dead(error: impl Display) -> HandlerError {
        HandlerError::of(Verdict::Dead, error)
    }

    /// Nobody should go on: the member ends with this error.
    pub fn stop(error: impl Display) -> HandlerError {
        HandlerError::of(Verdict::Stop, error)
    }

    fn of(verdict: Verdict, error: impl Display) -> HandlerError {
        HandlerError { verdict, text: error.to_string(), offset: None, after: None }
    }

    /// Names the event that it is about: its source transaction is not tried once more to find that out.
    #[must_use]
    pub fn at(mut self, position: u64) -> HandlerError {
        self.offset = Some(position);
        self
    }

    /// Says how long to wait before the next attempt.
    #[must_use]
    pub fn after(mut self, wait: Duration) -> HandlerError {
        self.after = Some(wait);
        self
    }
}

impl<E: std::error::Error> From<E> for HandlerError {
    fn from(error: E) -> HandlerError {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let next = error.to_string();
            // Many errors repeat their cause in their own text.
            if !text.contains(&next) {
                text.push_str(": ");
                text.push_str(&next);
            }
            cause = error.source();
        }
        HandlerError::retry(text)
    }
}

/// Why a member ended, or did not begin.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for makes no sense; the text says why.
    #[error("{0}")]
    Invalid(String),
    /// A handler said so.
    #[error("the handler stopped: {0}")]
    Stopped(String),
    /// The group, or the store.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The member broke by itself: a mistake of the library.
    #[error("the member broke by itself, which is a mistake of tidewire-consumer: {0}")]
    Broken(String),
}
