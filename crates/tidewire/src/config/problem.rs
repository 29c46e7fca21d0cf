//! Errors of a configuration, worded for the person who wrote it.

use std::fmt;
use std::path::PathBuf;

use tidewire_suggest::nearest;

use super::setting::Origin;

/// One thing that is wrong.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error("cannot read the configuration {}: {reason}", path.display())]
    Unreadable { path: PathBuf, reason: std::io::Error },
    #[error("{origin} is not TOML: {reason}")]
    NotToml { origin: Origin, reason: String },
    #[error("unknown key {key} in {origin}{}", did_you_mean(.suggestion.as_deref()))]
    UnknownKey { key: String, origin: Origin, suggestion: Option<String> },
    #[error("{key} in {origin}: that is a secret; set {variable} instead")]
    SecretInFile { key: String, origin: Origin, variable: &'static str },
    #[error("unknown variable {name}{}", did_you_mean(.suggestion.as_deref()))]
    UnknownVariable { name: String, suggestion: Option<String> },
    #[error("the variable {name} is not UTF-8")]
    NotUtf8 { name: String },
    #[error("{key} = {value} from {origin}: expected {expected}")]
    Wrong { key: String, value: String, origin: Origin, expected: String },
}

fn did_you_mean(suggestion: Option<&str>) -> String {
    match suggestion {
        Some(suggestion) => format!("; did you mean {suggestion}?"),
        None => "; `tidewire config --default` lists all there are".to_owned(),
    }
}

/// Everything that is wrong, so that it can be mended in one go. Never empty.
#[derive(Debug)]
pub(crate) struct Problems(pub(crate) Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return only.fmt(f);
        }
        write!(f, "the configuration has {} problems:", self.0.len())?;
        self.0.iter().try_for_each(|problem| write!(f, "\n  - {problem}"))
    }
}

impl std::error::Error for Problems {}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Problems {
        Problems(vec![problem])
    }
}

/// The candidate that `given` most likely stands for. A key whose table was forgotten or mistaken is recognised by
/// its last part.
pub(crate) fn closest<'a>(
    given: &str,
    candidates: impl Iterator<Item = &'a str> + Clone,
) -> Option<&'a str> {
    let last_part = |key: &'a str| key.rsplit('.').next().unwrap_or_default();
    nearest(given, candidates.clone()).or_else(|| {
        let given = given.rsplit('.').next().unwrap_or_default();
        let part = nearest(given, candidates.clone().map(last_part))?;
        candidates.clone().find(|candidate| last_part(candidate) == part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 5] = [
        "listen",
        "streams.long_poll_ms",
        "log.fallback_poll_ms",
        "sqlite.read_connections",
        "postgres.read_connections",
    ];

    #[test]
    fn slips_are_recognised() {
        for (given, meant) in [
            ("streams.long_pol_ms", Some("streams.long_poll_ms")),
            ("stream.long_poll_ms", Some("streams.long_poll_ms")),
            ("long_poll_ms", Some("streams.long_poll_ms")),
            ("lisen", Some("listen")),
            ("postgress.read_connections", Some("postgres.read_connections")),
            ("colour", None),
        ] {
            assert_eq!(closest(given, KEYS.into_iter()), meant, "{given}");
        }
    }
}
