//! TOML text as a list of settings, each with its line.

use std::path::Path;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

pub(crate) use tidewire_options::DEFAULT;

use super::problem::Problem;
use super::setting::{Origin, Setting};

/// The settings of the default configuration, in the order in which the file explains them.
pub(crate) fn defaults() -> Vec<Setting> {
    let path = Path::new("default.toml");
    let mut settings = settings(DEFAULT, path).expect("a test reads the default file");
    settings.iter_mut().for_each(|setting| setting.origin = Origin::Default);
    settings
}

/// The settings of a file, in its own order. A table without content is a setting too, so that a
/// mistaken name is noticed.
pub(crate) fn settings(text: &str, path: &Path) -> Result<Vec<Setting>, Problem> {
    let not_toml = |error: &toml::de::Error| Problem::NotToml {
        origin: origin(text, path, error.span().map_or(0, |span| span.start)),
        reason: error.message().to_owned(),
    };
    let table = DeTable::parse(text).map_err(|error| not_toml(&error))?;
    let mut found = Vec::new();
    flatten("", table.into_inner(), &mut found).map_err(|error| not_toml(&error))?;
    found.sort_by_key(|(start, ..)| *start);
    let settings = found.into_iter().map(|(start, key, value)| {
        let origin = origin(text, path, start);
        Setting { key, value, origin }
    });
    Ok(settings.collect())
}

type Found = (usize, String, toml::Value);

fn flatten(
    prefix: &str,
    table: DeTable<'_>,
    found: &mut Vec<Found>,
) -> Result<(), toml::de::Error> {
    for (name, spanned) in table {
        let start = name.span().start;
        let key = format!("{prefix}{}", name.get_ref());
        let span = spanned.span();
        match spanned.into_inner() {
            DeValue::Table(inner) if !inner.is_empty() => {
                flatten(&format!("{key}."), inner, found)?;
            }
            value => {
                let value = ValueDeserializer::from(Spanned::new(span, value));
                found.push((start, key, toml::Value::deserialize(value)?));
            }
        }
    }
    Ok(())
}

fn origin(text: &str, path: &Path, at: usize) -> Origin {
    let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
    Origin::File { path: path.to_owned(), line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_keep_their_order_and_lines() {
        let text = "listen = \"x\"\n\n[streams]\nlong_poll_ms = 1\n\n[empty]\n";
        let settings = settings(text, Path::new("a.toml")).expect("TOML");
        let shown: Vec<_> = settings.iter().map(|setting| format!("{setting:?}")).collect();
        insta::assert_snapshot!(shown.join("\n"), @r#"
        listen = "x" from a.toml line 1
        streams.long_poll_ms = 1 from a.toml line 4
        empty = {} from a.toml line 6
        "#);
    }

    #[test]
    fn what_is_not_toml_is_named_by_its_line() {
        let problem = settings("a = 1\nb = = 2\n", Path::new("a.toml")).expect_err("not TOML");
        assert!(problem.to_string().starts_with("a.toml line 2 is not TOML: "), "{problem}");
    }

    #[test]
    fn every_line_of_the_default_file_is_explained() {
        let mut comment_above = false;
        for (number, line) in DEFAULT.lines().enumerate() {
            let explains = line.starts_with("# ");
            let sets = !explains && !line.is_empty() && line != "#";
            assert!(!sets || comment_above, "line {} has no comment above it", number + 1);
            comment_above = explains;
        }
    }
}
