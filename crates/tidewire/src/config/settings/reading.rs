//! Values of the configuration that are parsed from words.

use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use tidewire_capture::{Source, Wake};
use tidewire_deliver as deliver;
use tidewire_store::StreamRule;
use tidewire_store_postgres::Failover;

pub(super) fn ms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    u64::deserialize(deserializer).map(Duration::from_millis)
}

pub(super) fn source<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Source, D::Error> {
    let word = String::deserialize(deserializer)?;
    Source::parse(&word)
        .ok_or_else(|| D::Error::custom(format!("{word} is not a source of changes")))
}

pub(super) fn wake<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Wake, D::Error> {
    let word = String::deserialize(deserializer)?;
    Wake::parse(&word).ok_or_else(|| D::Error::custom(format!("{word} says nothing of waking")))
}

pub(super) fn failover<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Failover, D::Error> {
    let word = String::deserialize(deserializer)?;
    Failover::parse(&word)
        .ok_or_else(|| D::Error::custom(format!("{word} says nothing of a failover")))
}

pub(super) fn networks<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<deliver::Network>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
}

pub(super) fn stream_rules<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<StreamRule>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let rule = |text: &String| stream_rule(text).ok_or_else(|| D::Error::custom("no such rule"));
    texts.iter().map(rule).collect()
}

/// A pattern and an age, such as `logs/*=7d`.
pub(in crate::config) fn stream_rule(text: &str) -> Option<StreamRule> {
    let (pattern, age) = text.rsplit_once('=')?;
    let age = crate::cli::duration(age).ok()?;
    let age_ms = u64::try_from(age.as_millis()).ok().filter(|ms| *ms > 0)?;
    (!pattern.is_empty()).then(|| StreamRule { pattern: pattern.to_owned(), age_ms })
}
