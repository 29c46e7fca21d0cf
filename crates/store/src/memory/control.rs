//! The control channel.

use std::collections::BTreeMap;

use crate::control::{ControlCursor, ControlMessage, Present, SETTLED_AFTER_MS, SWEPT_MAX};
use crate::error::StoreError;
use crate::keys::duration;

/// What was said and is kept.
#[derive(Debug, Default)]
pub(super) struct Messages {
    /// By id, with the time.
    kept: BTreeMap<i64, (ControlMessage, i64)>,
    /// The last id that was given. None is given twice, also when its message has gone.
    last_id: i64,
}

/// Refuses what the databases' tables would: a text that is no JSON.
pub(super) fn checked_json(operation: &'static str, text: &str) -> Result<(), StoreError> {
    let checked = serde_json::from_str::<&serde_json::value::RawValue>(text);
    checked.map(drop).map_err(|error| StoreError::Broken { operation, reason: error.to_string() })
}

impl Messages {
    pub(super) fn send(&mut self, kind: &str, body: &str, now_ms: i64) -> Result<(), StoreError> {
        checked_json("send a control message", body)?;
        self.say(kind, body.to_owned(), now_ms);
        Ok(())
    }

    /// Says that a key is no longer what may be remembered of it.
    pub(super) fn key_changed(&mut self, id: i64, now_ms: i64) {
        self.say("key_changed", format!(r#"{{"id":{id}}}"#), now_ms);
    }

    fn say(&mut self, kind: &str, body: String, now_ms: i64) {
        self.last_id += 1;
        let message = ControlMessage { id: self.last_id, kind: kind.to_owned(), body };
        self.kept.insert(self.last_id, (message, now_ms));
    }

    /// What a cursor has not seen. From then on it has.
    pub(super) fn since(&self, cursor: &mut ControlCursor, now_ms: i64) -> Vec<ControlMessage> {
        let settled_ms = now_ms - SETTLED_AFTER_MS;
        let above = self.kept.range(cursor.floor() + 1..);
        let present: Vec<Present> = above
            .map(|(id, (_, sent_at_ms))| Present { id: *id, settled: *sent_at_ms <= settled_ms })
            .collect();
        let news = cursor.advance(&present);
        news.iter().filter_map(|id| Some(self.kept.get(id)?.0.clone())).collect()
    }

    /// Removes some of those that are older than so long, the oldest first, and says how many.
    pub(super) fn sweep(&mut self, keep_ms: u64, now_ms: i64) -> usize {
        let before_ms = now_ms - duration(keep_ms);
        let old = self.kept.iter().filter(|(_, (_, sent_at_ms))| *sent_at_ms <= before_ms);
        let mut old: Vec<(i64, i64)> = old.map(|(id, (_, at_ms))| (*at_ms, *id)).collect();
        old.sort_unstable();
        old.truncate(SWEPT_MAX);
        for (_, id) in &old {
            self.kept.remove(id);
        }
        old.len()
    }
}
