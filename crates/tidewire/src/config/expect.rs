//! The values that each key accepts beyond its type: ranges of numbers, words, addresses.
//!
//! The type of a key is the type of its default. A test checks that every number of the default file has a range here.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;

use tidewire_deliver::Network;
use tidewire_store::StreamRule;
use toml::Value;

use super::setting::Setting;

const MIB: i64 = 1 << 20;
const HOUR_MS: i64 = 3_600_000;

/// The levels of `telemetry.level`, the most silent first.
pub(crate) const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];
/// The forms of `telemetry.format`.
pub(crate) const FORMATS: [&str; 2] = ["text", "json"];

/// The words of `capture`.
const SOURCES: [&str; 3] = ["auto", "wal", "outbox"];

/// The words of `wake`.
const WAKES: [&str; 2] = ["auto", "always"];

/// The words of `postgres.failover`.
const FAILOVERS: [&str; 3] = ["new_epoch", "stop", "lossless"];

/// The words of `auth.cookie_same_site`.
const SAME_SITE: [&str; 3] = ["strict", "lax", "none"];

/// The numbers a key may have. Lower bounds are what still works; upper bounds catch a wrong unit
/// and a slip of the finger.
pub(crate) fn range(key: &str) -> Option<RangeInclusive<i64>> {
    Some(match key {
        "database_wait_ms" => 0..=HOUR_MS,
        "streams.long_poll_ms" => 1..=HOUR_MS,
        "streams.sse_ms" => 1..=24 * HOUR_MS,
        "streams.read_bytes_max" => 1..=1024 * MIB,
        "streams.read_events_max" => 1..=1_000_000,
        "streams.page_cache_bytes_max" => 0..=64 * 1024 * MIB,
        "log.fallback_poll_ms" => 1..=60_000,
        "log.sweep_interval_ms" => 1..=HOUR_MS,
        "log.min_offset_wait_ms" => 1..=HOUR_MS,
        "sql.timeout_ms" => 1..=HOUR_MS,
        "sql.rows_max" => 1..=10_000_000,
        "sql.bytes_max" => 1..=1024 * MIB,
        "queries.rows_max" => 1..=1_000_000,
        "queries.bytes_max" => 1..=1024 * MIB,
        "queries.per_connection_max" | "queries.per_identity_max" | "queries.unindexed_max" => {
            1..=10_000_000
        }
        "queries.patterns_max" => 1..=1_000_000,
        "queries.timeout_ms" => 1..=HOUR_MS,
        "queries.cost_max" => 0..=i64::MAX,
        "queries.reads_max" | "queries.requeries_max" => 1..=1_000,
        "queries.requery_pause_ms" => 0..=HOUR_MS,
        "queries.settle_wait_ms" => 0..=60_000,
        "queries.window_slack" => 0..=100_000,
        "queries.state_bytes_max" => 1..=1024 * MIB,
        "queries.node_state_bytes_max" => 1..=64 * 1024 * MIB,
        "queries.transaction_rows_max" => 1..=1_000_000,
        "queries.resume_events_max" => 0..=10_000_000,
        "queries.registry_ms" => 10..=HOUR_MS,
        "commit.commands_max" => 1..=100_000,
        "commit.bytes_max" => 1..=1024 * MIB,
        "commit.queue_max" => 1..=10_000_000,
        "sqlite.read_connections" => 1..=64,
        "postgres.read_connections" => 1..=1_000,
        "postgres.query_connections" => 1..=1_000,
        "postgres.sql_connections" => 1..=1_000,
        "postgres.connect_timeout_ms" => 1..=HOUR_MS,
        "webhooks.timeout_ms" => 1..=HOUR_MS,
        "webhooks.concurrent_max" => 1..=10_000,
        "limits.body_bytes_max" => 1..=1024 * MIB,
        "limits.inflight_bytes_max" => MIB..=1024 * 1024 * MIB,
        "limits.stream_name_bytes_max" => 1..=65_536,
        // The HTTP library works with no less than this.
        "limits.header_bytes_max" => 8_192..=MIB,
        "limits.query_bytes_max" => 64..=MIB,
        "limits.messages_per_append_max" => 1..=1_000_000,
        "limits.live_readers_max" => 1..=10_000_000,
        "limits.connections_max" => 1..=10_000_000,
        "limits.connections_per_address_max" => 0..=10_000_000,
        "limits.tls_handshake_timeout_ms" => 1..=HOUR_MS,
        "limits.header_timeout_ms" => 1..=HOUR_MS,
        "limits.body_timeout_ms" => 1..=HOUR_MS,
        "limits.idle_timeout_ms" => 1..=24 * HOUR_MS,
        "live.shards" => 0..=256,
        "live.ping_ms" => 10..=HOUR_MS,
        "live.silence_ms" => 20..=HOUR_MS,
        "live.queue_events_max" => 1..=10_000_000,
        "live.queue_bytes_max" => 1..=1024 * MIB,
        "live.queue_age_ms" => 1..=24 * HOUR_MS,
        "live.notify_bytes" => 0..=64 * MIB,
        "live.fan_out_threshold" => 1..=1_000_000,
        "live.connections_per_identity_max" => 1..=10_000_000,
        "live.subscriptions_max" => 1..=1_000_000,
        "live.entities_max" => 1..=1_000_000,
        "live.message_bytes_max" => 64..=64 * MIB,
        "live.reconnect_spread_ms" => 1..=HOUR_MS,
        "live.memory_bytes_max" => MIB..=1024 * 1024 * MIB,
        "sessions.ttl_ms" => 100..=30 * 24 * HOUR_MS,
        "sessions.stale_ms" => 100..=365 * 24 * HOUR_MS,
        "node.lease_ms" => 100..=HOUR_MS,
        "auth.key_cache_ms" => 0..=24 * HOUR_MS,
        "auth.ticket_ttl_ms" => 1..=HOUR_MS,
        "auth.control_poll_ms" => 10..=60_000,
        "jwt.jwks_refresh_ms" => 10_000..=24 * HOUR_MS,
        "jwt.skew_ms" => 0..=300_000,
        "rates.identity_per_second" | "rates.address_per_second" | "rates.failures_per_second" => {
            0..=100_000_000
        }
        "rates.identity_burst" | "rates.address_burst" | "rates.failures_burst" => 1..=100_000_000,
        "sequencer.batch_rows_max" => 1..=100_000,
        "sequencer.batch_bytes_max" => 1..=1024 * MIB,
        "sequencer.poll_ms" => 1..=1_000,
        "sequencer.sleep_after_ms" => 0..=60_000,
        // A leader that is silent for longer loses its session.
        "sequencer.idle_poll_ms" => 1..=1_000,
        "sequencer.election_poll_ms" => 10..=60_000,
        "sequencer.check_ms" => 10..=60_000,
        "sequencer.attempts_max" => 1..=1_000,
        "sequencer.retry_ms" => 1..=300_000,
        "retention.age_ms" | "retention.hard_age_ms" => 0..=36_500 * 24 * HOUR_MS,
        "retention.bytes_max" | "retention.hard_bytes_max" => 0..=i64::MAX,
        "wal.warn_bytes" | "wal.keep_bytes_max" => MIB..=i64::MAX,
        "shutdown.grace_ms" => 0..=HOUR_MS,
        other => return of_groups(other),
    })
}

