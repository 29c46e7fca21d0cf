//! Why something of a table cannot be seen.

use axum::http::StatusCode;

use tidewire_query::Refusal;

use crate::problem::Problem;

/// A `where` that cannot be evaluated. It names only columns that the caller may see.
pub(super) fn filter_refused(refusal: Refusal) -> Problem {
    let Refusal { code, message, hint, position } = refusal;
    let mut problem =
        Problem::bad_request(code, message, "PROTOCOL.md says what a where may be made of");
    if let Some(hint) = hint {
        problem = problem.with_hint(hint);
    }
    match position {
        Some(position) => problem.with_member("position", position),
        None => problem,
    }
}

/// A rule that cannot be evaluated. What it says is not for those whom it keeps out.
pub(super) fn rule_refused(table: &str, rule: &str, refusal: &Refusal) -> Problem {
    tracing::warn!(table, rule, reason = %refusal, "a row rule cannot be kept; nobody is shown rows by it");
    Problem::new(
        StatusCode::FORBIDDEN,
        "rule_not_supported",
        format!("a rule for the rows of {table:?} cannot be evaluated, so none are shown"),
        "a live query (sql) can keep rules that read other tables; an administrator finds the reason in the \
         server's log",
    )
}

/// Something that cannot be done with a part of a table.
pub(super) fn cannot_narrow(table: &str) -> Problem {
    Problem::new(
        StatusCode::FORBIDDEN,
        "rule_not_supported",
        format!("the credential may see some columns or rows of {table:?} only"),
        "this needs all of it: use a credential without rules for the table",
    )
}

pub(crate) fn table_not_found(table: &str) -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "table_not_found",
        format!("there is no table {table:?}"),
        "name it as its events do: orders, or sales.orders outside the usual schema",
    )
}

pub(crate) fn table_not_watched(table: &str) -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "table_not_watched",
        format!("the changes of {table:?} are not captured"),
        "have it watched: tidewire watch, or POST /v1/watch",
    )
}
