//! What one producer sent, what it was told about each append, and whether the stream keeps to it.
//!
//! Every append of a producer has a number, and every message says whose append it belongs to and
//! which part of it it is. So a stream's events tell by themselves what was lost, repeated, torn or
//! swapped.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::complaint::Complaint;
use crate::transcript::Event;

/// What a producer knows of one append.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fate {
    /// It may be there or not: no answer came, or none yet.
    Open,
    /// It is durable, and ends at this offset.
    Acknowledged { offset: String },
    /// The server promised that nothing was written.
    NotWritten,
}

/// One producer's book.
#[derive(Debug, Clone)]
pub struct Account {
    by: String,
    messages_per_append: u64,
    /// An idempotent producer repeats an append until it is acknowledged, so it leaves no hole.
    idempotent: bool,
    appends: BTreeMap<u64, Fate>,
    complaints: Vec<Complaint>,
}

/// Whether the producer may have gone on while the stream was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Producing {
    GoesOn,
    IsOver,
}

impl Account {
    /// An empty book.
    pub fn new(by: &str, messages_per_append: u64, idempotent: bool) -> Account {
        Account {
            by: by.to_owned(),
            messages_per_append,
            idempotent,
            appends: BTreeMap::new(),
            complaints: Vec::new(),
        }
    }

    /// The body of an append: its messages, as an array.
    pub fn body(&self, n: u64) -> Value {
        let message = |part| self.message(n, part);
        (0..self.messages_per_append).map(message).collect()
    }

    fn message(&self, n: u64, part: u64) -> Value {
        json!({ "by": self.by, "n": n, "part": part, "of": self.messages_per_append })
    }

    /// Notes that an append is about to be sent.
    pub fn sending(&mut self, n: u64) {
        self.appends.insert(n, Fate::Open);
    }

    /// Notes that it is durable.
    pub fn acknowledged(&mut self, n: u64, offset: String) {
        self.appends.insert(n, Fate::Acknowledged { offset });
    }

    /// Notes that it was not accepted. What may be there after one attempt may be there for good.
    pub fn complained(&mut self, n: u64, complaint: Complaint) {
        if complaint.nothing_written() && !self.idempotent {
            self.appends.insert(n, Fate::NotWritten);
        }
        self.complaints.push(complaint);
    }

    /// All that the producer was told besides success.
    pub fn complaints(&self) -> &[Complaint] {
        &self.complaints
    }

    /// Compares the book with the stream. The error says what is wrong with the stream.
    pub fn compare(&self, events: &[Event], producing: Producing) -> Result<(), String> {
        let found = self.find(events)?;
        for (n, fate) in &self.appends {
            match (fate, found.get(n)) {
                (Fate::Open, _) | (Fate::NotWritten, None) => {}
                (Fate::Acknowledged { offset }, Some(at)) if offset == at => {}
                (Fate::Acknowledged { offset }, Some(at)) => {
                    return self
                        .wrong(*n, &format!("was acknowledged at {offset}, but is at {at}"));
                }
                (Fate::Acknowledged { offset }, None) => {
                    return self.wrong(*n, &format!("was acknowledged at {offset}, and is lost"));
                }
                (Fate::NotWritten, Some(at)) => {
                    return self.wrong(*n, &format!("is at {at}, though nothing was written"));
                }
            }
        }
        let last_sent = self.appends.keys().next_back();
        let unsent = |n: &&u64| producing == Producing::IsOver || Some(*n) < last_sent;
        match found.keys().filter(|n| !self.appends.contains_key(n)).find(unsent) {
            Some(n) => self.wrong(*n, "was never sent"),
            None => Ok(()),
        }
    }

