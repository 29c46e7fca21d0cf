//! Options of live connections and their sessions.

use std::time::Duration;

/// How live connections are served.
#[derive(Debug, Clone)]
pub struct LiveOptions {
    /// Tasks that the connections are spread over; 0 is one for each core.
    pub shards: usize,
    /// How often a client is asked whether it is there.
    pub ping: Duration,
    /// How long a client may be silent before it is given up.
    pub silence: Duration,
    /// Events that wait for one connection before they become a gap.
    pub queue_events_max: usize,
    /// Bytes likewise.
    pub queue_bytes_max: usize,
    /// How long an event may wait for one connection before it becomes a gap.
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
    pub reconnect_spread: Duration,
    /// Resident memory above which new live connections are refused; a warning comes at 80 %.
    pub memory_bytes_max: usize,
}

impl Default for LiveOptions {
    fn default() -> LiveOptions {
        LiveOptions {
            shards: 0,
            ping: Duration::from_secs(25),
            silence: Duration::from_secs(60),
            queue_events_max: 10_000,
            queue_bytes_max: 4 << 20,
            queue_age: Duration::from_secs(300),
            notify_bytes: 64 << 10,
            fan_out_threshold: 200,
            connections_per_identity_max: 10_000,
            subscriptions_max: 1_000,
            entities_max: 10_000,
            single_connection_per_user: false,
            message_bytes_max: 1 << 20,
            reconnect_spread: Duration::from_secs(3),
            memory_bytes_max: 4 << 30,
        }
    }
}

/// How long sessions are kept.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// After the last sign of life.
    pub ttl: Duration,
    /// Subscriptions that nobody has acknowledged for so long are removed, unless they are live.
    pub stale: Duration,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        SessionOptions { ttl: Duration::from_secs(600), stale: Duration::from_secs(24 * 3600) }
    }
}