/// The same of consumer groups.
fn of_groups(key: &str) -> Option<RangeInclusive<i64>> {
    Some(match key {
        "groups.batch_size" | "groups.batch_size_max" | "groups.transaction_events_max" => {
            1..=1_000_000
        }
        "groups.lease_ms" | "groups.lease_ms_max" => 100..=24 * HOUR_MS,
        "groups.wait_ms" | "groups.wait_ms_max" => 0..=HOUR_MS,
        "groups.retry_ms" | "groups.retry_ms_max" => 0..=24 * HOUR_MS,
        "groups.batch_bytes" | "groups.transaction_bytes_max" => 1..=1024 * MIB,
        "groups.batch_memory_bytes_max" => MIB..=64 * 1024 * MIB,
        "groups.page_cache_bytes_max" => 0..=64 * 1024 * MIB,
        "groups.lag_scan_max" => 0..=100_000_000,
        "groups.metrics_ms" => 10..=HOUR_MS,
        _ => return None,
    })
}

/// Whether `given` can stand where `default` stands; if not, what was expected instead.
pub(crate) fn check(default: &Setting, given: &Value) -> Result<(), String> {
    let key = default.key.as_str();
    let fits = match (&default.value, given) {
        (Value::Integer(_), Value::Integer(number)) => {
            range(key).is_none_or(|range| range.contains(number))
        }
        (Value::Boolean(_), Value::Boolean(_)) => true,
        (Value::String(_), Value::String(text)) => text_fits(key, text),
        (Value::Array(_), Value::Array(items)) => items.iter().all(|item| item_fits(key, item)),
        _ => false,
    };
    if fits { Ok(()) } else { Err(expected(default)) }
}

