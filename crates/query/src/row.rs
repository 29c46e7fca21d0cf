//! The image of a row: a JSON object, read once and tested by many predicates.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A row in its canonical form. Values stay the text they are, with every digit; a predicate reads
/// those it names.
#[derive(Debug, Clone)]
pub struct Row<'a> {
    /// Sorted by name, if there are many.
    members: Vec<(Cow<'a, str>, &'a RawValue)>,
}

/// Members that are looked through one by one, at most: sorting so few takes longer than it saves.
const UNSORTED_MAX: usize = 16;

/// An image that is none.
#[derive(Debug, thiserror::Error)]
#[error("the image of a row is not a JSON object: {0}")]
pub struct RowError(#[from] serde_json::Error);

/// Why it cannot be said what a predicate is for a row. Whoever guards something lets no such row pass.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unsure {
    /// The image does not have the column: it was made before the column was, or is a key only.
    #[error("the row's image has no column {column}")]
    Missing {
        /// The column.
        column: String,
    },
    /// The image has a value that the column's type has not: the type was another one.
    #[error("the row's value of {column} is not of the type {type_name}")]
    NotOfType {
        /// The column.
        column: String,
        /// Its type.
        type_name: String,
    },
    /// SQLite: the image does not tell whether the value is text, bytes or an infinity, and it matters.
    #[error("the row's value of {column} may be text or bytes")]
    Ambiguous {
        /// The column.
        column: String,
    },
    /// A client's pattern is not tried on so long a text where others wait for it.
    #[error("the row's value of {column} is too long to be searched where others wait")]
    TooLong {
        /// The column.
        column: String,
    },
}

impl<'a> Row<'a> {
    /// Reads an image.
    pub fn parse(image: &'a [u8]) -> Result<Row<'a>, RowError> {
        Ok(serde_json::from_slice(image)?)
    }

    /// The value of a column, as JSON.
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        if self.members.len() <= UNSORTED_MAX {
            let member = self.members.iter().find(|(member, _)| member.as_ref() == name)?;
            return Some(member.1);
        }
        let at = self.members.binary_search_by(|(member, _)| member.as_ref().cmp(name)).ok()?;
        Some(self.members[at].1)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Row<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut members = deserializer.deserialize_map(Members)?;
        if members.len() > UNSORTED_MAX {
            members.sort_by(|(left, _), (right, _)| left.cmp(right));
        }
        Ok(Row { members })
    }
}

/// Reads members without copying what needs no copy.
struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of columns")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut members = Vec::with_capacity(map.size_hint().unwrap_or(16));
        while let Some(Name(name)) = map.next_key()? {
            members.push((name, map.next_value()?));
        }
        Ok(members)
    }
}

struct Name<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(name)))
            }

            fn visit_str<E>(self, name: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(name.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_the_text_they_are() {
        let image = br#"{"n": 1.50000000000000000000000001, "a\"b": "x", "a": null}"#;
        let row = Row::parse(image).expect("an object");
        let text = |name: &str| row.get(name).map(RawValue::get);
        assert_eq!(text("n"), Some("1.50000000000000000000000001"));
        assert_eq!(text("a\"b"), Some("\"x\""));
        assert_eq!(text("a"), Some("null"));
        assert_eq!(text("b"), None);
    }

    #[test]
    fn a_column_is_found_among_few_and_among_many() {
        for columns in [1, UNSORTED_MAX, UNSORTED_MAX + 1, 200] {
            let members = (0..columns).rev().map(|n| format!("\"c{n}\":{n}"));
            let image = format!("{{{}}}", members.collect::<Vec<_>>().join(","));
            let row = Row::parse(image.as_bytes()).expect("an object");
            for n in 0..columns {
                let value = row.get(&format!("c{n}")).map(RawValue::get);
                assert_eq!(value, Some(n.to_string().as_str()), "of {columns}");
            }
            assert!(row.get("c").is_none() && row.get("d0").is_none());
        }
    }

    #[test]
    fn what_is_no_object_is_no_row() {
        for image in ["", "[]", "1", "{", "{\"a\":}", "null"] {
            assert!(Row::parse(image.as_bytes()).is_err(), "{image}");
        }
    }
}