    /// This producer's appends in the stream, each by the offset it ends at. They are whole, in the
    /// order they were sent, and there once; those of an idempotent producer leave none out.
    fn find(&self, events: &[Event]) -> Result<BTreeMap<u64, String>, String> {
        let mut found = BTreeMap::new();
        let mut mine = events.iter().filter(|event| event.payload["by"] == self.by.as_str());
        while let Some(first) = mine.next() {
            let n = first.payload["n"].as_u64().unwrap_or(u64::MAX);
            let expected = match found.last_key_value() {
                None => 0,
                Some((last, _)) => last + 1,
            };
            if n < expected {
                self.wrong(n, "is there twice, or out of order")?;
            }
            if self.idempotent && n > expected {
                self.wrong(expected, &format!("is missing before append {n}"))?;
            }
            let mut last = first;
            for part in 0..self.messages_per_append {
                if part > 0 {
                    let Some(next) = mine.next().filter(|e| e.position() == last.position() + 1)
                    else {
                        return self.wrong(n, "is torn").map(|()| found);
                    };
                    last = next;
                }
                if last.payload != self.message(n, part) {
                    self.wrong(n, &format!("has come back as {}", last.payload))?;
                }
            }
            found.insert(n, last.offset.clone());
        }
        Ok(found)
    }

    fn wrong(&self, n: u64, what: &str) -> Result<(), String> {
        Err(format!("append {n} of {} {what}", self.by))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Appends 0, 1, … of an account, each acknowledged, and the stream that holds them.
    fn kept(account: &mut Account, appends: u64) -> Vec<Event> {
        let mut events = Vec::new();
        for n in 0..appends {
            for payload in account.body(n).as_array().expect("an array") {
                let offset = format!("0001_{:016}", events.len() + 1);
                let payload = payload.clone();
                events.push(Event { offset, payload });
            }
            let offset = events.last().expect("an event").offset.clone();
            account.acknowledged(n, offset);
        }
        events
    }

    fn verdict(account: &Account, events: &[Event]) -> String {
        let compared = account.compare(events, Producing::IsOver);
        compared.err().unwrap_or_else(|| "fine".to_owned())
    }

    #[test]
    fn loss_repetition_disorder_and_tearing_are_each_told() {
        let mut account = Account::new("p", 2, false);
        let whole = kept(&mut account, 3);
        assert_eq!(verdict(&account, &whole), "fine");
        let without = |index: usize| [&whole[..index], &whole[index + 1..]].concat();
        let lost = [&whole[..2], &whole[4..]].concat();
        assert!(verdict(&account, &lost).contains("append 1 of p was acknowledged"));
        assert_eq!(verdict(&account, &without(1)), "append 0 of p is torn");
        let twice = [&whole[..], &whole[..2]].concat();
        assert!(verdict(&account, &twice).contains("append 0 of p is there twice"));
        let mut altered = whole.clone();
        altered[3].payload["n"] = json!(7);
        assert!(verdict(&account, &altered).contains("append 1 of p has come back as"));
    }

    #[test]
    fn a_promise_that_nothing_was_written_binds() {
        let mut account = Account::new("p", 1, false);
        let events = kept(&mut account, 2);
        let refusal = |code: &str| Complaint::Problem {
            status: 503,
            code: code.to_owned(),
            temporary: true,
            retry_after: None,
        };
        account.sending(1);
        account.complained(1, refusal("outcome_unknown"));
        assert_eq!(verdict(&account, &events), "fine");
        assert_eq!(verdict(&account, &events[..1]), "fine");
        account.complained(1, refusal("store_unavailable"));
        assert!(verdict(&account, &events).contains("though nothing was written"));
    }

    #[test]
    fn an_idempotent_producer_leaves_no_hole() {
        let mut account = Account::new("p", 1, true);
        let events = kept(&mut account, 3);
        account.sending(1);
        let hole = [&events[..1], &events[2..]].concat();
        assert!(verdict(&account, &hole).contains("append 1 of p is missing"));
    }

    #[test]
    fn what_was_sent_meanwhile_may_be_there_and_what_never_was_may_not() {
        let mut account = Account::new("p", 1, true);
        let mut events = kept(&mut account, 2);
        events.push(Event {
            offset: "0001_0000000000000003".to_owned(),
            payload: account.message(2, 0),
        });
        assert_eq!(account.compare(&events, Producing::GoesOn), Ok(()));
        assert_eq!(verdict(&account, &events), "append 2 of p was never sent");
    }
}
