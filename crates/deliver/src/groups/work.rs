//! Ending a batch: `extend`, `ack` and `nack`.
//!
//! What a batch holds is not remembered between claim and ack: it is assembled again, from the same stretch
//! of the log under the same generation, which gives the same. So a worker may come to any node.

use axum::extract::Request;
use axum::http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use tidewire_store::Position;
use tidewire_store::groups::{
    Acked, Assembled, Batch, Ending, GroupError, Holdings, Limits, Pages,
};
use tidewire_store::{SqlLimits, Statements};

use super::batch_permits::BatchPermit;
use super::claim::lease;
use super::counters::Counts;
use super::dispatchers::GroupDispatchers;
use super::document::consumed;
use super::find;
use super::problem::{self, invalid};
use super::token::Token;
use super::{Answer, failures, redrive};
use crate::body;
use crate::document::{only, parse, uncached};
use tidewire_access::auth::{Act, Identity, audit};
use tidewire_access::problem::Problem;

/// A lease that holds, and what it is about.
pub(super) struct HeldLease {
    pub(super) holdings: Holdings,
    /// Where the partition is to stand; none if the lease is over.
    to: Option<Position>,
}

/// Finds what a token is about. One of another generation is lost.
pub(super) async fn held(
    dispatchers: &GroupDispatchers,
    group: &str,
    token: &Token,
) -> Result<HeldLease, Problem> {
    let store = &dispatchers.store;
    let holdings = match store.holdings(group, token.partition).await {
        Ok(holdings) => holdings,
        Err(GroupError::NotFound) => {
            store.group(group).await?.ok_or_else(problem::not_found)?;
            // The number of partitions was changed.
            return Err(problem::lease_lost());
        }
        Err(error) => return Err(problem::of(error)),
    };
    if holdings.partition.generation != token.generation {
        return Err(problem::lease_lost());
    }
    let to = holdings.partition.lease_ms.and(holdings.partition.leased_to);
    Ok(HeldLease { holdings, to })
}

impl HeldLease {
    /// The batch as it was handed out, and its place in memory.
    async fn batch(
        &self,
        dispatchers: &GroupDispatchers,
        token: &Token,
    ) -> Result<(Batch, BatchPermit), Problem> {
        let (room, options) = (&dispatchers.room, &dispatchers.hub.options.groups);
        dispatchers.hub.access.memory.make_room()?;
        if let Some(letters) = token.letters {
            let place = room.take(options.transaction_bytes_max).await?;
            let batch = redrive::letters(dispatchers, &self.holdings, letters).await;
            return Ok((batch.map_err(problem::of)?, place));
        }
        let place = room.take(options.batch_bytes).await?;
        if let Some(usual) = self.read(dispatchers, token, options.batch_bytes).await? {
            return Ok((usual, place));
        }
        drop(place);
        let place = room.take(options.transaction_bytes_max).await?;
        let whole = self.read(dispatchers, token, usize::MAX).await?;
        // All of it fits, so it is there.
        whole.map(|batch| (batch, place)).ok_or_else(problem::lease_lost)
    }

    /// The batch, unless it has more bytes than these.
    async fn read(
        &self,
        dispatchers: &GroupDispatchers,
        token: &Token,
        bytes_max: usize,
    ) -> Result<Option<Batch>, Problem> {
        let mut held = self.holdings.clone();
        let from = held.partition.next;
        let to = self.to.unwrap_or(from);
        let only = Some([token.partition].into());
        let (pages, wants) = (Pages::new(0), find::wants(&held.group, only));
        held.group.barrier = Some(to);
        let (store, limits) = (&*dispatchers.store, Limits::of_bytes(bytes_max));
        let whole = pages.assemble(store, &wants, &held, limits, from, to.before()).await?;
        Ok(match whole {
            Assembled::TooLarge(_) => None,
            // One that was cut has an end before the lease's.
            Assembled::Batch(batch) => {
                (batch.next >= to || bytes_max == usize::MAX).then_some(batch)
            }
            _ => {
                let (groups, park) = (Vec::new(), Vec::new());
                Some(Batch { from, next: to, groups, park, redrive: None })
            }
        })
    }

    /// How the batch ends if all of it is done.
    async fn ending(
        &self,
        dispatchers: &GroupDispatchers,
        token: &Token,
    ) -> Result<(Ending, Option<BatchPermit>), Problem> {
        let Some(next) = self.to else {
            // A repeated ack: the store says so, and does nothing.
            return Ok((Ending { next: self.holdings.partition.next, ..Ending::default() }, None));
        };
        let Holdings { parked, attempts, .. } = &self.holdings;
        if token.letters.is_none() && parked.is_empty() && attempts.is_empty() {
            return Ok((Ending { next, ..Ending::default() }, None));
        }
        let (batch, place) = self.batch(dispatchers, token).await?;
        Ok((Ending { next, ..batch.done_but(&self.holdings, &[]) }, Some(place)))
    }
}

