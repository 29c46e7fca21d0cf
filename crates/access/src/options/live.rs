//! Options of live connections and their sessions.

use std::time::Duration;

use serde::Deserialize;
use tidewire_options::{default_of, ms};

/// How live connections are served.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LiveOptions {
    /// Tasks that the connections are spread over; 0 is one for each core.
    pub shards: usize,
    /// How often a client is asked whether it is there.
    #[serde(rename = "ping_ms", deserialize_with = "ms")]
    pub ping: Duration,
    /// How long a client may be silent before it is given up.
    #[serde(rename = "silence_ms", deserialize_with = "ms")]
    pub silence: Duration,
    /// Events that wait for one connection before they become a gap.
    pub queue_events_max: usize,
    /// Bytes likewise.
    pub queue_bytes_max: usize,
    /// How long an event may wait for one connection before it becomes a gap.
    #[serde(rename = "queue_age_ms", deserialize_with = "ms")]
    pub queue_age: Duration,
    /// Payloads larger than this are announced, not pushed.
    pub notify_bytes: usize,
    /// Audiences larger than this are served in slices, of as many or fewer.
    pub fan_out_threshold: usize,
    /// Live connections of one key, user or administrator.
    pub connections_per_identity_max: usize,
    /// Subscriptions of one connection.
    pub subscriptions_max: usize,
    /// Entities that one connection is told of.
    pub entities_max: usize,
    /// Whether a user's WebSocket takes the place of the one they have, on any node.
    pub single_connection_per_user: bool,
    /// Bytes of one message from a client.
    pub message_bytes_max: usize,
    /// When the server goes away, its clients are told to come back within this time, spread.
    #[serde(rename = "reconnect_spread_ms", deserialize_with = "ms")]
    pub reconnect_spread: Duration,
    /// Resident memory above which new live connections are refused; a warning comes at 80 %.
    pub memory_bytes_max: usize,
}

impl Default for LiveOptions {
    fn default() -> LiveOptions {
        default_of("live")
    }
}

/// How long sessions are kept.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionOptions {
    /// After the last sign of life.
    #[serde(rename = "ttl_ms", deserialize_with = "ms")]
    pub ttl: Duration,
    /// Subscriptions that nobody has acknowledged for so long are removed, unless they are live.
    #[serde(rename = "stale_ms", deserialize_with = "ms")]
    pub stale: Duration,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        default_of("sessions")
    }
}
