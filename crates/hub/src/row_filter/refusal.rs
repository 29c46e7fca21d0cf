//! Errors of row filters, as clients see them.

use axum::http::StatusCode;

use tidewire_query::Refusal;

use tidewire_access::problem::Problem;

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
    super::blame(table, rule, refusal.position, &refusal.message);
    rule_cannot_be_kept(table)
}

/// The same, when the log has the reason.
pub fn rule_cannot_be_kept(table: &str) -> Problem {
    Problem::new(
        StatusCode::FORBIDDEN,
        "rule_not_supported",
        format!("a rule for the rows of {table:?} cannot be evaluated, so none are shown"),
        "a live query (sql) can keep rules that read other tables; an administrator finds the reason in the \
         server's log",
    )
}

/// A rule of the credential's own is under the name of no watched table.
pub(super) fn rule_without_table(written: &str) -> Problem {
    Problem::new(
        StatusCode::FORBIDDEN,
        "rule_without_table",
        format!(
            "the credential's scopes have a rule for {written:?}, which is no watched table, so it reads none"
        ),
        "correct the name under rows or columns in the credential's scopes, or have that table watched; the \
         server's log has the nearest name",
    )
}

/// Nothing says which rows of a table end users may read.
pub(super) fn read_rule_missing(table: &str) -> Problem {
    let hint = format!(
        "write [tables.{table}] read = \"owner_id = auth.user_id()\" in the server's configuration (read = \
         \"true\" is every row), or give the token's scopes rows for {table}"
    );
    Problem::new(
        StatusCode::FORBIDDEN,
        "read_rule_missing",
        format!("end users read {table:?} only where it is said which rows, and it is not"),
        "",
    )
    .with_hint(hint)
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

pub fn table_not_found(table: &str) -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "table_not_found",
        format!("there is no table {table:?}"),
        "name it as its events do: orders, or sales.orders outside the usual schema",
    )
}

pub fn table_not_watched(table: &str) -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "table_not_watched",
        format!("the changes of {table:?} are not captured"),
        "have it watched: tidewire watch, or POST /v1/watch",
    )
}
