//! Latencies of one measurement, kept exactly: a run has at most a few million.

use std::time::Duration;

use serde::Serialize;

#[derive(Debug, Default)]
pub(crate) struct Latencies {
    nanos: Vec<u64>,
}

/// Milliseconds; 0 when nothing was recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Percentiles {
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

impl Latencies {
    pub(crate) fn record(&mut self, latency: Duration) {
        self.nanos.push(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.nanos.len()
    }

    /// `None` when nothing was recorded.
    pub(crate) fn percentiles_if_any(self) -> Option<Percentiles> {
        (!self.nanos.is_empty()).then(|| self.percentiles())
    }

    pub(crate) fn percentiles(mut self) -> Percentiles {
        self.nanos.sort_unstable();
        Percentiles { p50_ms: self.at(50), p99_ms: self.at(99) }
    }

    /// `nanos` must be sorted.
    fn at(&self, percent: usize) -> f64 {
        let last = self.nanos.len().saturating_sub(1);
        self.nanos.get(last * percent / 100).map_or(0.0, |nanos| *nanos as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_taken_from_the_sorted_values() {
        let mut latencies = Latencies::default();
        for millis in (0..=100).rev() {
            latencies.record(Duration::from_millis(millis));
        }
        assert_eq!(latencies.percentiles(), Percentiles { p50_ms: 50.0, p99_ms: 99.0 });
        assert_eq!(Latencies::default().percentiles(), Percentiles::default());
    }
}
