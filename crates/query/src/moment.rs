//! Dates and times, as microseconds, from the two ways they come: in a row's image, as the database
//! writes them in UTC, and in a predicate, as people do.
//!
//! PostgreSQL reads many ways of writing a date, and some by its settings. A predicate may have only
//! those that mean the same wherever they are read: ISO 8601, and where a moment is meant, with its
//! offset from UTC.

/// Microseconds since 1970 (of a time of day: since midnight). Wide enough for every date.
pub(crate) type Micros = i128;

const SECOND: Micros = 1_000_000;
const MINUTE: Micros = 60 * SECOND;
const HOUR: Micros = 60 * MINUTE;
const DAY: Micros = 24 * HOUR;

/// After every moment, as `infinity` is.
pub(crate) const INFINITY: Micros = Micros::MAX;
/// Before every moment, as `-infinity` is.
pub(crate) const NEGATIVE_INFINITY: Micros = Micros::MIN;

/// Hours that an offset from UTC may have in PostgreSQL, at most.
const OFFSET_HOURS_MAX: Micros = 15;

/// What a text may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// A day.
    Date,
    /// A day and a time of day, in no zone. A literal may have the day alone.
    Timestamp,
    /// A day, a time of day and an offset.
    Zoned,
    /// A time of day.
    Time,
}

/// Reads a value of an image: as `to_jsonb` writes it under UTC.
pub(crate) fn from_image(form: Form, text: &str) -> Option<Micros> {
    match text {
        _ if form == Form::Time => return time_of_day(text).filter(|time| *time <= DAY),
        "infinity" => return Some(INFINITY),
        "-infinity" => return Some(NEGATIVE_INFINITY),
        _ => {}
    }
    let (text, before_christ) = match text.strip_suffix(" BC") {
        Some(text) => (text, true),
        None => (text, false),
    };
    let (day, time) = match form {
        Form::Date => (text, None),
        _ => text.split_once('T').map(|(day, time)| (day, Some(time)))?,
    };
    let time = match (form, time) {
        (Form::Zoned, Some(time)) => Some(time.strip_suffix("+00:00")?),
        (_, time) => time,
    };
    let mut parts = day.splitn(3, '-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if year.len() < 4 {
        return None;
    }
    let year: i64 = number(year)?;
    let day = days(if before_christ { 1 - year } else { year }, number(month)?, number(day)?)?;
    let time = time.map_or(Some(0), |time| time_of_day(time).filter(|time| *time < DAY))?;
    Some(day * DAY + time)
}

/// Reads a literal, or says what it should look like.
pub(crate) fn from_literal(form: Form, text: &str) -> Result<Micros, &'static str> {
    let wanted = match form {
        Form::Date => "a date is written '2024-02-29'",
        Form::Timestamp => "a timestamp is written '2024-02-29 23:59:59.999999'",
        Form::Zoned => {
            "a moment is written with its offset from UTC, '2024-02-29 23:59:59.999999+00'; without \
             one it depends on who asks"
        }
        Form::Time => "a time is written '23:59:59.999999'",
    };
    literal(form, text).ok_or(wanted)
}

fn literal(form: Form, text: &str) -> Option<Micros> {
    match (form, text) {
        (Form::Time, text) => return time_of_day(text).filter(|time| *time < DAY),
        (_, "infinity") => return Some(INFINITY),
        (_, "-infinity") => return Some(NEGATIVE_INFINITY),
        _ => {}
    }
    let [year @ .., b'-', _, _, b'-', _, _] = text.as_bytes().get(..10)? else { return None };
    if year.len() != 4 {
        return None;
    }
    // Ten ASCII bytes were matched in part only, so that the slices may still fail.
    let (year, month, day) = (text.get(0..4)?, text.get(5..7)?, text.get(8..10)?);
    let year: i64 = number(year)?;
    if year == 0 {
        return None;
    }
    let day = days(year, number(month)?, number(day)?)? * DAY;
    let rest = text.get(10..)?;
    let time = rest.strip_prefix([' ', 'T']);
    match (form, time) {
        (Form::Date, None) | (Form::Timestamp, None) if rest.is_empty() => Some(day),
        (Form::Timestamp, Some(time)) => Some(day + time_of_day(time).filter(|time| *time < DAY)?),
        (Form::Zoned, Some(time)) => {
            let at = time.find(['Z', 'z', '+', '-'])?;
            let (time, offset) = time.split_at(at);
            let time = time.strip_suffix(' ').unwrap_or(time);
            Some(day + time_of_day(time).filter(|time| *time < DAY)? - offset_of(offset)?)
        }
        _ => None,
    }
}

/// `HH:MM`, `HH:MM:SS` or `HH:MM:SS.ffffff`; `24:00:00` is the end of a day.
fn time_of_day(text: &str) -> Option<Micros> {
    let mut parts = text.splitn(3, ':');
    let two = |part: &str, below: Micros| {
        let two: Micros = number(part)?;
        (part.len() == 2 && two < below).then_some(two)
    };
    let time = two(parts.next()?, 25)? * HOUR + two(parts.next()?, 60)? * MINUTE;
    let Some(seconds) = parts.next() else { return Some(time) };
    let (seconds, fraction) = match seconds.split_once('.') {
        Some((seconds, fraction)) => (seconds, fraction),
        None => (seconds, "0"),
    };
    // More digits would be rounded.
    if fraction.len() > 6 {
        return None;
    }
    let micros: Micros = number(&format!("{fraction:0<6}"))?;
    Some(time + two(seconds, 60)? * SECOND + micros)
}

