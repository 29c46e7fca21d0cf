//! The options of a live connection.

use std::time::Duration;

use crate::backoff::Backoff;

/// How a live connection is made and kept.
#[derive(Debug, Clone)]
pub struct LiveOptions {
    /// The session whose subscriptions are taken up and whose pointers the acknowledgements move.
    pub session: Option<String>,
    /// Other nodes of the same system, tried in turn after the client's own address.
    pub addresses: Vec<String>,
    /// Whether to offer permessage-deflate.
    pub compression: bool,
    /// How long a server may be silent before it is asked for a sign of life. Longer than the time
    /// between a server's pings, of 25 s.
    pub silence_max: Duration,
    /// The waits between attempts to come back.
    pub backoff: Backoff,
}

impl LiveOptions {
    /// The defaults, for a session.
    pub fn session(id: impl Into<String>) -> LiveOptions {
        LiveOptions { session: Some(id.into()), ..LiveOptions::default() }
    }
}

impl Default for LiveOptions {
    fn default() -> LiveOptions {
        LiveOptions {
            session: None,
            addresses: Vec::new(),
            compression: true,
            silence_max: Duration::from_secs(60),
            // A server that was restarted is back within the first wait or two, and one that is
            // back should not be waited for long.
            backoff: Backoff::new(Duration::from_millis(200), Duration::from_secs(10)),
        }
    }
}
