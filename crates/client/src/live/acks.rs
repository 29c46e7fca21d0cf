//! What the caller has processed, until the server knows. Pure.
//!
//! Acknowledgements only grow, so the newest of each stream is enough to keep and to send: sending them seldom is
//! cheap. They move the pointers of a session; without a session nothing is kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::wire::Acked;

#[derive(Debug, Default)]
pub(super) struct Acks {
    streams: BTreeMap<Arc<str>, Ack>,
    progress: Option<Ack>,
    /// Whether any is due.
    due: bool,
}

#[derive(Debug)]
struct Ack {
    offset: String,
    /// The server has not been told over this connection.
    due: bool,
}

impl Ack {
    /// Whether it moved.
    fn raise(&mut self, offset: &str, due: bool) -> bool {
        let rises = *self.offset < *offset;
        if rises {
            offset.clone_into(&mut self.offset);
            self.due = due;
        }
        rises
    }
}

impl Acks {
    pub(super) fn stream(&mut self, stream: &Arc<str>, offset: &str) {
        self.due |= self.raise(stream, offset, true);
    }

    /// All up to `offset` was processed, of each of `streams`: one acknowledgement says it for all.
    pub(super) fn progress<'a>(
        &mut self,
        offset: &str,
        streams: impl Iterator<Item = &'a Arc<str>>,
    ) {
        let new = || Ack { offset: String::new(), due: false };
        self.due |= self.progress.get_or_insert_with(new).raise(offset, true);
        for stream in streams {
            self.raise(stream, offset, false);
        }
    }

    /// What was acknowledged of a stream.
    pub(super) fn of(&self, stream: &str) -> Option<&str> {
        self.streams.get(stream).map(|ack| ack.offset.as_str())
    }

    pub(super) fn are_due(&self) -> bool {
        self.due
    }

    /// What is to be sent. `followed` says whose place must be remembered for a return.
    pub(super) fn take(&mut self, followed: impl Fn(&str) -> bool) -> Vec<Acked> {
        self.due = false;
        let mut acked = Vec::new();
        for (stream, ack) in self.streams.iter_mut().filter(|(_, ack)| ack.due) {
            ack.due = false;
            let (stream_id, last_offset) = (Some(stream.to_string()), ack.offset.clone());
            acked.push(Acked { stream_id, last_offset });
        }
        if let Some(ack) = self.progress.as_mut().filter(|ack| ack.due) {
            ack.due = false;
            acked.push(Acked { stream_id: None, last_offset: ack.offset.clone() });
        }
        self.streams.retain(|stream, _| followed(stream));
        acked
    }

    /// What was sent over a lost connection may not have arrived. A `progress` belonged to that
    /// connection alone.
    pub(super) fn interrupt(&mut self) {
        self.progress = None;
        self.streams.values_mut().for_each(|ack| ack.due = true);
        self.due = !self.streams.is_empty();
    }

    fn raise(&mut self, stream: &Arc<str>, offset: &str, due: bool) -> bool {
        let new = || Ack { offset: String::new(), due: false };
        self.streams.entry(stream.clone()).or_insert_with(new).raise(offset, due)
    }
}
