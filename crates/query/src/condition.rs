//! The compiled form of a predicate: tests of columns, joined by AND and OR.
//!
//! There is no NOT: it is carried down to the tests, each of which has an opposite. And there are no
//! constants but where nothing else is left. So two conditions that say the same in a different order
//! or with other signs mostly have one form, and whoever looks for conjuncts finds them at the top.

use std::fmt;
use std::sync::Arc;

use crate::like::Pattern;
use crate::names::{self, Named};
use crate::operator::Operator;
use crate::reading::Reading;
use crate::truth::Truth;
use crate::value::{Collation, Constant};

/// What is tested.
#[derive(Debug, Clone)]
pub(crate) enum Condition {
    /// The same for every row.
    Constant(Truth),
    /// All of two or more, none of which is an `And`.
    And(Vec<Condition>),
    /// One of two or more, none of which is an `Or`.
    Or(Vec<Condition>),
    /// `(…) IS [NOT] TRUE`, `FALSE` or `UNKNOWN`.
    Is { condition: Box<Condition>, truth: Truth, negated: bool },
    /// One column, or two.
    Test(Test),
}

/// A column, and how it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    column: Arc<Named>,
    pub(crate) reading: Reading,
}

impl Field {
    pub(crate) fn new(name: &str, type_name: &str, reading: Reading) -> Field {
        Field { column: names::column(name, type_name), reading }
    }

    /// The column's name.
    pub(crate) fn name(&self) -> &str {
        &self.column.name
    }

    /// The column's type.
    pub(crate) fn type_name(&self) -> &str {
        &self.column.type_name
    }
}

/// What is asked of columns.
#[derive(Debug, Clone)]
pub(crate) enum Test {
    /// `column = constant` and the like.
    Compare { field: Field, operator: Operator, value: Constant, collation: Collation },
    /// `left = right` and the like, of two columns.
    Columns { left: Field, operator: Operator, right: Field, collation: Collation },
    /// `column [NOT] IN (constants)`; `null` says that NULL is one of them.
    In { field: Field, values: Vec<Constant>, null: bool, collation: Collation, negated: bool },
    /// `column IS [NOT] NULL`.
    Null { field: Field, negated: bool },
    /// `column [NOT] LIKE pattern`. One that a client sent is not tried on a long text where others wait.
    Like { field: Field, pattern: Pattern, negated: bool, of_client: bool },
    /// SQLite: a number that is not zero, or is.
    Holds { field: Field, negated: bool },
}

impl Condition {
    /// All of them.
    pub(crate) fn all(conditions: Vec<Condition>) -> Condition {
        join(conditions, Truth::False, Truth::True, Condition::And, |condition| match condition {
            Condition::And(parts) => parts,
            other => vec![other],
        })
    }

    /// One of them at least.
    pub(crate) fn any(conditions: Vec<Condition>) -> Condition {
        join(conditions, Truth::True, Truth::False, Condition::Or, |condition| match condition {
            Condition::Or(parts) => parts,
            other => vec![other],
        })
    }

    /// What holds where this does not, and is unknown where this is.
    pub(crate) fn negate(self) -> Condition {
        match self {
            Condition::Constant(truth) => Condition::Constant(!truth),
            Condition::And(parts) => {
                Condition::any(parts.into_iter().map(Condition::negate).collect())
            }
            Condition::Or(parts) => {
                Condition::all(parts.into_iter().map(Condition::negate).collect())
            }
            Condition::Is { condition, truth, negated } => {
                Condition::Is { condition, truth, negated: !negated }
            }
            Condition::Test(test) => Condition::Test(test.negate()),
        }
    }

    /// Whether it is, or is not, one truth.
    pub(crate) fn is(self, truth: Truth, negated: bool) -> Condition {
        match self {
            Condition::Constant(known) => Condition::Constant(((known == truth) != negated).into()),
            other => Condition::Is { condition: Box::new(other), truth, negated },
        }
    }
}

