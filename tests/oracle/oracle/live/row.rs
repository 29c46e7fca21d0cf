//! Rows in a form in which equal ones are equal texts.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;

/// A row as the names and values of its columns, in order of name.
pub(crate) type Canonical = String;

/// A row by the names and texts of its values.
pub(crate) fn canonical(row: &str) -> Canonical {
    let members: Members =
        serde_json::from_str(row).unwrap_or_else(|error| panic!("{row}: {error}"));
    canonical_members(
        members.0.into_iter().map(|(name, value)| (name, value_text(value.get()))).collect(),
    )
}

/// The same of members that were read already.
pub(crate) fn canonical_members(mut members: Vec<(String, String)>) -> Canonical {
    members.sort();
    let members: Vec<String> =
        members.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    members.join(" ")
}

/// Named values in their order, with every digit.
pub(crate) struct Members(pub(crate) Vec<(String, Box<RawValue>)>);

impl<'de> serde::Deserialize<'de> for Members {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Members, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Members;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

/// A value in one form: without spaces, strings with the same escapes, bytes in base64.
pub(crate) fn value_text(json: &str) -> String {
    if json.starts_with('"') {
        let text: String = serde_json::from_str(json).expect("a string");
        let text = match text.strip_prefix("\\x").and_then(bytes) {
            Some(bytes) => STANDARD.encode(bytes),
            None => text,
        };
        return serde_json::json!(text).to_string();
    }
    if !json.starts_with(['{', '[']) {
        return json.to_owned();
    }
    if let Ok(Members(members)) = serde_json::from_str::<Members>(json) {
        let members: BTreeMap<String, String> =
            members.iter().map(|(name, value)| (name.clone(), value_text(value.get()))).collect();
        let members: Vec<String> =
            members.iter().map(|(name, value)| format!("{name:?}:{value}")).collect();
        return format!("{{{}}}", members.join(","));
    }
    let items: Vec<Box<RawValue>> = serde_json::from_str(json).expect("an array");
    let items: Vec<String> = items.iter().map(|item| value_text(item.get())).collect();
    format!("[{}]", items.join(","))
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = digits
        .chars()
        .map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[test]
fn equal_values_have_one_form() {
    let row = r#"{"b": {"y": 1.50, "x": [1, "ä"]}, "a": "\\x6162"}"#;
    assert_eq!(canonical(row), r#"a="YWI=" b={"x":[1,"ä"],"y":1.50}"#);
}
