//! What is kept of a column in a group: how many values, their sum, their extremes.

use super::extreme::{Extreme, Kind};
use crate::bind::Summed;
use crate::engine::state::StateError;
use crate::engine::window::read;
use crate::plan::{ColumnAggregate, Measure};

/// Integers of SQLite that are summed here, at most. A sum of larger ones may overflow on the way, and
/// whether it does depends on the order of the rows.
const STORED_MAX: u128 = 1 << 53;
/// Sums of them that are kept, at most, for the same reason.
const STORED_SUM_MAX: u128 = 1 << 62;

/// A column of a group.
#[derive(Debug, Clone, Default)]
pub(super) struct ColumnTally {
    /// Values that are not NULL.
    count: u64,
    /// In units of the last digit.
    sum: i128,
    least: Extreme,
    greatest: Extreme,
}

impl ColumnTally {
    /// Takes what was read, in the order in which the plan asks for it.
    pub(super) fn load<'a>(
        tally: &ColumnAggregate,
        values: &mut impl Iterator<Item = &'a str>,
    ) -> Result<ColumnTally, StateError> {
        let mut next = || values.next().ok_or(StateError::Unsure);
        let mut kept = ColumnTally {
            count: next()?.parse().map_err(|_| StateError::Unsure)?,
            ..ColumnTally::default()
        };
        if let Some(summed) = tally.sum {
            let json = next()?;
            if kept.count > 0 {
                kept.sum = number(summed, json)?;
            }
        }
        let count = kept.count;
        let extremes = [(tally.least, &mut kept.least), (tally.greatest, &mut kept.greatest)];
        for (wanted, extreme) in extremes {
            if let Some((reading, _)) = wanted {
                let json = next()?;
                match read(reading, json)? {
                    Some(value) => *extreme = Extreme::read(value, json),
                    None if count == 0 => {}
                    None => return Err(StateError::Unsure),
                }
            }
        }
        Ok(kept)
    }

    /// A row of the group has this value.
    pub(super) fn add(&mut self, tally: &ColumnAggregate, json: &str) -> Result<(), StateError> {
        if json == "null" {
            return Ok(());
        }
        if let Some(summed) = tally.sum {
            self.sum = self.sum.checked_add(value(summed, json)?).ok_or(StateError::Unsure)?;
        }
        for (wanted, extreme, greatest) in
            [(tally.least, &mut self.least, false), (tally.greatest, &mut self.greatest, true)]
        {
            if let Some((reading, collation)) = wanted {
                let value = read(reading, json)?.ok_or(StateError::Unsure)?;
                extreme.add(value, json, self.count, Kind { greatest, collation });
            }
        }
        self.count += 1;
        Ok(())
    }

    /// A row of the group had this value.
    pub(super) fn remove(&mut self, tally: &ColumnAggregate, json: &str) -> Result<(), StateError> {
        if json == "null" {
            return Ok(());
        }
        self.count = self.count.checked_sub(1).ok_or(StateError::Unsure)?;
        if let Some(summed) = tally.sum {
            self.sum = self.sum.checked_sub(value(summed, json)?).ok_or(StateError::Unsure)?;
        }
        for (wanted, extreme, greatest) in
            [(tally.least, &mut self.least, false), (tally.greatest, &mut self.greatest, true)]
        {
            if let Some((reading, collation)) = wanted {
                let value = read(reading, json)?.ok_or(StateError::Unsure)?;
                extreme.remove(&value, self.count, Kind { greatest, collation })?;
            }
        }
        Ok(())
    }

    /// What is shown of it, as JSON.
    pub(super) fn json(
        &self,
        tally: &ColumnAggregate,
        measure: Measure,
    ) -> Result<String, StateError> {
        if matches!(measure, Measure::Count(_)) {
            return Ok(self.count.to_string());
        }
        if self.count == 0 {
            return Ok("null".to_owned());
        }
        let summed = tally.sum.ok_or(StateError::Unsure);
        match measure {
            Measure::Least(_) => self.least.json().map(str::to_owned),
            Measure::Greatest(_) => self.greatest.json().map(str::to_owned),
            Measure::Average(_) => self.average(summed?),
            _ => self.sum(summed?),
        }
    }

    fn sum(&self, summed: Summed) -> Result<String, StateError> {
        match summed {
            Summed::Small => {
                i64::try_from(self.sum).map(|sum| sum.to_string()).map_err(|_| StateError::Unsure)
            }
            Summed::Large => Ok(self.sum.to_string()),
            Summed::Stored if self.sum.unsigned_abs() > STORED_SUM_MAX => Err(StateError::Unsure),
            Summed::Stored => Ok(self.sum.to_string()),
            Summed::Decimal(0) => Ok(self.sum.to_string()),
            Summed::Decimal(scale) => {
                let scale = usize::from(scale);
                let digits = format!("{:0>width$}", self.sum.unsigned_abs(), width = scale + 1);
                let (whole, fraction) = digits.split_at(digits.len() - scale);
                let sign = if self.sum < 0 { "-" } else { "" };
                Ok(format!("{sign}{whole}.{fraction}"))
            }
        }
    }

    fn average(&self, summed: Summed) -> Result<String, StateError> {
        let text = match summed {
            Summed::Small | Summed::Large => super::average::postgres(self.sum, self.count, 0),
            Summed::Decimal(scale) => super::average::postgres(self.sum, self.count, scale),
            Summed::Stored if self.sum.unsigned_abs() > STORED_SUM_MAX => None,
            Summed::Stored => super::average::sqlite(self.sum, self.count),
        };
        text.ok_or(StateError::Unsure)
    }
}