/// `POST …/extend`.
pub(super) async fn extend(
    dispatchers: &GroupDispatchers,
    group: &str,
    request: Request,
) -> Answer {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct ExtendJson {
        token: String,
        lease_ms: Option<u64>,
    }
    only(&request, &[Method::POST])?;
    let bytes = body::read(request, &dispatchers.hub.access).await?;
    let ExtendJson { token, lease_ms } = parse(&bytes, invalid)?;
    let token = Token::verify(&dispatchers.signer, dispatchers.hub.store.epoch(), group, &token)?;
    let lease = lease(lease_ms, &dispatchers.hub.options.groups)?;
    let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
    let extended = dispatchers.store.extend_lease(&token.lease(group), lease_ms).await;
    extended.map_err(problem::of)?;
    Ok(uncached(StatusCode::OK, json!({ "lease_ms": lease_ms })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Statement {
    sql: String,
    #[serde(default)]
    params: Vec<Box<RawValue>>,
}

/// `POST …/ack`.
pub(super) async fn ack(
    dispatchers: &GroupDispatchers,
    group: &str,
    request: Request,
    identity: &Identity,
) -> Answer {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct AckJson {
        token: String,
        #[serde(default)]
        sql: Vec<Statement>,
    }
    only(&request, &[Method::POST])?;
    let bytes = body::read(request, &dispatchers.hub.access).await?;
    let AckJson { token, sql } = parse(&bytes, invalid)?;
    let statements_max = dispatchers.hub.options.groups.events_max();
    if sql.len() > statements_max {
        return Err(invalid(format!(
            "an ack has at most {statements_max} statements (groups.transaction_events_max)"
        )));
    }
    let has_sql = !sql.is_empty();
    if has_sql {
        identity.may(Act::Sql)?;
    }
    let token = Token::verify(&dispatchers.signer, dispatchers.hub.store.epoch(), group, &token)?;
    let held = held(dispatchers, group, &token).await?;
    let (ending, _place) = held.ending(dispatchers, &token).await?;
    let said = audit::statements(
        &dispatchers.hub.access,
        sql.iter().map(|one| (one.sql.as_str(), one.params.as_slice())),
    );
    let statements = statements(dispatchers, identity, sql);
    let acked = dispatchers.store.ack(&token.lease(group), &ending, statements).await;
    let acked = acked.map_err(problem::of);
    if has_sql {
        audit::ran_sql(identity, said.as_deref(), acked.as_ref().err());
    }
    let acked = acked?;
    dispatchers.look_again(group);
    Ok(uncached(
        StatusCode::OK,
        match acked {
            Acked::Done { next, offset } => {
                let events = u64::try_from(token.events).unwrap_or(u64::MAX);
                dispatchers.counters.count(group, Counts { events, ..Counts::default() });
                let offset = offset.map(|offset| dispatchers.hub.offset(offset).to_string());
                json!({ "consumed": consumed(dispatchers, next), "offset": offset, "repeated": false })
            }
            Acked::Before => json!({ "consumed": null, "offset": null, "repeated": true }),
        },
    ))
}

fn statements(
    dispatchers: &GroupDispatchers,
    identity: &Identity,
    sql: Vec<Statement>,
) -> Vec<Statements> {
    let options = &dispatchers.hub.options.sql;
    let limits = SqlLimits {
        timeout_ms: u64::try_from(options.timeout.as_millis()).unwrap_or(u64::MAX),
        rows_max: options.rows_max,
        bytes_max: options.bytes_max,
    };
    let whole =
        |Statement { sql, params }| Statements { sql, params, actor: identity.actor(), limits };
    sql.into_iter().map(whole).collect()
}

/// `POST …/nack`.
pub(super) async fn nack(dispatchers: &GroupDispatchers, group: &str, request: Request) -> Answer {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct NackJson {
        token: String,
        #[serde(default)]
        failed: Vec<failures::Failed>,
        retry_in_ms: Option<u64>,
    }
    only(&request, &[Method::POST])?;
    let bytes = body::read(request, &dispatchers.hub.access).await?;
    let NackJson { token, failed, retry_in_ms } = parse(&bytes, invalid)?;
    let token = Token::verify(&dispatchers.signer, dispatchers.hub.store.epoch(), group, &token)?;
    let held = held(dispatchers, group, &token).await?;
    let batch = match failed.is_empty() {
        true => None,
        false => Some(held.batch(dispatchers, &token).await?),
    };
    let batch = batch.as_ref().map(|(batch, _place)| batch);
    let judged = failures::judge(dispatchers, &held, batch, &failed, retry_in_ms)?;
    let failures::FailureOutcome { failures, ending, retry_in_ms } = judged;
    let (retries, dead) = (failures.len() as u64, ending.dead.len() as u64);
    let ended = dispatchers.store.nack(&token.lease(group), &failures, &ending, retry_in_ms).await;
    ended.map_err(problem::of)?;
    dispatchers.counters.count(group, Counts { retries, dead, ..Counts::default() });
    dispatchers.look_again(group);
    Ok(uncached(StatusCode::OK, json!({ "retry_in_ms": retry_in_ms, "dead_letters": dead })))
}
