//! How long something takes that takes nanoseconds.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The CPU time of one of these, in nanoseconds, over some time at least.
pub(super) fn repeat<T>(time: Duration, all: &[T], mut act: impl FnMut(&T)) -> f64 {
    /// How many are done between two looks at the clock, if each is short.
    const BATCH: usize = 256;
    let began = thread_time();
    let mut done = 0_u64;
    let mut turns = all.iter().cycle();
    let mut batch = 1;
    while thread_time() - began < time || done == 0 {
        turns.by_ref().take(batch).for_each(&mut act);
        done += batch as u64;
        let is_short = thread_time() - began < time / 100;
        batch = if is_short { BATCH } else { batch };
    }
    (thread_time() - began).as_nanos() as f64 / done as f64
}

/// CPU time of this thread: what others do on the machine is not in it.
pub(super) fn thread_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or_default())
}
