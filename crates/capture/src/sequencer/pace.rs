//! When to look next. Pure.
//!
//! While there is work the sequencer looks again at once; when there is none it looks every few
//! milliseconds, then sleeps. Before that it raises a flag that writers can read, and looks once more:
//! a writer that did not see the flag has committed before that look, or is found by the next of the
//! slow looks it goes on with.

use std::time::{Duration, Instant};

use crate::options::CaptureOptions;

/// Whether writers must wake the sequencer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sleep {
    Awake,
    Asleep,
}

impl Sleep {
    /// The value of `tidewire.sequencer_sleep`.
    pub(crate) fn flag(self) -> i64 {
        match self {
            Sleep::Awake => 1,
            Sleep::Asleep => 2,
        }
    }
}

/// What to do before the next look.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) tell: Option<Sleep>,
    pub(crate) wait: Duration,
}

#[derive(Debug)]
pub(crate) struct Pace {
    poll: Duration,
    idle_poll: Duration,
    sleep_after: Duration,
    /// A transaction that was prepared for a two-phase commit cannot notify: where there can be such,
    /// nobody is asked to.
    may_sleep: bool,
    state: Sleep,
    worked_at: Option<Instant>,
}

/// How often to look where writers cannot be asked to wake us.
const SLEEPLESS_POLL: Duration = Duration::from_millis(20);

impl Pace {
    pub(crate) fn new(options: &CaptureOptions, may_sleep: bool) -> Pace {
        Pace {
            poll: options.poll,
            idle_poll: options.idle_poll,
            sleep_after: options.sleep_after,
            may_sleep,
            state: Sleep::Awake,
            worked_at: None,
        }
    }

    /// After a look that found something, or did not.
    pub(crate) fn after_round(&mut self, worked: bool, now: Instant) -> Turn {
        let worked_at = *self.worked_at.get_or_insert(now);
        if worked {
            self.worked_at = Some(now);
            let tell = (self.state == Sleep::Asleep).then_some(Sleep::Awake);
            self.state = Sleep::Awake;
            return Turn { tell, wait: Duration::ZERO };
        }
        let idle = now.duration_since(worked_at) >= self.sleep_after;
        match self.state {
            Sleep::Asleep => Turn { tell: None, wait: self.idle_poll },
            Sleep::Awake if !idle => Turn { tell: None, wait: self.poll },
            Sleep::Awake if !self.may_sleep => {
                Turn { tell: None, wait: SLEEPLESS_POLL.min(self.idle_poll) }
            }
            Sleep::Awake => {
                self.state = Sleep::Asleep;
                Turn { tell: Some(Sleep::Asleep), wait: Duration::ZERO }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> CaptureOptions {
        CaptureOptions::new("a")
    }

    #[test]
    fn it_looks_once_more_after_the_flag_is_up() {
        let (options, start) = (options(), Instant::now());
        let mut pace = Pace::new(&options, true);
        let quiet =
            |pace: &mut Pace, ms| pace.after_round(false, start + Duration::from_millis(ms));
        assert_eq!(quiet(&mut pace, 0), Turn { tell: None, wait: options.poll });
        let raise = Turn { tell: Some(Sleep::Asleep), wait: Duration::ZERO };
        assert_eq!(quiet(&mut pace, 300), raise);
        assert_eq!(quiet(&mut pace, 301), Turn { tell: None, wait: options.idle_poll });
        let wake = Turn { tell: Some(Sleep::Awake), wait: Duration::ZERO };
        assert_eq!(pace.after_round(true, start + Duration::from_millis(400)), wake);
        assert_eq!(quiet(&mut pace, 402), Turn { tell: None, wait: options.poll });
    }

    #[test]
    fn it_never_sleeps_where_transactions_may_be_prepared() {
        let (options, start) = (options(), Instant::now());
        let mut pace = Pace::new(&options, false);
        pace.after_round(true, start);
        let turn = pace.after_round(false, start + Duration::from_secs(60));
        assert_eq!(turn, Turn { tell: None, wait: SLEEPLESS_POLL });
    }
}