/// The address that `listen` means. `localhost` is the loopback of IPv4, whatever the machine's
/// resolver says, so that it means the same everywhere.
pub(crate) fn listen_address(text: &str) -> Option<SocketAddr> {
    if let Some(port) = text.strip_prefix("localhost:") {
        return Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port.parse().ok()?));
    }
    text.parse().ok()
}

fn text_fits(key: &str, text: &str) -> bool {
    match key {
        "listen" => listen_address(text).is_some(),
        "data" => !text.is_empty(),
        "database" => {
            text.is_empty() || has_scheme_and_host(text, &["postgres://", "postgresql://"])
        }
        "public_url" => text.is_empty() || has_scheme_and_host(text, &["http://", "https://"]),
        "capture" => SOURCES.contains(&text),
        "wake" => WAKES.contains(&text),
        "postgres.failover" => FAILOVERS.contains(&text),
        "telemetry.level" => LEVELS.contains(&text),
        "telemetry.format" => FORMATS.contains(&text),
        "auth.cookie" => {
            !text.is_empty()
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
        }
        "auth.cookie_same_site" => SAME_SITE.contains(&text),
        "jwt.host_claim" | "jwt.scopes_claim" => !text.is_empty(),
        _ => true,
    }
}

fn has_scheme_and_host(text: &str, schemes: &[&str]) -> bool {
    let rest = schemes.iter().find_map(|scheme| text.strip_prefix(scheme));
    rest.is_some_and(|rest| !rest.is_empty() && !text.contains(char::is_whitespace))
}

fn item_fits(key: &str, item: &Value) -> bool {
    match key {
        "trusted_proxies" => item.as_str().is_some_and(|text| text.parse::<Network>().is_ok()),
        "jwt.audience" => item.as_str().is_some_and(|text| !text.is_empty()),
        "retention.streams" => item.as_str().is_some_and(|text| text.parse::<StreamRule>().is_ok()),
        _ => is_origin(item),
    }
}

fn is_origin(item: &Value) -> bool {
    let schemes = &["http://", "https://"];
    item.as_str().is_some_and(|text| {
        // An origin ends with its host and port: a browser never sends one with a path.
        has_scheme_and_host(text, schemes) && text.matches('/').count() == 2
    })
}