/// A value that is summed.
fn value(summed: Summed, json: &str) -> Result<i128, StateError> {
    let number = number(summed, json)?;
    let too_large = summed == Summed::Stored && number.unsigned_abs() > STORED_MAX;
    if too_large { Err(StateError::Unsure) } else { Ok(number) }
}

/// A number in units of the last digit. What is none, and what has more digits, is of another type.
fn number(summed: Summed, json: &str) -> Result<i128, StateError> {
    let Summed::Decimal(scale) = summed else {
        return json.parse().map_err(|_| StateError::Unsure);
    };
    let (whole, fraction) = json.split_once('.').unwrap_or((json, ""));
    let missing = usize::from(scale).checked_sub(fraction.len()).ok_or(StateError::Unsure)?;
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_plain(fraction) || !is_plain(whole.strip_prefix('-').unwrap_or(whole)) {
        return Err(StateError::Unsure);
    }
    format!("{whole}{fraction}{}", "0".repeat(missing)).parse().map_err(|_| StateError::Unsure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_keep_the_digits_of_their_column() {
        let scale = Summed::Decimal(2);
        for (json, units) in [("1.50", 150), ("-0.05", -5), ("7", 700), ("0.00", 0)] {
            assert_eq!(number(scale, json), Ok(units), "{json}");
            let kept = ColumnTally { count: 1, sum: units, ..ColumnTally::default() };
            let written = if json == "7" { "7.00" } else { json };
            assert_eq!(kept.sum(scale).as_deref(), Ok(written));
        }
        for json in ["1.505", "\"NaN\"", "1e3", "", "--1", "+1", "null"] {
            assert!(json.is_empty() || number(scale, json) == Err(StateError::Unsure), "{json}");
        }
    }

    #[test]
    fn what_a_database_would_not_sum_is_not_summed() {
        for json in ["1.0", "\"5\"", "9223372036854775807"] {
            assert_eq!(value(Summed::Stored, json), Err(StateError::Unsure), "{json}");
        }
        let kept =
            ColumnTally { count: 2, sum: i128::from(i64::MAX) + 1, ..ColumnTally::default() };
        assert_eq!(kept.sum(Summed::Small), Err(StateError::Unsure));
        assert_eq!(kept.sum(Summed::Large).as_deref(), Ok("9223372036854775808"));
    }
}