/// Joins conditions: flat, sorted, each once. One that `decides` decides all; `neutral` ones go.
fn join(
    conditions: Vec<Condition>,
    decides: Truth,
    neutral: Truth,
    of: fn(Vec<Condition>) -> Condition,
    parts: fn(Condition) -> Vec<Condition>,
) -> Condition {
    let mut kept = Vec::new();
    for condition in conditions.into_iter().flat_map(parts) {
        match condition {
            Condition::Constant(truth) if truth == decides => return Condition::Constant(decides),
            Condition::Constant(truth) if truth == neutral => {}
            other => kept.push((other.to_string(), other)),
        }
    }
    kept.sort_by(|(left, _), (right, _)| left.cmp(right));
    kept.dedup_by(|(left, _), (right, _)| left == right);
    let mut kept: Vec<Condition> = kept.into_iter().map(|(_, condition)| condition).collect();
    // What was sorted had its text beside it, and its room: there may be a million of these.
    kept.shrink_to_fit();
    match kept.len() {
        0 => Condition::Constant(neutral),
        1 => kept.remove(0),
        _ => of(kept),
    }
}

impl Test {
    /// A column against a value. What is not true is false, where there are only these.
    pub(crate) fn compare(
        field: Field,
        operator: Operator,
        value: Constant,
        collation: Collation,
    ) -> Test {
        let (operator, value) = match (operator, value) {
            (Operator::NotEqual, Constant::Boolean(value)) => {
                (Operator::Equal, Constant::Boolean(!value))
            }
            other => other,
        };
        Test::Compare { field, operator, value, collation }
    }

    fn negate(self) -> Test {
        match self {
            Test::Compare { field, operator, value, collation } => {
                Test::compare(field, operator.opposite(), value, collation)
            }
            Test::Columns { left, operator, right, collation } => {
                Test::Columns { left, operator: operator.opposite(), right, collation }
            }
            Test::In { field, values, null, collation, negated } => {
                Test::In { field, values, null, collation, negated: !negated }
            }
            Test::Null { field, negated } => Test::Null { field, negated: !negated },
            Test::Like { field, pattern, negated, of_client } => {
                Test::Like { field, pattern, negated: !negated, of_client }
            }
            Test::Holds { field, negated } => Test::Holds { field, negated: !negated },
        }
    }
}

/// The normal form as text.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, parts: &[Condition], word: &str| {
            for (at, part) in parts.iter().enumerate() {
                let between = if at == 0 { "(" } else { word };
                write!(f, "{between}{part}")?;
            }
            f.write_str(")")
        };
        match self {
            Condition::Constant(truth) => write!(f, "{truth:?}"),
            Condition::And(parts) => list(f, parts, " AND "),
            Condition::Or(parts) => list(f, parts, " OR "),
            Condition::Is { condition, truth, negated } => {
                write!(f, "({condition} IS {}{truth:?})", not(*negated))
            }
            Condition::Test(test) => write!(f, "{test}"),
        }
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Test::Compare { field, operator, value, collation } => {
                write!(f, "{field} {} {value} {collation:?}", operator.symbol())
            }
            Test::Columns { left, operator, right, collation } => {
                write!(f, "{left} {} {right} {collation:?}", operator.symbol())
            }
            Test::In { field, values, null, collation, negated } => {
                write!(f, "{field} {}IN {collation:?}(", not(*negated))?;
                values.iter().try_for_each(|value| write!(f, "{value},"))?;
                f.write_str(if *null { "NULL)" } else { ")" })
            }
            Test::Null { field, negated } => write!(f, "{field} IS {}NULL", not(*negated)),
            Test::Like { field, pattern, negated, of_client: _ } => {
                write!(f, "{field} {}{pattern}", not(*negated))
            }
            Test::Holds { field, negated } => write!(f, "{}{field}", not(*negated)),
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}:{:?}", self.name(), self.reading)
    }
}

fn not(negated: bool) -> &'static str {
    if negated { "NOT " } else { "" }
}
