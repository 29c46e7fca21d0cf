//! Compares answers, and says what was compared.

use std::collections::HashMap;

use rand::SeedableRng as _;
use rand::rngs::StdRng;
use tidewire_query::{Predicate, Row, Table, Truth};

use crate::condition::{CONSTRUCTS, Random, Subject};
use crate::tally::Tally;
use crate::who::Who;

/// Conditions that are tried on each database, unless someone asks for more.
const CONDITIONS: u64 = 5_000;
/// Answers of which one may be unsure, though the rows are as strange as can be.
const UNSURE_ONE_IN: u64 = 20;
/// Differences that are told before the rest is left out.
const TOLD_MAX: usize = 12;

/// The random numbers of a run.
pub(crate) fn random() -> StdRng {
    StdRng::seed_from_u64(setting("TIDEWIRE_ORACLE_SEED", 6))
}

/// How many conditions are tried.
pub(crate) fn conditions() -> u64 {
    setting("TIDEWIRE_ORACLE_CONDITIONS", CONDITIONS)
}

fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")),
        Err(_) => default,
    }
}

/// A condition that was taken, and what it had in it.
pub(crate) struct Taken {
    pub(crate) made: Random,
    pub(crate) predicate: Predicate,
}

/// What was compared, and what differed.
pub(crate) struct Judge {
    tally: Tally,
    table: Table,
    images: Vec<String>,
    differences: Vec<String>,
    /// A text and the answers of each predicate that was seen.
    known: HashMap<Predicate, (String, Vec<Option<bool>>)>,
    /// Whether a row's image may leave a predicate unsure.
    may_be_unsure: bool,
}

impl Judge {
    pub(crate) fn new(
        table: Table,
        images: Vec<String>,
        subjects: &[Subject],
        may_be_unsure: bool,
    ) -> Judge {
        let mut tally = Tally::default();
        tally.expect("construct", &CONSTRUCTS);
        let types: Vec<&'static str> = subjects.iter().map(|subject| subject.type_name).collect();
        tally.expect("type", &types);
        tally.expect("answer", &["true", "false", "unknown"]);
        tally.expect("condition", &["taken", "refused", "equal to another"]);
        Judge {
            tally,
            table,
            images,
            differences: Vec::new(),
            known: HashMap::new(),
            may_be_unsure,
        }
    }

    /// A condition that is worth asking the database about.
    pub(crate) fn take(&mut self, made: Random) -> Option<Taken> {
        match Predicate::parse(&made.text, &self.table, &Who) {
            Ok(predicate) => {
                self.tally.add("condition", "taken", 1);
                Some(Taken { made, predicate })
            }
            Err(refusal) => {
                self.tally.add("condition", "refused", 1);
                self.tally.add("refusal", refusal.code, 1);
                None
            }
        }
    }

    /// The database refuses what was taken.
    pub(crate) fn failed(&mut self, taken: &Taken, error: &str) {
        if taken.made.is_mutant {
            self.tally.add("condition", "taken, none to the database", 1);
            return;
        }
        self.differences.push(format!("{}\n    the database says: {error}", taken.made.text));
    }

    /// The database's answers, a row each.
    pub(crate) fn compare(&mut self, taken: &Taken, answers: &[Option<bool>]) {
        assert_eq!(answers.len(), self.images.len(), "an answer for each row");
        self.compare_with_equals(taken, answers);
        let mut compared = 0;
        for (image, answer) in self.images.iter().zip(answers) {
            let row = Row::parse(image.as_bytes()).expect("an image");
            let (name, expected) = match answer {
                Some(true) => ("true", Truth::True),
                Some(false) => ("false", Truth::False),
                None => ("unknown", Truth::Unknown),
            };
            match taken.predicate.test(&row) {
                Err(_) if self.may_be_unsure => {
                    self.tally.add("answer", "unsure", 1);
                    continue;
                }
                Ok(truth) if truth == expected => {}
                other => self.differences.push(format!(
                    "{}\n    is {other:?}, and {expected:?} to the database, for {image}\n    as {}",
                    taken.made.text,
                    taken.predicate.key()
                )),
            }
            self.tally.add("answer", name, 1);
            compared += 1;
        }
        if taken.made.is_mutant {
            self.tally.add("construct", "mutant", compared);
            return;
        }
        for construct in &taken.made.constructs {
            self.tally.add("construct", construct, compared);
        }
        for type_name in &taken.made.types {
            self.tally.add("type", type_name, compared);
        }
    }

    /// Predicates that are equal must have equal answers, because their work is shared.
    fn compare_with_equals(&mut self, taken: &Taken, answers: &[Option<bool>]) {
        let Some((text, known)) = self.known.get(&taken.predicate) else {
            let entry = (taken.made.text.clone(), answers.to_vec());
            self.known.insert(taken.predicate.clone(), entry);
            return;
        };
        self.tally.add("condition", "equal to another", 1);
        if known != answers {
            let key = taken.predicate.key();
            let difference =
                format!("{}\n    is not\n{text}\n    though both are {key}", taken.made.text);
            self.differences.push(difference);
        }
    }

    /// Says what was compared, and fails if anything differed or was never compared.
    pub(crate) fn verdict(self, of: &str) {
        eprintln!("{of}\n{}", self.tally);
        let told: Vec<String> = self.differences.iter().take(TOLD_MAX).cloned().collect();
        let (count, told) = (self.differences.len(), told.join("\n\n"));
        assert!(count == 0, "{count} answers differ from those of {of}:\n\n{told}");
        let zeros = self.tally.zeros();
        assert!(zeros.is_empty(), "never compared on {of}: {zeros:?}");
        let answers: u64 =
            ["true", "false", "unknown"].iter().map(|name| self.tally.of("answer", name)).sum();
        let unsure = self.tally.of("answer", "unsure");
        assert!(unsure * UNSURE_ONE_IN < answers, "{unsure} are unsure, and {answers} not");
        let (taken, refused) =
            (self.tally.of("condition", "taken"), self.tally.of("condition", "refused"));
        assert!(taken > refused / 3, "{refused} of {} are refused", taken + refused);
    }
}
