//! What goes wrong with groups, as clients see it.

use axum::http::StatusCode;
use serde_json::json;

use tidewire_query::nearest;
use tidewire_store::StoreError;
use tidewire_store::groups::GroupError;

use crate::sql_problem::sql_problem;
use tidewire_access::problem::Problem;

/// A request that is not right.
pub(super) fn invalid(detail: String) -> Problem {
    Problem::bad_request(
        "invalid_group",
        detail,
        "PROTOCOL.md, section 30, says what each request about a group is made of",
    )
}

/// A table that a group shall read, under another name than its events have.
pub(super) fn watched_as(table: &str, name: &str) -> Problem {
    invalid(format!("the table {table} is watched as {name}"))
        .with_hint(format!("name it as its events do: {name}"))
}

/// A table that a group shall read, and whose changes nobody captures.
pub(super) fn not_watched<'a>(
    table: &str,
    watched: impl Iterator<Item = &'a str> + Clone,
) -> Problem {
    let problem = invalid(format!(
        "the table {table} is not watched, so the group would get none of its changes"
    ));
    let unqualified = table.rsplit('.').next().unwrap_or(table);
    let meant = nearest(table, watched.clone()).or_else(|| nearest(unqualified, watched));
    match meant {
        Some(meant) => problem.with_hint(format!(
            "did you mean {meant}? If not, have it watched first: tidewire watch {table}"
        )),
        None => problem.with_hint(format!(
            "have it watched first: tidewire watch {table}, or POST /v1/watch; tidewire watch --list names those \
             that are"
        )),
    }
}

pub(super) fn not_found() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "group_not_found",
        "there is no such group",
        "make it with PUT /v1/groups/{group}, or with `tidewire groups create`",
    )
}

pub(super) fn no_partition(partition: u32) -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "partition_not_found",
        format!("the group has no partition {partition}"),
        "GET /v1/groups/{group} lists those that it has",
    )
}

pub(super) fn lease_lost() -> Problem {
    Problem::new(
        StatusCode::CONFLICT,
        "lease_lost",
        "the batch is not this worker's any more: its lease ran out and another worker has it, or the \
         group was set to another place",
        "drop what is in hand, and claim again; ask for a longer lease_ms if batches take that long",
    )
}

/// A group or a partition that stands still.
pub(super) fn stopped(code: &str, text: &str) -> Problem {
    Problem::new(
        StatusCode::CONFLICT,
        "group_stopped",
        format!("it stands still: {code}: {text}"),
        "mend what stopped it, then POST /v1/groups/{group}/resume, or `tidewire groups resume`",
    )
    .with_member("stopped", json!({ "code": code, "text": text }))
}

/// What a code of a group that stands still means, and what to do.
pub(super) fn stop_text(code: &str) -> &'static str {
    match code {
        "paused" => "an administrator paused it; resume it to go on",
        "events_lost" => {
            "retention took events that it had not seen; reset it, or resume it and accept the loss"
        }
        "dead_letters_full" => {
            "it has as many dead letters as it may; mend its workers, redrive or drop letters, and \
             resume it. Letters of events that are not passed yet can be dropped once it goes on"
        }
        "parked_full" => {
            "it has as many parked letters as it may; redrive or drop letters, then resume it"
        }
        _ => "mend what stopped it, then resume it",
    }
}

/// A stored trouble: a code, a colon, and what to do.
pub(super) fn trouble_parts(trouble: &str) -> (&str, &str) {
    trouble.split_once(':').map_or((trouble, ""), |(code, text)| (code.trim(), text.trim()))
}

/// What the store says.
pub(super) fn of(error: GroupError) -> Problem {
    match error {
        GroupError::NotFound => not_found(),
        GroupError::Differs(text) => Problem::new(
            StatusCode::CONFLICT,
            "group_differs",
            text,
            "change it with POST /v1/groups/{group}/change, or ask for what it is",
        ),
        GroupError::Invalid(text) => invalid(text),
        GroupError::Stopped { code, text } => stopped(&code, &text),
        GroupError::Fenced | GroupError::Moved => lease_lost(),
        GroupError::Changing => Problem::new(
            StatusCode::CONFLICT,
            "partitions_changing",
            "the group's number of partitions is being changed, or its workers hold its partitions",
            "try again when every partition has reached the barrier",
        )
        .retry_after_s(1),
        GroupError::TooMany { limit, max } => Problem::new(
            StatusCode::CONFLICT,
            if limit.contains("member") { "too_many_members" } else { "too_many_groups" },
            format!("there are {max} already, which is as many as there may be ({limit})"),
            "remove those that nobody needs",
        ),
        GroupError::EndedByHandler => Problem::bad_request(
            "sql_refused",
            "the statements ended the transaction",
            "leave out COMMIT and ROLLBACK: the ack commits by itself",
        ),
        GroupError::Transient(text) => {
            tracing::warn!(text, "a group's work failed");
            Problem::from(StoreError::Unavailable(text))
        }
        GroupError::Rights(text) => {
            tracing::error!(text, "the database role lacks rights for groups");
            Problem::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "store_failed",
                "the server's database role may not do this",
                "the server's log says what to grant",
            )
        }
        GroupError::Sql(error) => sql_problem(error),
        GroupError::Store(error) => of_store(error),
    }
}

fn of_store(error: StoreError) -> Problem {
    let unknown = matches!(error, StoreError::Unknown(_));
    let problem = Problem::from(error);
    match unknown {
        true => problem.with_hint("send the same again: an ack that happened is not done again"),
        false => problem,
    }
}
