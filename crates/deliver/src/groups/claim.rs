//! `POST …/claim`: a batch, or a wait for one.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, Method, Response, StatusCode, header};
use axum::response::IntoResponse;
use bytes::{BufMut, BytesMut};
use serde::Deserialize;
use tokio::sync::oneshot;
use tokio::time::Instant;

use tidewire_store::Epoch;
use tidewire_store::groups::{Batch, is_group_name};

use super::Answer;
use super::dispatchers::GroupDispatchers;
use super::document::consumed;
use super::event::{put_event, put_text};
use super::problem::invalid;
use super::waiting_claim::{Leased, Reply, WaitingClaim};
use crate::body;
use crate::document::{only, parse};
use tidewire_access::auth::Identity;
use tidewire_access::budget::PrepaidBody;
use tidewire_access::options::GroupOptions;
use tidewire_access::problem::Problem;
use tidewire_hub::encode::put_json_string;

/// The least that a lease lasts: less would be over before the answer has arrived.
const LEASE_MS_MIN: u64 = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimJson {
    member: Option<String>,
    batch_size: Option<usize>,
    lease_ms: Option<u64>,
    wait_ms: Option<u64>,
    partition: Option<u32>,
}

/// Checks how long a lease is to last.
pub(super) fn lease(asked_ms: Option<u64>, options: &GroupOptions) -> Result<Duration, Problem> {
    let Some(lease_ms) = asked_ms else { return Ok(options.lease) };
    let lease = Duration::from_millis(lease_ms);
    if lease_ms < LEASE_MS_MIN || lease > options.lease_max {
        return Err(invalid(format!(
            "lease_ms is {LEASE_MS_MIN} to {} (groups.lease_ms_max)",
            options.lease_max.as_millis()
        )));
    }
    Ok(lease)
}

fn read(
    bytes: &[u8],
    options: &GroupOptions,
) -> Result<(WaitingClaim, oneshot::Receiver<Reply>), Problem> {
    let document: ClaimJson = parse(bytes, invalid)?;
    let ClaimJson { member, batch_size, lease_ms, wait_ms, partition } = document;
    let member = member.unwrap_or_else(|| "worker".to_owned());
    if !is_group_name(&member) {
        return Err(invalid(
            "a member's name has 1 to 255 bytes, no slash and no control characters".to_owned(),
        ));
    }
    let batch_size = batch_size.unwrap_or(options.batch_size);
    if batch_size == 0 {
        return Err(invalid("batch_size is at least 1".to_owned()));
    }
    if batch_size > options.batch_size_max {
        return Err(Problem::bad_request(
            "batch_too_large",
            format!("groups.batch_size_max is {}", options.batch_size_max),
            "ask for fewer events",
        ));
    }
    let wait = wait_ms.map_or(options.wait, Duration::from_millis);
    if wait > options.wait_max {
        return Err(invalid(format!(
            "wait_ms is at most {} (groups.wait_ms_max)",
            options.wait_max.as_millis()
        )));
    }
    let lease = lease(lease_ms, options)?;
    let (reply, answer) = oneshot::channel();
    let deadline = Instant::now() + wait;
    Ok((
        WaitingClaim {
            member,
            batch_size,
            lease,
            partition,
            deadline,
            looked: false,
            crowded: false,
            reply,
        },
        answer,
    ))
}

/// Answers with a batch as soon as there is one, or with 204 when the time is up.
pub(super) async fn handle(
    dispatchers: &Arc<GroupDispatchers>,
    group: &str,
    request: Request,
    identity: &Identity,
) -> Answer {
    only(&request, &[Method::POST])?;
    let bytes = body::read(request, &dispatchers.hub.access).await?;
    let (ask, answer) = read(&bytes, &dispatchers.hub.options.groups)?;
    let lease = ask.lease;
    let _seat = dispatchers.readers.seat()?;
    dispatchers.hub.access.memory.make_room()?;
    if dispatchers.hub.draining.is_cancelled() {
        return Ok(nothing(dispatchers));
    }
    dispatchers.ask(group, ask);
    tokio::select! {
        biased;
        answer = answer => match answer {
            Ok(Ok(Some(leased))) => Ok(shown(dispatchers, group, lease, leased)),
            Ok(Err(refused)) => Err(refused.into()),
            // The dispatcher went with the server.
            Ok(Ok(None)) | Err(_) => Ok(nothing(dispatchers)),
        },
        ended = identity.validity().over() => Err(tidewire_access::auth::ended(ended)),
    }
}

fn nothing(dispatchers: &GroupDispatchers) -> Response<Body> {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if dispatchers.hub.draining.is_cancelled() {
        // The worker is to come back, and not over this connection.
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

fn shown(
    dispatchers: &GroupDispatchers,
    group: &str,
    lease: Duration,
    leased: Leased,
) -> Response<Body> {
    let Leased { token, batch, place } = leased;
    let bytes: usize = batch.groups.iter().flat_map(|key| &key.events).map(|e| e.bytes()).sum();
    let mut out = BytesMut::with_capacity(bytes + 1_024);
    let epoch = dispatchers.hub.store.epoch();
    out.put_slice(b"{\"token\":");
    put_json_string(&mut out, &token.sign(&dispatchers.signer, epoch, group));
    out.put_slice(b",\"group\":");
    put_json_string(&mut out, group);
    let (from, to) = (consumed(dispatchers, batch.from), consumed(dispatchers, batch.next));
    out.put_slice(
        format!(
            ",\"partition\":{},\"generation\":{},\"lease_ms\":{},\"from\":\"{from}\",\
             \"to\":\"{to}\",\"redrive\":{},\"groups\":[",
            token.partition,
            token.generation,
            lease.as_millis(),
            token.letters.is_some(),
        )
        .as_bytes(),
    );
    put_groups(&mut out, &batch, epoch);
    out.put_slice(b"]}");
    let mut response = Response::new(Body::from(place.until_sent(out.freeze())));
    response.extensions_mut().insert(PrepaidBody);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn put_groups(out: &mut BytesMut, batch: &Batch, epoch: Epoch) {
    for (index, key) in batch.groups.iter().enumerate() {
        if index > 0 {
            out.put_u8(b',');
        }
        out.put_slice(b"{\"host_id\":");
        put_text(out, Some(&key.key.host));
        out.put_slice(b",\"user_id\":");
        put_text(out, Some(&key.key.user));
        out.put_slice(format!(",\"attempt\":{},\"events\":[", key.attempt).as_bytes());
        for (index, event) in key.events.iter().enumerate() {
            if index > 0 {
                out.put_u8(b',');
            }
            put_event(out, event, epoch);
        }
        out.put_slice(b"]}");
    }
}
