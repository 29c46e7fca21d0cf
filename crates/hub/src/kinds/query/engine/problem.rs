//! Why there is no live query, or no longer. PROTOCOL.md, section 29, lists the codes.

use axum::http::StatusCode;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::messages::AsMessage as _;
use tidewire_query::{EndReason, Refusal};
use tidewire_store::{SqlError, SqlProblem};

use tidewire_access::options::QueryOptions;
use tidewire_access::problem::Problem;

/// A rule for the rows of a table cannot be kept.
pub(super) const RULE: &str = "rule_not_supported";
/// The database took too long.
pub(super) const TOO_SLOW: &str = "query_too_slow";
/// More came back than may.
pub(super) const TOO_LARGE: &str = "result_too_large";
/// No index finds it, nor others of its table, which are as many as may be.
const TOO_MANY_UNINDEXED: &str = "too_many_unindexed";
/// The result's columns are not those that the client knows.
pub(super) const SCHEMA_CHANGED: &str = "schema_changed";
/// A table is not there any more, or its changes are not captured.
pub(super) const TABLE_GONE: &str = "table_gone";
/// The database says that it cannot be run.
pub(super) const FAILED: &str = "query_failed";

/// A SELECT that cannot be kept live. It names only what the caller may see.
pub(super) fn refused(refusal: Refusal) -> Problem {
    let Refusal { code, message, hint, position } = refusal;
    // What is wrong with a rule is nothing that the caller has written.
    let status = match code {
        RULE => StatusCode::FORBIDDEN,
        _ => StatusCode::BAD_REQUEST,
    };
    let problem =
        Problem::new(status, code, message, "PROTOCOL.md, section 29, says what can be followed");
    let problem = match hint {
        Some(hint) => problem.with_hint(hint),
        None => problem,
    };
    match position {
        Some(position) => problem.with_member("position", position),
        None => problem,
    }
}

pub(super) fn disabled() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "queries_disabled",
        "this server has no live queries (queries.enabled)",
        "subscribe to a table or a stream",
    )
}

/// How much it expects is not told: it knows of rows that the caller may not see.
pub(super) fn too_expensive(cost_max: u64) -> Problem {
    Problem::bad_request(
        "query_too_expensive",
        format!("the database expects this to cost more than {cost_max} (queries.cost_max)"),
        "ask for less, or have an index made for what it looks for",
    )
}

/// What the database says of a query before it is run. It was bound to what the caller may see, so the
/// message can name nothing else. `place` says where in the client's text that is.
pub(super) fn check_failed(error: SqlError, place: impl Fn(usize) -> Option<usize>) -> Problem {
    let wrong = match error {
        SqlError::Store(error) => return error.into(),
        SqlError::Wrong(wrong) if wrong.code == "shape_changed" => return busy(),
        SqlError::Wrong(wrong) => *wrong,
    };
    let SqlProblem { code, message, hint, position } = wrong;
    let mut problem = ended(&reason(code, Some(message)));
    if let Some(position) = position.and_then(place) {
        problem = problem.with_member("position", position);
    }
    match hint.filter(|hint| !hint.is_empty()) {
        Some(hint) => problem.with_hint(hint),
        None => problem,
    }
}

/// The same, where it is about a parameter: that stands in the query as the value that it is.
pub(super) fn of_parameter(problem: Problem, sql: &str, params: &[Box<RawValue>]) -> Problem {
    // Those of a value's form, and of operators that there are not for its type.
    if !["(SQLSTATE 22", "(SQLSTATE 42883"].iter().any(|state| problem.detail().contains(state)) {
        return problem;
    }
    let position = problem.members().get("position").and_then(Value::as_u64);
    let near = position.and_then(|position| usize::try_from(position).ok());
    let Some(number) = near.and_then(|position| parameter_near(sql, position)) else {
        return problem;
    };
    let is = match number.checked_sub(1).and_then(|at| params.get(at)).map(|value| value.get()) {
        Some(value) => match value.as_bytes().first() {
            Some(b'"') => "a string",
            Some(b'{') => "an object",
            Some(b'[') => "an array",
            Some(b't' | b'f') => "a boolean",
            Some(b'n') => "null",
            _ => "a number",
        },
        None => return problem,
    };
    problem.with_hint(format!(
        "${number} is {is} in params, and stands there as one: send a value of the type that it is compared with, or \
         cast it, as in ${number}::text"
    ))
}

/// The parameter that a text has at a place, in characters from 1, or beside an operator there.
fn parameter_near(sql: &str, position: usize) -> Option<usize> {
    let at = sql.char_indices().nth(position.checked_sub(1)?).map(|(at, _)| at)?;
    let number = |text: &str| {
        let digits = text.strip_prefix('$')?;
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        digits[..end].parse().ok()
    };
    let (before, after) = (sql[..at].trim_end(), &sql[at..]);
    let is_sign = |c: char| "+-*/<>=~!@#%^&|`?:".contains(c);
    let right = after.trim_start_matches(is_sign);
    let left = before.rfind('$').map(|start| &before[start..]);
    let left = left.filter(|left| left[1..].bytes().all(|byte| byte.is_ascii_digit()));
    number(right.trim_start()).or_else(|| number(left?).filter(|_| right.len() < after.len()))
}

