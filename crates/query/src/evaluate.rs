//! What a condition is for a row.
//!
//! A column that cannot be read makes its test unsure, and no more than that: `false AND unsure` is
//! false, because it would be whatever the column holds.

use std::cmp::Ordering;

use crate::condition::{Condition, Field, Test};
use crate::like::SHARED_TEXT_BYTES_MAX;
use crate::reading::Read;
use crate::row::{Row, Unsure};
use crate::truth::Truth;
use crate::value::Value;

/// How much work may be done for a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// As much as is fair to others, who wait meanwhile: no client's pattern is tried on a long text.
    Shared,
    /// Whatever it takes, in a task of its own.
    Whole,
}

impl Condition {
    /// What it is for a row.
    pub(crate) fn test(&self, row: &Row<'_>, effort: Effort) -> Result<Truth, Unsure> {
        match self {
            Condition::Constant(truth) => Ok(*truth),
            Condition::And(parts) => join(parts, row, effort, (Truth::False, Truth::True)),
            Condition::Or(parts) => join(parts, row, effort, (Truth::True, Truth::False)),
            Condition::Is { condition, truth, negated } => {
                Ok(((condition.test(row, effort)? == *truth) != *negated).into())
            }
            Condition::Test(test) => test.test(row, effort),
        }
    }

    /// How many patterns of clients are in it.
    pub(crate) fn patterns(&self) -> usize {
        match self {
            Condition::And(parts) | Condition::Or(parts) => {
                parts.iter().map(Condition::patterns).sum()
            }
            Condition::Is { condition, .. } => condition.patterns(),
            Condition::Test(Test::Like { of_client: true, .. }) => 1,
            Condition::Constant(_) | Condition::Test(_) => 0,
        }
    }
}

/// One part that `decides` decides. If none does, one that is unsure leaves all unsure, and one that
/// is unknown all unknown.
fn join(
    parts: &[Condition],
    row: &Row<'_>,
    effort: Effort,
    (decides, neutral): (Truth, Truth),
) -> Result<Truth, Unsure> {
    let mut answer = Ok(neutral);
    for part in parts {
        match part.test(row, effort) {
            Ok(truth) if truth == decides => return Ok(decides),
            Ok(Truth::Unknown) if answer.is_ok() => answer = Ok(Truth::Unknown),
            Ok(_) => {}
            // That a text is too long is mended by another effort, and so comes before all else.
            Err(_) if matches!(answer, Err(Unsure::TooLong { .. })) => {}
            Err(unsure) => answer = Err(unsure),
        }
    }
    answer
}

impl Test {
    fn test(&self, row: &Row<'_>, effort: Effort) -> Result<Truth, Unsure> {
        match self {
            Test::Compare { field, operator, value, collation } => {
                let read = field.read(row)?;
                if read == Read::Null {
                    return Ok(operator.holds_of_null(false).into());
                }
                let holds = |read: &Value<'_>| operator.holds(read.compare(value, *collation));
                field.agree(&read, |read| Some(holds(read)))
            }
            Test::Columns { left, operator, right, collation } => {
                let (read, beside) = (left.read(row)?, right.read(row)?);
                if read == Read::Null || beside == Read::Null {
                    return Ok(operator.holds_of_null(read == beside).into());
                }
                left.agree(&read, |read| {
                    let holds = |other: &Value<'_>| operator.holds(read.compare(other, *collation));
                    match right.agree(&beside, |other| Some(holds(other))) {
                        Ok(truth) => Some(truth == Truth::True),
                        Err(_) => None,
                    }
                })
            }
            Test::In { field, values, null, collation, negated } => {
                let read = field.read(row)?;
                if read == Read::Null {
                    return Ok(Truth::Unknown);
                }
                let order = |value: &Value<'_>, read: &Value<'_>| value.compare(read, *collation);
                let found = field.agree(&read, |read| {
                    Some(values.binary_search_by(|value| order(value, read)).is_ok())
                })?;
                Ok(match found {
                    Truth::False if *null => Truth::Unknown,
                    found if *negated => !found,
                    found => found,
                })
            }
            Test::Null { field, negated } => Ok(((field.json(row)? == "null") != *negated).into()),
            Test::Like { field, pattern, negated, of_client } => match field.read(row)? {
                Read::Value(Value::Text(text))
                    if *of_client
                        && effort == Effort::Shared
                        && text.len() > SHARED_TEXT_BYTES_MAX =>
                {
                    Err(Unsure::TooLong { column: field.name().to_owned() })
                }
                Read::Value(Value::Text(text)) if text.contains('\0') => Err(field.ambiguous()),
                Read::Value(Value::Text(text)) => Ok((pattern.matches(&text) != *negated).into()),
                Read::Null => Ok(Truth::Unknown),
                _ => Err(field.of_another_type()),
            },
            Test::Holds { field, negated } => {
                let read = field.read(row)?;
                if read == Read::Null {
                    return Ok(Truth::Unknown);
                }
                field.agree(&read, |read| match read {
                    Value::Integer(number) => Some((*number != 0) != *negated),
                    Value::Real(number) => Some((*number != 0.0) != *negated),
                    _ => None,
                })
            }
        }
    }
}

impl Field {
    /// The column's JSON.
    fn json<'r>(&self, row: &Row<'r>) -> Result<&'r str, Unsure> {
        let missing = || Unsure::Missing { column: self.name().to_owned() };
        row.get(self.name()).map(serde_json::value::RawValue::get).ok_or_else(missing)
    }

    fn read<'r>(&self, row: &Row<'r>) -> Result<Read<'r>, Unsure> {
        self.reading.read(self.json(row)?).map_err(|_| self.of_another_type())
    }

    /// The answer that all the column's possible values give.
    fn agree(
        &self,
        read: &Read<'_>,
        answer: impl Fn(&Value<'_>) -> Option<bool>,
    ) -> Result<Truth, Unsure> {
        let answers = match read {
            Read::Null => return Ok(Truth::Unknown),
            Read::Value(value) => answer(value),
            Read::OneOf(values) => {
                let mut answers = values.iter().map(answer);
                let first = answers.next().flatten();
                if answers.all(|other| other == first) { first } else { None }
            }
        };
        answers.map(Truth::from).ok_or_else(|| self.ambiguous())
    }

    fn of_another_type(&self) -> Unsure {
        Unsure::NotOfType { column: self.name().to_owned(), type_name: self.type_name().to_owned() }
    }

    fn ambiguous(&self) -> Unsure {
        Unsure::Ambiguous { column: self.name().to_owned() }
    }
}

/// Sorts the values of a list for `Test::In`, each once.
pub(crate) fn sort(values: &mut Vec<Value<'static>>, collation: crate::value::Collation) {
    values.sort_by(|left, right| left.compare(right, collation));
    values.dedup_by(|left, right| left.compare(right, collation) == Ordering::Equal);
    values.shrink_to_fit();
}
