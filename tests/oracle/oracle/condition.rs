//! Random conditions over the columns of a table.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;

use crate::who::IDENTITIES;

/// A column of the table that is asked about.
#[derive(Debug)]
pub(crate) struct Subject {
    /// As it is written in a condition.
    pub(crate) name: &'static str,
    /// What it is counted as.
    pub(crate) type_name: &'static str,
    /// Values for it, as they are written in a condition.
    pub(crate) values: Vec<String>,
    /// Whether LIKE is for it.
    pub(crate) is_text: bool,
    /// Whether it is a condition by itself.
    pub(crate) is_condition: bool,
    /// Columns that it may be compared with.
    pub(crate) like_it: &'static [&'static str],
    /// What may be written after its name, such as a collation.
    pub(crate) suffixes: &'static [&'static str],
}

/// A condition, and what is in it.
#[derive(Debug, Default)]
pub(crate) struct Random {
    pub(crate) text: String,
    pub(crate) constructs: Vec<&'static str>,
    pub(crate) types: Vec<&'static str>,
    /// Whether it was spoilt on purpose, so that the database may find it no condition at all.
    pub(crate) is_mutant: bool,
}

/// Everything that a condition can have in it, in both dialects.
pub(crate) const CONSTRUCTS: [&str; 25] = [
    "=",
    "<>",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "AND",
    "OR",
    "NOT",
    "IN",
    "NOT IN",
    "BETWEEN",
    "NOT BETWEEN",
    "LIKE",
    "NOT LIKE",
    "IS NULL",
    "IS NOT NULL",
    "IS TRUE",
    "DISTINCT",
    "column",
    "columns",
    "values",
    "identity",
    "mutant",
];

const PATTERNS: [&str; 14] = [
    "''",
    "'%'",
    "'_'",
    "'a%'",
    "'%b'",
    "'%a%'",
    "'A_'",
    "'a\\%b'",
    "'a!_b' ESCAPE '!'",
    "'Ä%'",
    "'ä'",
    "'_ '",
    "'%\\\\%'",
    "NULL",
];

/// Words that change what stands around them.
const STRAYS: [&str; 24] = [
    "NOT ",
    "NOT ",
    "AND ",
    "OR ",
    "IS NULL ",
    "IS NOT NULL ",
    "IS TRUE ",
    "= ",
    "< ",
    "(",
    ")",
    "-",
    "- ",
    "+ ",
    "NULL ",
    "TRUE ",
    "'a' ",
    "5 ",
    ", ",
    "COLLATE \"C\" ",
    "/* c */ ",
    "-- c\n",
    "\n",
    ";",
];

/// Makes conditions for one table.
pub(crate) struct Generator<'a> {
    pub(crate) subjects: &'a [Subject],
    pub(crate) random: &'a mut StdRng,
    /// Further ways to write LIKE.
    pub(crate) likes: &'a [&'static str],
    /// Further words after IS.
    pub(crate) truths: &'a [&'static str],
}

