//! What subscription routes are sent, and what they show.

use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use tidewire_store::Position;
use tidewire_store::subscription::{Config, Kind, Subscription};

use super::{reply, target};
use crate::node::Node;
use tidewire_access::problem::Problem;
use tidewire_access::stream_name::{StreamName, relative_name};
use tidewire_hub::offset::parse_offset;

const LEASE_TTL_MS_DEFAULT: u64 = 30_000;
const LEASE_TTL_MS_MIN: u64 = 1_000;
const LEASE_TTL_MS_MAX: u64 = 600_000;
/// Streams named in one request.
const STREAMS_MAX: usize = 1_000;
/// Bytes of a pattern, a description, a worker's name or a URL.
const TEXT_BYTES_MAX: usize = 2_048;

pub(super) fn invalid(detail: impl Into<String>) -> Problem {
    reply::error(
        StatusCode::BAD_REQUEST,
        "INVALID_REQUEST",
        detail,
        "see the subscriptions section of PROTOCOL.md for the request's shape",
    )
}

#[derive(Deserialize)]
struct SubscriptionJson {
    #[serde(rename = "type")]
    kind: String,
    pattern: Option<String>,
    #[serde(default)]
    streams: Vec<String>,
    webhook: Option<WebhookJson>,
    wake_stream: Option<String>,
    lease_ttl_ms: Option<u64>,
    description: Option<String>,
}

#[derive(Deserialize)]
struct WebhookJson {
    url: String,
}

fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Problem> {
    crate::document::parse(body, invalid)
}

/// What a creator chose.
pub(super) fn config(node: &Node, body: &[u8]) -> Result<Config, Problem> {
    let document: SubscriptionJson = parse(body)?;
    let pattern = match document.pattern.as_deref().map(relative_name) {
        None | Some("") => None,
        Some(pattern) => Some(short("pattern", pattern)?),
    };
    let mut streams = names(node, &document.streams)?;
    streams.sort();
    streams.dedup();
    if pattern.is_none() && streams.is_empty() {
        return Err(invalid("a pattern, or at least one stream, is needed"));
    }
    let kind = match (document.kind.as_str(), document.webhook, document.wake_stream) {
        ("webhook", Some(webhook), _) => {
            target::check_url(&webhook.url, node.options.webhooks.allow_loopback)
                .map_err(target::Rejected::problem)?;
            Kind::Webhook { url: short("webhook.url", &webhook.url)? }
        }
        ("webhook", None, _) => return Err(invalid("a webhook subscription needs webhook.url")),
        ("pull-wake", _, Some(wake_stream)) => {
            let name = StreamName::parse(relative_name(&wake_stream), &node.options.limits)?;
            name.writable()?;
            Kind::PullWake { wake_stream: name.into_string() }
        }
        ("pull-wake", _, None) => {
            return Err(invalid("a pull-wake subscription needs wake_stream"));
        }
        _ => return Err(invalid("type must be \"webhook\" or \"pull-wake\"")),
    };
    let lease_ttl_ms = document.lease_ttl_ms.unwrap_or(LEASE_TTL_MS_DEFAULT);
    if !(LEASE_TTL_MS_MIN..=LEASE_TTL_MS_MAX).contains(&lease_ttl_ms) {
        return Err(invalid(format!(
            "lease_ttl_ms must be from {LEASE_TTL_MS_MIN} to {LEASE_TTL_MS_MAX}"
        )));
    }
    let description =
        document.description.as_deref().map(|d| short("description", d)).transpose()?;
    Ok(Config { kind, pattern, streams, lease_ttl_ms, description })
}

fn short(what: &str, text: &str) -> Result<String, Problem> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(invalid(format!("{what} has more than {TEXT_BYTES_MAX} bytes")));
    }
    Ok(text.to_owned())
}

fn names(node: &Node, streams: &[String]) -> Result<Vec<String>, Problem> {
    if streams.len() > STREAMS_MAX {
        return Err(invalid(format!("at most {STREAMS_MAX} streams can be named at once")));
    }
    let name = |stream: &String| {
        StreamName::parse(relative_name(stream), &node.options.limits).map(StreamName::into_string)
    };
    streams.iter().map(name).collect()
}

