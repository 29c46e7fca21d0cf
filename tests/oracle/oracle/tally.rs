//! What was compared, and how often.

use std::collections::BTreeMap;
use std::fmt;

/// Counts of everything that a condition had in it, and of how it ended.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    counts: BTreeMap<(&'static str, &'static str), u64>,
}

impl Tally {
    /// Makes sure that a name is counted, if only as zero.
    pub(crate) fn expect(&mut self, kind: &'static str, names: &[&'static str]) {
        for name in names {
            self.counts.entry((kind, name)).or_default();
        }
    }

    pub(crate) fn add(&mut self, kind: &'static str, name: &'static str, times: u64) {
        *self.counts.entry((kind, name)).or_default() += times;
    }

    pub(crate) fn of(&self, kind: &'static str, name: &'static str) -> u64 {
        self.counts.get(&(kind, name)).copied().unwrap_or_default()
    }

    /// What was never compared.
    pub(crate) fn zeros(&self) -> Vec<String> {
        let zeros = self.counts.iter().filter(|(_, times)| **times == 0);
        zeros.map(|((kind, name), _)| format!("{kind} {name}")).collect()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((kind, name), times) in &self.counts {
            writeln!(f, "{kind:<10} {name:<28} {times:>9}")?;
        }
        Ok(())
    }
}
