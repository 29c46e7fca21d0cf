//! Decides what follows from a failed run: another attempt, or dead letters.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;

use tidewire_store::Position;
use tidewire_store::groups::{
    Batch, DeadEvents, Ending, Failure, GroupEvent, Key, KeyEvents, Verdict,
};

use super::dispatchers::GroupDispatchers;
use super::problem::invalid;
use super::work::HeldLease;
use tidewire_access::problem::Problem;
use tidewire_hub::offset::parse_offset;

/// A key that failed, as a worker says it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Failed {
    host_id: Option<String>,
    user_id: Option<String>,
    offset: Option<String>,
    #[serde(default)]
    error: String,
    verdict: Option<String>,
}

/// What becomes of a batch that failed.
#[derive(Debug, Default)]
pub(super) struct FailureOutcome {
    pub(super) failures: Vec<Failure>,
    /// What follows where it is for good.
    pub(super) ending: Ending,
    pub(super) retry_in_ms: u64,
}

/// Decides what becomes of the keys that failed.
pub(super) fn judge(
    dispatchers: &GroupDispatchers,
    held: &HeldLease,
    batch: Option<&Batch>,
    failed: &[Failed],
    asked_ms: Option<u64>,
) -> Result<FailureOutcome, Problem> {
    let options = &dispatchers.hub.options.groups;
    let failed_max = options.events_max();
    if failed.len() > failed_max {
        return Err(invalid(format!(
            "a nack names at most {failed_max} keys (groups.transaction_events_max)"
        )));
    }
    let most_ms = u64::try_from(options.retry_max.as_millis()).unwrap_or(u64::MAX);
    let keys = batch.into_iter().flat_map(|batch| &batch.groups);
    let keys: HashMap<&Key, &KeyEvents> = keys.map(|group| (&group.key, group)).collect();
    let held = &held.holdings;
    let (mut judged, mut dead) = (FailureOutcome::default(), Vec::new());
    for failed in failed {
        let verdict = match failed.verdict.as_deref() {
            None | Some("retry") => Verdict::Retry,
            Some("dead") => Verdict::Dead,
            Some(_) => return Err(invalid("a verdict is \"retry\" or \"dead\"".to_owned())),
        };
        let key = Key::of(failed.host_id.as_deref(), failed.user_id.as_deref());
        let found = keys.get(&key).copied();
        let group = found.ok_or_else(|| not_in_batch("the batch has no events of such a key"))?;
        let blamed =
            failed.offset.as_deref().map(|text| parse_offset(text, dispatchers.hub.store.epoch()));
        let events = unit(group, blamed.transpose()?)?;
        if held.is_for_good(&key, verdict) {
            dead.push(DeadEvents { key: &group.key, events, error: failed.error.clone() });
        } else {
            judged.failures.push(Failure::to_retry(&key, events, verdict, &failed.error));
        }
    }
    if let Some(batch) = batch {
        judged.ending = Ending::of_failures(batch, held, &dead);
    }
    judged.retry_in_ms = match asked_ms {
        Some(asked) => asked.min(most_ms),
        None => {
            let (base, cap) = (options.retry, options.retry_max);
            let wait = held.wait_after(&judged.failures, base, cap, &mut rand::rng());
            u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)
        }
    };
    Ok(judged)
}

/// The events that fail together: those of the blamed event's source transaction, or all of the key's.
fn unit(group: &KeyEvents, blamed: Option<Position>) -> Result<&[Arc<GroupEvent>], Problem> {
    let Some(blamed) = blamed else { return Ok(&group.events) };
    group.unit_of(blamed).ok_or_else(|| not_in_batch("the batch has no such event of the key"))
}

fn not_in_batch(detail: &str) -> Problem {
    Problem::bad_request(
        "key_not_in_batch",
        detail,
        "send host_id, user_id and offset as the claim had them",
    )
}
