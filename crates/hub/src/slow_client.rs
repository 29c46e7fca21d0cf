//! A connection of which a test is the other end, that takes what it is sent piece by piece.

use bytes::Bytes;
use tokio::sync::mpsc;

use super::connection::Connection;
use super::flush::{FlushState, WriteBudget};
use super::frames::Dialect;
use super::stats::Stats;
use super::transport::{ServerSent, Transport};
use crate::testing;

/// Both ends.
pub(crate) struct SlowClient {
    pub connection: Connection,
    body: mpsc::Receiver<Bytes>,
    /// What it has taken.
    pub got: String,
    /// How many subscriptions were to go on in another way.
    pub(crate) went_on: usize,
}

impl SlowClient {
    pub(crate) fn new() -> SlowClient {
        let (sender, body) = mpsc::channel(1);
        let transport = Transport::ServerSent(ServerSent { body: sender });
        let connection = Connection::new(1, testing::connection_info("c"), transport, 0);
        SlowClient { connection, body, got: String::new(), went_on: 0 }
    }

    /// The client takes some pieces, and the outbox gives what it can.
    pub(crate) fn reads(&mut self, pieces: usize) {
        let stats = Stats::default();
        for _ in 0..=pieces {
            let Connection { outbox, transport, subscriptions, .. } = &mut self.connection;
            let (deflater, dialect) = (&mut None, Dialect::ServerSent);
            let room = WriteBudget { stats: &stats, deflater, dialect, wall_ms: 0 };
            let mut flush_state = FlushState { subscriptions, room, go_on: Vec::new() };
            outbox.flush(transport, &mut flush_state);
            self.went_on += flush_state.go_on.len();
            if let Ok(piece) = self.body.try_recv() {
                self.got.push_str(std::str::from_utf8(&piece).expect("text"));
            }
        }
    }
}