/// The database lacks something that only an operator can give it. Others are not told the names of
/// roles and schemas.
pub fn for_those_without_sql(problem: Problem) -> Problem {
    if problem.code() != "query_role_missing" {
        return problem;
    }
    tracing::warn!(problem = %problem.message(None), "live queries are refused");
    Problem::bad_request(
        "query_role_missing",
        "the database does not let the server run live queries on this table yet",
        "tell the operator; the server's log says what to run",
    )
}

fn busy() -> Problem {
    Problem::new(
        StatusCode::CONFLICT,
        "query_busy",
        "a table of the query is being changed",
        "subscribe again",
    )
    .retry_after_s(1)
}

/// The result is larger than the settings let one be.
pub(super) fn too_large(options: &QueryOptions) -> EndReason {
    let QueryOptions { rows_max, bytes_max, .. } = options;
    let message = format!(
        "the result has more than {rows_max} rows (queries.rows_max) or {bytes_max} bytes \
         (queries.bytes_max)"
    );
    reason(TOO_LARGE, Some(message))
}

pub(super) fn reason(code: &'static str, message: Option<String>) -> EndReason {
    EndReason { code, message }
}

/// The same as an error, for whom the query has not begun.
pub fn ended(reason: &EndReason) -> Problem {
    let (detail, hint) = match reason.code {
        TOO_SLOW => (
            "the database did not give the result in time (queries.timeout_ms)",
            "ask for less, or have an index made for what it looks for",
        ),
        TOO_LARGE => (
            "the result is larger than it may be (queries.rows_max, queries.bytes_max)",
            "ask for less: a narrower WHERE, fewer columns, or ORDER BY with LIMIT",
        ),
        "state_too_large" => (
            "what must be kept of the query is larger than it may be (queries.state_bytes_max)",
            "ask for less: a narrower WHERE or fewer groups",
        ),
        TOO_MANY_UNINDEXED => (
            "too many queries of the table are tested on each of its rows (queries.unindexed_max)",
            "compare a column with a value, or follow the table",
        ),
        SCHEMA_CHANGED => ("a table of the query has other columns", "subscribe again"),
        TABLE_GONE => (
            "a table of the query was dropped, or is not watched",
            "have it watched, and subscribe again",
        ),
        _ => ("the database cannot run this query", "try it without what may fail on some row"),
    };
    let detail = reason.message.clone().unwrap_or_else(|| detail.to_owned());
    let status = match reason.code {
        TOO_SLOW => StatusCode::GATEWAY_TIMEOUT,
        TOO_LARGE => StatusCode::PAYLOAD_TOO_LARGE,
        SCHEMA_CHANGED => StatusCode::CONFLICT,
        TOO_MANY_UNINDEXED => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::BAD_REQUEST,
    };
    Problem::new(status, reason.code, detail, hint)
}

pub fn too_many(which: &str, max: usize) -> Problem {
    Problem::new(
        StatusCode::TOO_MANY_REQUESTS,
        "too_many_queries",
        format!("at most {max} live queries ({which})"),
        "unsubscribe from some, or ask for more rows with fewer",
    )
}

/// Every changed row of the table would be tried on more patterns of one caller than may be.
pub(super) fn too_many_patterns(table: &str, max: usize) -> Problem {
    Problem::new(
        StatusCode::TOO_MANY_REQUESTS,
        "too_many_patterns",
        format!("at most {max} patterns on {table:?} that no index narrows (queries.patterns_max)"),
        "unsubscribe from some, or compare a column with a value beside LIKE in a live query",
    )
}

pub fn not_over_sse() -> Problem {
    Problem::bad_request(
        "unsupported_subscription",
        "live queries need a WebSocket",
        "connect to /v1/ws",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_found_where_the_database_points() {
        for (sql, position, number) in [
            ("SELECT id FROM t WHERE id = $1", 29, Some(1)),
            ("SELECT id FROM t WHERE id = $1", 27, Some(1)),
            ("SELECT 'ä' FROM t WHERE id<=$12", 27, Some(12)),
            ("SELECT id FROM t WHERE $2 = id", 27, Some(2)),
            ("SELECT id FROM t WHERE id = 5 AND a = $1", 27, None),
            ("SELECT id FROM t WHERE a = $1 AND id = 5", 38, None),
            ("SELECT nothing, $1", 8, None),
            ("SELECT 1", 90, None),
            ("SELECT 1", 0, None),
        ] {
            assert_eq!(parameter_near(sql, position), number, "{sql} {position}");
        }
    }
}
