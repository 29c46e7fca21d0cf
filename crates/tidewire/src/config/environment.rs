//! Environment variables as settings.
//!
//! An unknown variable that begins with `TIDEWIRE_` is an error: a misspelt name would otherwise be ignored silently.

use std::ffi::OsString;

use toml::Value;

use super::problem::{Problem, closest};
use super::setting::{Origin, Setting};

/// What our variables begin with.
pub(crate) const PREFIX: &str = "TIDEWIRE_";

/// Variables that are no keys of the file: secrets, the file itself, the client's, the filter.
const OTHERS: [&str; 8] = [
    "TIDEWIRE_ADMIN_KEY",
    "TIDEWIRE_JWT_SECRET",
    "TIDEWIRE_CONFIG",
    "TIDEWIRE_URL",
    "TIDEWIRE_TOKEN",
    "TIDEWIRE_CA",
    "TIDEWIRE_WEBHOOK_SECRET",
    "TIDEWIRE_LOG",
];

/// Tests and benchmarks have variables of their own, which a server they start inherits.
const FOREIGN: [&str; 4] = ["TIDEWIRE_TEST_", "TIDEWIRE_FAULT_", "TIDEWIRE_BIN", "TIDEWIRE_BENCH"];

/// The variables that concern Tidewire. Empty ones count as not set: that is how compose files and
/// service managers write "no value".
pub(crate) fn ours(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Result<Vec<(String, String)>, Problem> {
    let mut ours = Vec::new();
    for (name, value) in variables {
        let Ok(name) = name.into_string() else {
            continue;
        };
        if !name.starts_with(PREFIX) || value.is_empty() {
            continue;
        }
        match value.into_string() {
            Ok(value) => ours.push((name, value)),
            Err(_) => return Err(Problem::NotUtf8 { name }),
        }
    }
    Ok(ours)
}

/// One variable's value.
pub(crate) fn get<'a>(variables: &'a [(String, String)], name: &str) -> Option<&'a str> {
    variables.iter().find(|(candidate, _)| candidate == name).map(|(_, value)| value.as_str())
}

/// The settings that the variables give, and what is wrong with the others.
pub(crate) fn settings(
    variables: &[(String, String)],
    defaults: &[Setting],
) -> (Vec<Setting>, Vec<Problem>) {
    let (mut settings, mut problems) = (Vec::new(), Vec::new());
    for (name, text) in variables {
        if OTHERS.contains(&name.as_str()) || FOREIGN.iter().any(|start| name.starts_with(start)) {
            continue;
        }
        match defaults.iter().find(|default| default.variable() == *name) {
            Some(default) => settings.push(Setting {
                key: default.key.clone(),
                value: parse(&default.value, text),
                origin: Origin::Variable(name.clone()),
            }),
            None => problems.push(unknown(name, defaults)),
        }
    }
    (settings, problems)
}

/// The text as the kind of value that the default is; as it stands where it is no such value, for
/// the check to refuse.
fn parse(default: &Value, text: &str) -> Value {
    let plain = || Value::from(text);
    match default {
        Value::Integer(_) => text.parse().map_or_else(|_| plain(), Value::Integer),
        Value::Boolean(_) => text.parse().map_or_else(|_| plain(), Value::Boolean),
        Value::Array(_) => {
            Value::Array(text.split(',').map(|item| Value::from(item.trim())).collect())
        }
        _ => plain(),
    }
}

fn unknown(name: &str, defaults: &[Setting]) -> Problem {
    // The prefix they all share would make everything look alike.
    let bare = |name: &str| name.trim_start_matches(PREFIX).to_owned();
    let known = defaults.iter().map(Setting::variable).chain(OTHERS.map(str::to_owned));
    let known: Vec<String> = known.map(|variable| bare(&variable)).collect();
    let suggestion = closest(&bare(name), known.iter().map(String::as_str));
    let suggestion = suggestion.map(|bare| format!("{PREFIX}{bare}"));
    Problem::UnknownVariable { name: name.to_owned(), suggestion }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::config::file;

    #[test]
    fn no_two_keys_share_a_variable() {
        let defaults = file::defaults();
        let mut names: BTreeSet<String> = OTHERS.iter().map(|name| (*name).to_owned()).collect();
        for default in &defaults {
            assert!(names.insert(default.variable()), "{}", default.key);
        }
    }

    #[test]
    fn values_take_the_type_of_their_default() {
        assert_eq!(parse(&Value::Integer(1), "20"), Value::Integer(20));
        assert_eq!(parse(&Value::Integer(1), "soon"), Value::from("soon"));
        assert_eq!(parse(&Value::Boolean(true), "false"), Value::Boolean(false));
        assert_eq!(parse(&Value::Array(vec![]), "a, b"), Value::from(vec!["a", "b"]));
        assert_eq!(parse(&Value::from(""), "20"), Value::from("20"));
    }

    #[test]
    fn a_mistaken_name_is_an_error_with_a_suggestion() {
        let variables = [
            ("TIDEWIRE_STREAM_LONG_POLL_MS".to_owned(), "1".to_owned()),
            ("TIDEWIRE_COLOUR".to_owned(), "red".to_owned()),
            ("TIDEWIRE_TEST_KEEP".to_owned(), "1".to_owned()),
        ];
        let (settings, problems) = settings(&variables, &file::defaults());
        assert!(settings.is_empty());
        let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(problems.join("\n"), @"
        unknown variable TIDEWIRE_STREAM_LONG_POLL_MS; did you mean TIDEWIRE_STREAMS_LONG_POLL_MS?
        unknown variable TIDEWIRE_COLOUR; `tidewire config --default` lists all there are
        ");
    }

    #[test]
    fn only_our_variables_are_looked_at_and_empty_ones_are_not_set() {
        let pair = |name: &str, value: &str| (OsString::from(name), OsString::from(value));
        let variables = [pair("HOME", "/"), pair("TIDEWIRE_LISTEN", ""), pair("TIDEWIRE_LOG", "x")];
        let ours = ours(variables.into_iter()).expect("UTF-8");
        assert_eq!(ours, [("TIDEWIRE_LOG".to_owned(), "x".to_owned())]);
        assert_eq!(get(&ours, "TIDEWIRE_LOG"), Some("x"));
    }
}