/// `Z`, `+HH`, `+HHMM` or `+HH:MM`.
fn offset_of(text: &str) -> Option<Micros> {
    if text.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let (hours, minutes) = match text.get(1..)? {
        hours if hours.len() == 2 => (hours, "00"),
        both if both.len() == 4 => (both.get(..2)?, both.get(2..)?),
        both if both.len() == 5 => both.split_once(':')?,
        _ => return None,
    };
    let (hours, minutes): (Micros, Micros) = (number(hours)?, number(minutes)?);
    let known = hours <= OFFSET_HOURS_MAX && minutes < 60;
    known.then_some(sign * (hours * HOUR + minutes * MINUTE))
}

/// Digits only: `parse` alone would take a sign.
fn number<N: std::str::FromStr>(text: &str) -> Option<N> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

/// Days since 1970-01-01 in the Gregorian calendar, for all years.
fn days(year: i64, month: i64, day: i64) -> Option<Micros> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if day < 1 || day > length {
        return None;
    }
    // A year that starts in March has its leap day last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * month + 2) / 5 + day - 1;
    let days = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    Some(Micros::from(era) * 146_097 + Micros::from(days) - 719_468)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn images_are_in_order_over_all_ages() {
        for (form, ascending) in [
            (
                Form::Date,
                &[
                    "-infinity",
                    "4713-11-24 BC",
                    "0001-12-31 BC",
                    "0001-01-01",
                    "1969-12-31",
                    "1970-01-01",
                    "2024-02-29",
                    "2024-03-01",
                    "10000-01-01",
                    "5874897-12-31",
                    "infinity",
                ][..],
            ),
            (
                Form::Zoned,
                &[
                    "0044-03-15T12:00:00+00:00 BC",
                    "2024-02-29T23:59:59.999999+00:00",
                    "2024-03-01T00:00:00+00:00",
                ],
            ),
            (Form::Time, &["00:00:00", "00:00:00.000001", "23:59:59.999999", "24:00:00"]),
        ] {
            let read = |text: &&str| from_image(form, text).unwrap_or_else(|| panic!("{text}"));
            let micros: Vec<Micros> = ascending.iter().map(read).collect();
            assert!(micros.is_sorted_by(|left, right| left < right), "{ascending:?} {micros:?}");
        }
    }

    #[test]
    fn literals_mean_what_images_say() {
        for (form, literal, image) in [
            (Form::Date, "2024-02-29", "2024-02-29"),
            (Form::Date, "infinity", "infinity"),
            (Form::Timestamp, "2024-02-29", "2024-02-29T00:00:00"),
            (Form::Timestamp, "2024-02-29T10:30", "2024-02-29T10:30:00"),
            (Form::Timestamp, "2024-02-29 10:30:05.25", "2024-02-29T10:30:05.25"),
            (Form::Zoned, "2024-02-29 10:30:05+02", "2024-02-29T08:30:05+00:00"),
            (Form::Zoned, "2024-02-29 10:30:05 -0330", "2024-02-29T14:00:05+00:00"),
            (Form::Zoned, "2024-02-29T23:30Z", "2024-02-29T23:30:00+00:00"),
            (Form::Zoned, "2024-02-29T23:30-01:00", "2024-03-01T00:30:00+00:00"),
            (Form::Time, "10:30", "10:30:00"),
        ] {
            let read = from_image(form, image);
            assert!(read.is_some(), "{image}");
            assert_eq!(from_literal(form, literal).ok(), read, "{literal}");
        }
    }

    #[test]
    fn what_could_mean_something_else_is_refused() {
        for (form, text) in [
            (Form::Date, "2023-02-29"),
            (Form::Date, "0000-01-01"),
            (Form::Date, "01/02/2024"),
            (Form::Date, "2024-1-2"),
            (Form::Date, "today"),
            (Form::Date, "2024-01-02 10:00"),
            (Form::Timestamp, "2024-01-02 10:00+02"),
            (Form::Timestamp, "2024-01-02 10:00:00.1234567"),
            (Form::Timestamp, "2024-01-02 24:00"),
            (Form::Zoned, "2024-01-02 10:00"),
            (Form::Zoned, "2024-01-02 10:00 Europe/Berlin"),
            (Form::Zoned, "2024-01-02"),
            (Form::Zoned, "2024-01-02 10:00+16"),
            (Form::Time, "10"),
            (Form::Time, "1:00"),
            (Form::Time, "10:00:60"),
        ] {
            assert!(from_literal(form, text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "\\PC{0,12}|[-0-9:T+ .Z]{0,30}") {
            for form in [Form::Date, Form::Timestamp, Form::Zoned, Form::Time] {
                let _ = (from_image(form, &text), from_literal(form, &text));
            }
        }

        #[test]
        fn days_follow_each_other(day in -3_000_000_i64..3_000_000) {
            // Counted up from a known day by the calendar's own rules.
            let (mut year, mut month, mut of_month) = (1970 + day / 366, 1, 1);
            let start = days(year, month, of_month).expect("a day");
            for next in 1..800 {
                of_month += 1;
                if days(year, month, of_month).is_none() {
                    of_month = 1;
                    month += 1;
                }
                if month > 12 {
                    month = 1;
                    year += 1;
                }
                prop_assert_eq!(days(year, month, of_month), Some(start + next));
            }
        }
    }
}
