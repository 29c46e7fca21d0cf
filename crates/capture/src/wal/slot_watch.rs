//! Watches how much write-ahead log the slot keeps, and decides when that is too much.
//!
//! A slot keeps the write-ahead log from being removed until it was read. If reading stands still, the
//! disk fills up, and a database with a full disk takes no more writes. So there is a size from which
//! on people are warned, and one from which on the slot is given up: what was lost is then found by
//! comparing the tables with the log.

use serde::Deserialize;
use tidewire_options::default_of;
use tidewire_store_postgres::wal::SlotState;

/// Sizes of retained write-ahead log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WalLimits {
    /// From here on people are warned.
    pub warn_bytes: u64,
    /// From here on the slot is given up.
    #[serde(rename = "keep_bytes_max")]
    pub max_bytes: u64,
}

impl Default for WalLimits {
    fn default() -> WalLimits {
        default_of("wal")
    }
}

/// What to do about a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SlotVerdict {
    Fine,
    /// It has begun to keep more than it should.
    Warn(String),
    /// It is given up.
    GiveUp(String),
}

/// Remembers whether people were warned.
#[derive(Debug, Default)]
pub(crate) struct SlotWatch {
    warned: bool,
}

impl SlotWatch {
    pub(crate) fn check(&mut self, slot: &SlotState, limits: &WalLimits) -> SlotVerdict {
        let retained = slot.retained_bytes;
        if slot.lost {
            return SlotVerdict::GiveUp(
                "the server removed what the slot needed (max_slot_wal_keep_size)".to_owned(),
            );
        }
        if retained > limits.max_bytes {
            return SlotVerdict::GiveUp(format!(
                "the database kept {retained} bytes of write-ahead log for the slot, more than \
                 wal.keep_bytes_max = {}",
                limits.max_bytes
            ));
        }
        // Half of it again before the next warning, so that it does not flicker.
        if retained < limits.warn_bytes / 2 {
            self.warned = false;
        }
        if retained > limits.warn_bytes && !std::mem::replace(&mut self.warned, true) {
            return SlotVerdict::Warn(format!(
                "the database keeps {retained} bytes of write-ahead log until they are read; at {} \
                 the slot is given up to protect its disk. Look whether a synchronous standby holds \
                 commits back, or the log cannot be written fast enough",
                limits.max_bytes
            ));
        }
        SlotVerdict::Fine
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: WalLimits = WalLimits { warn_bytes: 100, max_bytes: 1_000 };

    fn slot(retained_bytes: u64) -> SlotState {
        SlotState { active_pid: None, lost: false, confirmed: 0, retained_bytes, behind_bytes: 0 }
    }

    #[test]
    fn people_are_warned_once_until_it_is_well_again() {
        let mut slot_watch = SlotWatch::default();
        assert_eq!(slot_watch.check(&slot(100), &LIMITS), SlotVerdict::Fine);
        assert!(matches!(slot_watch.check(&slot(101), &LIMITS), SlotVerdict::Warn(_)));
        assert_eq!(slot_watch.check(&slot(500), &LIMITS), SlotVerdict::Fine);
        assert_eq!(slot_watch.check(&slot(60), &LIMITS), SlotVerdict::Fine);
        assert_eq!(slot_watch.check(&slot(101), &LIMITS), SlotVerdict::Fine);
        assert_eq!(slot_watch.check(&slot(40), &LIMITS), SlotVerdict::Fine);
        assert!(matches!(slot_watch.check(&slot(101), &LIMITS), SlotVerdict::Warn(_)));
    }

    #[test]
    fn a_slot_that_keeps_too_much_is_given_up() {
        let mut slot_watch = SlotWatch::default();
        assert!(matches!(slot_watch.check(&slot(1_001), &LIMITS), SlotVerdict::GiveUp(_)));
        let lost = SlotState { lost: true, ..slot(0) };
        assert!(matches!(slot_watch.check(&lost, &LIMITS), SlotVerdict::GiveUp(_)));
    }
}
