//! When the sequencer looks for staged rows again. Pure.
//!
//! While transactions come one by one the sequencer looks again at once, and they go out at once. When
//! they come in crowds it pauses, for longer the more a look costs: so they share a commit instead of
//! taking the processor from those who make them. When there is none it looks every few milliseconds,
//! then sleeps. Before that it raises a flag that writers can read, and looks once more: a writer that
//! did not see the flag has committed before that look, or is found by the looks it goes on with, which
//! become slower and slower.

use std::time::{Duration, Instant};

use crate::group_commit;
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
pub(crate) struct NextPoll {
    pub(crate) tell: Option<Sleep>,
    pub(crate) wait: Duration,
}

#[derive(Debug)]
pub(crate) struct Polling {
    poll: Duration,
    idle_poll: Duration,
    sleep_after: Duration,
    /// A transaction that was prepared for a two-phase commit cannot notify: where there can be such,
    /// nobody is asked to.
    may_sleep: bool,
    state: Sleep,
    worked_at: Option<Instant>,
    /// Looks in vain since it fell asleep.
    looks_asleep: u32,
}

/// How often to look where writers cannot be asked to wake us.
const SLEEPLESS_POLL: Duration = Duration::from_millis(20);

/// The first pause of one who fell asleep, doubled from look to look.
const DROWSY_POLL: Duration = Duration::from_millis(5);

impl Polling {
    pub(crate) fn new(options: &CaptureOptions, may_sleep: bool) -> Polling {
        Polling {
            poll: options.poll,
            idle_poll: options.idle_poll,
            sleep_after: options.sleep_after,
            may_sleep,
            state: Sleep::Awake,
            worked_at: None,
            looks_asleep: 0,
        }
    }

    /// After a look that took so long and found so many transactions.
    pub(crate) fn after_round(&mut self, found: usize, took: Duration, now: Instant) -> NextPoll {
        let worked_at = *self.worked_at.get_or_insert(now);
        if found > 0 {
            self.worked_at = Some(now);
            let tell = (self.state == Sleep::Asleep).then_some(Sleep::Awake);
            self.state = Sleep::Awake;
            return NextPoll { tell, wait: group_commit::pause(found, took).max(self.poll) };
        }
        let idle = now.duration_since(worked_at) >= self.sleep_after;
        match self.state {
            Sleep::Asleep => {
                let pause = DROWSY_POLL.saturating_mul(1 << self.looks_asleep.min(16));
                self.looks_asleep += 1;
                NextPoll { tell: None, wait: pause.min(self.idle_poll) }
            }
            Sleep::Awake if !idle => NextPoll { tell: None, wait: self.poll },
            Sleep::Awake if !self.may_sleep => {
                NextPoll { tell: None, wait: SLEEPLESS_POLL.min(self.idle_poll) }
            }
            Sleep::Awake => {
                self.state = Sleep::Asleep;
                self.looks_asleep = 0;
                NextPoll { tell: Some(Sleep::Asleep), wait: Duration::ZERO }
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

    const LOOK: Duration = Duration::from_micros(300);

    #[test]
    fn it_looks_once_more_after_the_flag_is_up() {
        let (options, start) = (options(), Instant::now());
        let mut polling = Polling::new(&options, true);
        let quiet = |polling: &mut Polling, ms| {
            polling.after_round(0, LOOK, start + Duration::from_millis(ms))
        };
        assert_eq!(quiet(&mut polling, 0), NextPoll { tell: None, wait: options.poll });
        let raise = NextPoll { tell: Some(Sleep::Asleep), wait: Duration::ZERO };
        assert_eq!(quiet(&mut polling, 300), raise);
        for wait in [5, 10, 20, 40, 80, 100, 100] {
            let wait = Duration::from_millis(wait);
            assert_eq!(quiet(&mut polling, 301), NextPoll { tell: None, wait });
        }
        let wake = NextPoll { tell: Some(Sleep::Awake), wait: options.poll };
        assert_eq!(polling.after_round(1, LOOK, start + Duration::from_millis(400)), wake);
        assert_eq!(quiet(&mut polling, 402), NextPoll { tell: None, wait: options.poll });
    }

    #[test]
    fn after_a_crowd_it_pauses_for_longer_the_more_a_look_costs() {
        let (options, start) = (options(), Instant::now());
        let mut polling = Polling::new(&options, true);
        for (took_ms, wait_ms) in [(2, 8), (3, 12), (50, 20)] {
            let took = Duration::from_millis(took_ms);
            assert_eq!(
                polling.after_round(group_commit::CROWD_MIN, took, start).wait,
                Duration::from_millis(wait_ms)
            );
            assert_eq!(
                polling.after_round(group_commit::CROWD_MIN - 1, took, start).wait,
                options.poll
            );
        }
    }

    #[test]
    fn it_never_sleeps_where_transactions_may_be_prepared() {
        let (options, start) = (options(), Instant::now());
        let mut polling = Polling::new(&options, false);
        polling.after_round(1, LOOK, start);
        let next = polling.after_round(0, LOOK, start + Duration::from_secs(60));
        assert_eq!(next, NextPoll { tell: None, wait: SLEEPLESS_POLL });
    }
}
