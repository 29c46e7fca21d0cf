//! The first connection of a command that follows something.
//!
//! Later connections are retried for ever, because servers come back. But a wrong URL or an unknown certificate does
//! not get better by waiting: the first connection fails with it at once.

use tidewire_client::{ClientError, ConnectFailure, Update};

/// Whether there was a connection.
#[derive(Debug, Default)]
pub(super) struct Connecting {
    is_done: bool,
}

impl Connecting {
    /// Hands an update on, unless it says that there never will be a connection.
    pub(super) fn take(&mut self, update: Update) -> Result<Update, ClientError> {
        match update {
            Update::Disconnected { error, retry_in } => match error.unreached() {
                Some(ConnectFailure::NotEncrypted | ConnectFailure::Certificate)
                    if !self.is_done =>
                {
                    Err(error)
                }
                _ => Ok(Update::Disconnected { error, retry_in }),
            },
            update => {
                self.is_done |= matches!(update, Update::Connected { .. });
                Ok(update)
            }
        }
    }
}
