//! How much a run measures. A smoke run takes seconds and proves only that nothing has rotted.

use std::time::Duration;

use crate::load::Window;

#[derive(Debug, Clone)]
pub(crate) struct Scale {
    pub(crate) name: &'static str,
    pub(crate) window: Window,
    pub(crate) producers: &'static [usize],
    pub(crate) payload_bytes: &'static [usize],
    /// The largest audience of producers: of the shared stream, the idle snapshot and the flatness
    /// runs.
    pub(crate) producers_max: usize,
    /// Of the bare insert loop.
    pub(crate) raw_measure: Duration,
    /// Long enough for the bloat behind an idle snapshot to show.
    pub(crate) idle_snapshot: Window,
    pub(crate) log_events: &'static [u64],
    pub(crate) catch_up_events: &'static [usize],
    pub(crate) catch_up_readers: &'static [usize],
    pub(crate) subscribers: &'static [usize],
}

impl Scale {
    pub(crate) fn smoke() -> Self {
        let window =
            Window { warm_up: Duration::from_millis(100), measure: Duration::from_millis(500) };
        Self {
            name: "smoke",
            window,
            producers: &[1, 16],
            payload_bytes: &[100],
            producers_max: 16,
            raw_measure: Duration::from_millis(300),
            idle_snapshot: window,
            log_events: &[1_000, 10_000],
            catch_up_events: &[1_000],
            catch_up_readers: &[1, 2],
            subscribers: &[20],
        }
    }

    pub(crate) fn standard(measure: Duration) -> Self {
        let warm_up = Duration::from_secs(1);
        Self {
            name: "standard",
            window: Window { warm_up, measure },
            producers: &[1, 16, 256],
            payload_bytes: &[100, 1024, 16 * 1024],
            producers_max: 256,
            raw_measure: measure.min(Duration::from_secs(3)),
            idle_snapshot: Window { warm_up, measure: measure.max(Duration::from_secs(15)) },
            log_events: &[10_000, 1_000_000],
            catch_up_events: &[1_000, 100_000],
            catch_up_readers: &[1, 16],
            subscribers: &[100, 1000],
        }
    }

    pub(crate) fn full(measure: Duration) -> Self {
        let log_events = &[10_000, 1_000_000, 10_000_000];
        Self { name: "full", log_events, ..Self::standard(measure) }
    }
}