impl Generator<'_> {
    /// A condition of a few tests.
    pub(crate) fn condition(&mut self) -> Random {
        let mut made = Random::default();
        made.text = self.nested(3, &mut made);
        if self.random.random_bool(0.3) {
            made.text = self.mutant(&made.text);
            made.is_mutant = true;
        }
        made
    }

    /// One that is not spoilt.
    pub(crate) fn sound(&mut self) -> Random {
        let mut made = Random::default();
        made.text = self.nested(2, &mut made);
        made
    }

    /// The text with a few of its words lost, doubled, exchanged or put in from elsewhere. Most are no
    /// conditions any more; but where one is taken, it must mean what it means to the database.
    fn mutant(&mut self, text: &str) -> String {
        let mut words: Vec<&str> = text.split_inclusive([' ', '(', ')', ',']).collect();
        for _ in 0..self.random.random_range(1..4) {
            let (at, other) = (
                self.random.random_range(0..words.len()),
                self.random.random_range(0..words.len()),
            );
            match self.random.random_range(0..5) {
                0 if words.len() > 1 => {
                    words.remove(at);
                }
                1 => words.insert(at, words[other]),
                2 => words.swap(at, other),
                3 => words[at] = words[other],
                _ => words.insert(at, STRAYS.choose(self.random).expect("a word")),
            }
        }
        words.concat()
    }

    fn nested(&mut self, depth: usize, made: &mut Random) -> String {
        if depth == 0 || self.random.random_bool(0.4) {
            return self.test(made);
        }
        match self.random.random_range(0..6) {
            0 | 1 => self.joined(depth, " AND ", "AND", made),
            2 | 3 => self.joined(depth, " OR ", "OR", made),
            4 if self.random.random_bool(0.4) => {
                made.constructs.push("NOT");
                format!("NOT {}", self.test(made))
            }
            4 => {
                made.constructs.push("NOT");
                format!("NOT ({})", self.nested(depth - 1, made))
            }
            _ => {
                made.constructs.push("IS TRUE");
                let truth = *self.truths.choose(self.random).expect("a truth");
                format!("({}) IS {truth}", self.nested(depth - 1, made))
            }
        }
    }

    fn joined(
        &mut self,
        depth: usize,
        word: &str,
        construct: &'static str,
        made: &mut Random,
    ) -> String {
        made.constructs.push(construct);
        let parts = self.random.random_range(2..4);
        // Without parentheses: how strongly AND and OR bind must be agreed on.
        let parts: Vec<String> = (0..parts).map(|_| self.nested(depth - 1, made)).collect();
        let joined = parts.join(word);
        if self.random.random_bool(0.5) { format!("({joined})") } else { joined }
    }

    fn test(&mut self, made: &mut Random) -> String {
        let at = self.random.random_range(0..self.subjects.len());
        let subject = &self.subjects[at];
        let suffix = *subject.suffixes.choose(self.random).unwrap_or(&"");
        let column = format!("{}{suffix}", subject.name);
        made.types.push(subject.type_name);
        match self.random.random_range(0..16) {
            0 => {
                let (construct, words) = *[("IS NULL", "IS NULL"), ("IS NOT NULL", "IS NOT NULL")]
                    .choose(self.random)
                    .expect("one of two");
                made.constructs.push(construct);
                format!("{} {words}", subject.name)
            }
            1 | 2 => {
                let construct = *["IN", "NOT IN"].choose(self.random).expect("one of two");
                made.constructs.push(construct);
                let length = self.random.random_range(1..5);
                let values: Vec<String> = (0..length).map(|_| self.value(at, made)).collect();
                format!("{column} {construct} ({})", values.join(", "))
            }
            3 => {
                let construct =
                    *["BETWEEN", "NOT BETWEEN"].choose(self.random).expect("one of two");
                made.constructs.push(construct);
                format!(
                    "{column} {construct} {} AND {}",
                    self.value(at, made),
                    self.value(at, made)
                )
            }
            4 | 5 if subject.is_text => {
                let construct = *["LIKE", "NOT LIKE"].choose(self.random).expect("one of two");
                made.constructs.push(construct);
                let like = *self.likes.choose(self.random).expect("a way to write it");
                let pattern = *PATTERNS.choose(self.random).expect("a pattern");
                format!("{column} {} {pattern}", construct.replace("LIKE", like))
            }
            6 if subject.is_condition => {
                made.constructs.push("column");
                match self.random.random_range(0..3) {
                    0 => subject.name.to_owned(),
                    1 => format!("NOT {}", subject.name),
                    _ => {
                        made.constructs.push("IS TRUE");
                        let truth = *self.truths.choose(self.random).expect("a truth");
                        format!("{} IS {truth}", subject.name)
                    }
                }
            }
            7 if !subject.like_it.is_empty() => {
                made.constructs.push("columns");
                let beside = *subject.like_it.choose(self.random).expect("a column");
                format!("{column} {} {beside}", self.operator(made))
            }
            8 => {
                made.constructs.push("values");
                let (left, right) = (self.value(at, made), self.value(at, made));
                format!("{left} {} {right}", self.operator(made))
            }
            9 => format!("{} {} {column}", self.value(at, made), self.operator(made)),
            // As tight as it can be written: where a sign ends is for the reader to say.
            10 => {
                let operator = self.operator(made);
                let tight = if operator.starts_with("IS") {
                    format!(" {operator} ")
                } else {
                    operator.into()
                };
                format!("{}{tight}{}", subject.name, self.value(at, made))
            }
            11 => {
                let value = format!("{}{suffix}", self.value(at, made));
                format!("{} {} {value}", subject.name, self.operator(made))
            }
            _ => format!("{column} {} {}", self.operator(made), self.value(at, made)),
        }
    }

    fn operator(&mut self, made: &mut Random) -> &'static str {
        let operators =
            ["=", "<>", "!=", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"];
        let operator = *operators.choose(self.random).expect("an operator");
        made.constructs.push(if operator.starts_with("IS") { "DISTINCT" } else { operator });
        operator
    }

    /// A value: mostly one for the column, sometimes one for another, NULL, or who asks.
    fn value(&mut self, at: usize, made: &mut Random) -> String {
        match self.random.random_range(0..20) {
            0 => "NULL".to_owned(),
            1 => {
                made.constructs.push("identity");
                IDENTITIES.choose(self.random).expect("an identity").0.to_owned()
            }
            2 => {
                let other = self.random.random_range(0..self.subjects.len());
                self.subjects[other].values.choose(self.random).expect("a value").clone()
            }
            _ => self.subjects[at].values.choose(self.random).expect("a value").clone(),
        }
    }
}