/// Streams to add by name.
pub(super) fn streams(node: &Node, body: &[u8]) -> Result<Vec<String>, Problem> {
    #[derive(Deserialize)]
    struct AddStreamsJson {
        streams: Vec<String>,
    }
    let document: AddStreamsJson = parse(body)?;
    if document.streams.is_empty() {
        return Err(invalid("streams must name at least one stream"));
    }
    names(node, &document.streams)
}

/// Who claims.
pub(super) fn worker(body: &[u8]) -> Result<String, Problem> {
    #[derive(Deserialize)]
    struct WorkerJson {
        worker: String,
    }
    let document: WorkerJson = parse(body)?;
    if document.worker.is_empty() {
        return Err(invalid("worker must name who claims"));
    }
    short("worker", &document.worker)
}

/// Progress on a wake.
pub(super) struct Ack {
    pub(super) wake_id: String,
    pub(super) generation: u64,
    pub(super) acks: Vec<(String, Position)>,
    pub(super) done: bool,
}

pub(super) fn ack(node: &Node, body: &[u8]) -> Result<Ack, Problem> {
    #[derive(Deserialize)]
    struct AckWakeJson {
        #[serde(default)]
        wake_id: String,
        #[serde(default)]
        generation: u64,
        #[serde(default)]
        acks: Vec<OneAck>,
        #[serde(default)]
        done: bool,
    }
    #[derive(Deserialize)]
    struct OneAck {
        #[serde(alias = "path")]
        stream: String,
        offset: String,
    }
    let document: AckWakeJson = parse(body)?;
    let position = |ack: &OneAck| {
        parse_offset(&ack.offset, node.store.epoch()).map_err(|_| {
            reply::error(
                StatusCode::CONFLICT,
                "INVALID_OFFSET",
                format!("{:?} is not an offset of this log", ack.offset),
                "acknowledge with offsets as they were given, such as tail_offset",
            )
        })
    };
    let acks = document
        .acks
        .iter()
        .map(|ack| Ok((relative_name(&ack.stream).to_owned(), position(ack)?)))
        .collect::<Result<_, Problem>>()?;
    Ok(Ack {
        wake_id: document.wake_id,
        generation: document.generation,
        acks,
        done: document.done,
    })
}

/// A subscription as it is shown.
pub(super) fn subscription(node: &Node, subscription: &Subscription) -> Value {
    let config = &subscription.config;
    let failing = subscription.retry_count > 0;
    let mut document = json!({
        "id": subscription.id,
        "subscription_id": subscription.id,
        "streams": links(node, subscription, false),
        "lease_ttl_ms": config.lease_ttl_ms,
        "created_at": timestamp(subscription.created_at_ms),
        "status": if failing { "failed" } else { "active" },
        "generation": subscription.generation,
    });
    match &config.kind {
        Kind::Webhook { url } => {
            document["type"] = "webhook".into();
            document["webhook"] = json!({
                "url": url,
                "signing": {
                    "alg": "ed25519",
                    "kid": node.signer.key_id(),
                    "jwks_url": format!("{}/v1/stream/__ds/jwks.json", node.public_url),
                },
            });
            if failing {
                document["retry_count"] = subscription.retry_count.into();
                document["next_attempt_at"] = subscription.next_attempt_at_ms.map(timestamp).into();
            }
        }
        Kind::PullWake { wake_stream } => {
            document["type"] = "pull-wake".into();
            document["wake_stream"] = wake_stream.clone().into();
        }
    }
    if let Some(pattern) = &config.pattern {
        document["pattern"] = pattern.clone().into();
    }
    if let Some(description) = &config.description {
        document["description"] = description.clone().into();
    }
    document
}

/// A subscription's streams; with their ends, where work is handed out.
pub(super) fn links(node: &Node, subscription: &Subscription, with_ends: bool) -> Value {
    let link = |(name, link): (&String, &tidewire_store::subscription::Link)| {
        let mut document = json!({
            "path": name,
            "link_type": if link.explicit { "explicit" } else { "glob" },
            "acked_offset": node.hub.offset(link.acked).to_string(),
        });
        if with_ends {
            document["tail_offset"] = node.hub.offset(link.tail).to_string().into();
            document["has_pending"] = link.pending().into();
        }
        document
    };
    subscription.links.iter().map(link).collect()
}

fn timestamp(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |at| at.to_string())
}
