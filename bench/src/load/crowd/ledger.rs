//! What was published and who has it: decides when the next message may leave, and that nothing is
//! lost, repeated or out of order.

use std::collections::VecDeque;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::latency::Latencies;

/// Messages are numbered from 0; each member of the crowd receives all of them, in order.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// How many members must receive a message before it is complete.
    expected: usize,
    /// When each message left.
    sent_at: Vec<Instant>,
    /// How many members have each of the messages from `complete` on.
    /// `complete + arrivals.len() == sent_at.len()`.
    arrivals: VecDeque<usize>,
    /// Messages below this number have arrived everywhere.
    complete: usize,
    deliveries: u64,
    /// The first message whose latency counts; `None` outside a measurement.
    measured_from: Option<usize>,
    latencies: Latencies,
}

impl Ledger {
    pub(crate) fn new(expected: usize) -> Self {
        Self {
            expected,
            sent_at: Vec::new(),
            arrivals: VecDeque::new(),
            complete: 0,
            deliveries: 0,
            measured_from: None,
            latencies: Latencies::default(),
        }
    }

    /// For members that leave or come back: only between messages.
    pub(crate) fn expect(&mut self, expected: usize) -> Result<()> {
        if self.outstanding() > 0 {
            bail!("the crowd changed while messages were under way");
        }
        self.expected = expected;
        Ok(())
    }

    pub(crate) fn publish(&mut self, messages: usize, at: Instant) {
        self.sent_at.extend(std::iter::repeat_n(at, messages));
        self.arrivals.extend(std::iter::repeat_n(0, messages));
        self.close_complete();
    }

    /// A member that had `first` messages has received `count` more. Only those of sampled members
    /// are timed, because reading the clock costs as much as counting.
    pub(crate) fn arrive(&mut self, first: usize, count: usize, is_sampled: bool) -> Result<()> {
        let end = first + count;
        if end > self.sent_at.len() {
            bail!("a subscriber has {end} messages, but {} were published", self.sent_at.len());
        }
        self.deliveries += count as u64;
        for number in first..end {
            self.arrivals[number - self.complete] += 1;
        }
        if is_sampled && let Some(measured_from) = self.measured_from {
            let now = Instant::now();
            for sent_at in &self.sent_at[first.max(measured_from).min(end)..end] {
                self.latencies.record(now.saturating_duration_since(*sent_at));
            }
        }
        self.close_complete();
        Ok(())
    }

    fn close_complete(&mut self) {
        while self.arrivals.front().is_some_and(|arrivals| *arrivals >= self.expected) {
            self.arrivals.pop_front();
            self.complete += 1;
        }
    }

    /// From here on latencies count, of messages that leave from here on.
    pub(crate) fn open_window(&mut self) {
        self.measured_from = Some(self.sent_at.len());
        self.latencies = Latencies::default();
    }

    /// The latencies since [`Ledger::open_window`]; those of messages still under way are in it if
    /// they have arrived by now.
    pub(crate) fn close_window(&mut self) -> Latencies {
        self.measured_from = None;
        std::mem::take(&mut self.latencies)
    }

    /// Messages that some member has yet to receive.
    pub(crate) fn outstanding(&self) -> usize {
        self.arrivals.len()
    }

    /// Deliveries that are still to come.
    pub(crate) fn missing(&self) -> usize {
        self.arrivals.iter().map(|arrivals| self.expected - arrivals).sum()
    }

    pub(crate) fn published(&self) -> usize {
        self.sent_at.len()
    }

    pub(crate) fn deliveries(&self) -> u64 {
        self.deliveries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_complete_when_all_have_it() -> Result<()> {
        let mut ledger = Ledger::new(2);
        ledger.publish(3, Instant::now());
        ledger.arrive(0, 2, false)?;
        assert_eq!((ledger.outstanding(), ledger.missing()), (3, 4));
        ledger.arrive(0, 3, false)?;
        assert_eq!((ledger.outstanding(), ledger.missing()), (1, 1));
        ledger.arrive(2, 1, false)?;
        assert_eq!((ledger.outstanding(), ledger.deliveries()), (0, 6));
        Ok(())
    }

    #[test]
    fn a_message_too_many_is_refused() -> Result<()> {
        let mut ledger = Ledger::new(1);
        ledger.publish(1, Instant::now());
        ledger.arrive(0, 1, false)?;
        let refused = ledger.arrive(1, 1, false).expect_err("one too many").to_string();
        assert_eq!(refused, "a subscriber has 2 messages, but 1 were published");
        Ok(())
    }

    #[test]
    fn with_nobody_to_wait_for_a_message_is_complete_at_once() {
        let mut ledger = Ledger::new(0);
        ledger.publish(1, Instant::now());
        assert_eq!(ledger.outstanding(), 0);
    }

    #[test]
    fn only_messages_of_the_window_are_timed() -> Result<()> {
        let mut ledger = Ledger::new(1);
        ledger.publish(2, Instant::now());
        ledger.open_window();
        ledger.publish(1, Instant::now());
        ledger.arrive(0, 3, true)?;
        assert_eq!(ledger.close_window().len(), 1);
        Ok(())
    }
}