fn expected(default: &Setting) -> String {
    let text = match default.key.as_str() {
        "listen" => "an IP address and a port, such as \"127.0.0.1:4437\"",
        "data" => "the path of a folder, such as \"./tidewire-data\"",
        "database" => "a URL such as \"postgres://user:password@host:5432/name\"",
        "public_url" => "a URL such as \"https://live.example.org\"",
        "allowed_origins" => "a list of origins such as [\"https://app.example.org\"]",
        "trusted_proxies" => "a list of addresses and networks such as [\"10.0.0.0/8\", \"::1\"]",
        "capture" => return format!("one of {}", SOURCES.join(", ")),
        "wake" => return format!("one of {}", WAKES.join(", ")),
        "postgres.failover" => return format!("one of {}", FAILOVERS.join(", ")),
        "telemetry.level" => return format!("one of {}", LEVELS.join(", ")),
        "telemetry.format" => return format!("one of {}", FORMATS.join(", ")),
        "auth.cookie_same_site" => return format!("one of {}", SAME_SITE.join(", ")),
        "auth.cookie" => "a name of letters, digits, - and _",
        "retention.streams" => {
            "a list of patterns and ages (s, m, h or d) such as [\"logs/*=7d\", \"audit/**=365d\"]"
        }
        "jwt.audience" => "a list of names such as [\"tidewire\"]",
        "jwt.host_claim" | "jwt.scopes_claim" => "the name of a claim",
        key => match (&default.value, range(key)) {
            (Value::Integer(_), Some(range)) => {
                return format!("a whole number from {} to {}", range.start(), range.end());
            }
            (Value::Integer(_), None) => "a whole number",
            (Value::Boolean(_), _) => "true or false",
            _ => "text",
        },
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use tidewire_capture::{Source, Wake};
    use tidewire_deliver::SameSite;
    use tidewire_store_postgres::Failover;

    use super::*;
    use crate::config::file;

    #[test]
    fn every_number_of_the_default_file_has_a_range_that_holds_it() {
        for default in file::defaults() {
            if let Value::Integer(number) = default.value {
                let range = range(&default.key).unwrap_or_else(|| panic!("{}", default.key));
                assert!(range.contains(&number), "{}", default.key);
            }
        }
    }

    #[test]
    fn the_defaults_fit() {
        for default in file::defaults() {
            assert_eq!(check(&default, &default.value), Ok(()), "{}", default.key);
        }
    }

    #[test]
    fn texts_are_held_to_what_they_mean() {
        for (key, text, fits) in [
            ("listen", "0.0.0.0:80", true),
            ("listen", "[::1]:4437", true),
            ("listen", "localhost:0", true),
            ("listen", "127.0.0.1", false),
            ("listen", ":4437", false),
            ("data", "", false),
            ("database", "postgresql://localhost/app", true),
            ("database", "mysql://localhost/app", false),
            ("public_url", "live.example.org", false),
            ("capture", "outbox", true),
            ("capture", "triggers", false),
            ("wake", "always", true),
            ("wake", "never", false),
            ("postgres.failover", "lossless", true),
            ("postgres.failover", "ignore", false),
            ("telemetry.level", "verbose", false),
        ] {
            assert_eq!(text_fits(key, text), fits, "{key} = {text}");
        }
    }

    #[test]
    fn each_word_that_is_let_through_is_one_of_those_that_are_read() {
        fn unread<T: DeserializeOwned>(words: &[&'static str]) -> Vec<&'static str> {
            let is_read = |word: &str| T::deserialize(Value::from(word)).is_ok();
            words.iter().copied().filter(|word| !is_read(word)).collect()
        }
        let none: [&str; 0] = [];
        assert_eq!(unread::<Source>(&SOURCES), none);
        assert_eq!(unread::<Wake>(&WAKES), none);
        assert_eq!(unread::<Failover>(&FAILOVERS), none);
        assert_eq!(unread::<SameSite>(&SAME_SITE), none);
    }

    #[test]
    fn a_proxy_is_an_address_or_a_network() {
        for (text, fits) in [("10.0.0.0/8", true), ("::1", true), ("proxy.example.org", false)] {
            assert_eq!(item_fits("trusted_proxies", &Value::from(text)), fits, "{text}");
        }
    }

    #[test]
    fn an_audience_is_any_name() {
        for (text, fits) in [("tidewire", true), ("https://live.example.org/v1", true), ("", false)]
        {
            assert_eq!(item_fits("jwt.audience", &Value::from(text)), fits, "{text}");
        }
    }

    #[test]
    fn an_origin_has_no_path() {
        assert!(is_origin(&Value::from("https://app.example.org:8443")));
        assert!(!is_origin(&Value::from("https://app.example.org/")));
        assert!(!is_origin(&Value::from("app.example.org")));
    }
}
