//! What is wrong with SQL, or with what was asked of a table, as clients see it.

use axum::http::StatusCode;

use tidewire_store::{SqlError, SqlProblem, StoreError};

use crate::access::problem::Problem;

/// The problem that says it.
pub(crate) fn sql_problem(error: SqlError) -> Problem {
    let wrong = match error {
        SqlError::Wrong(wrong) => wrong,
        SqlError::Store(error) => {
            let unknown = matches!(error, StoreError::Unknown(_));
            let problem = Problem::from(error);
            return match unknown {
                true => problem.with_hint("look whether it is there before you send it again"),
                false => problem,
            };
        }
    };
    let SqlProblem { code, message, position, hint } = *wrong;
    let status = match code {
        "sql_timeout" => StatusCode::GATEWAY_TIMEOUT,
        "sql_conflict" | "sql_constraint" | "capture_mode_refused" | "table_in_use" => {
            StatusCode::CONFLICT
        }
        "sql_too_large" => StatusCode::PAYLOAD_TOO_LARGE,
        _ => StatusCode::BAD_REQUEST,
    };
    let mut problem = Problem::new(status, code, message, "correct the statement");
    if let Some(hint) = hint {
        problem = problem.with_hint(hint);
    }
    if let Some(position) = position {
        problem = problem.with_member("position", position);
    }
    match code {
        "sql_conflict" => problem.retry_after_s(1),
        "table_in_use" => problem.retry_after_s(5),
        _ => problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_where_it_is() {
        let wrong = SqlProblem {
            code: "sql_syntax",
            message: "syntax error at or near \"FORM\"".to_owned(),
            position: Some(10),
            hint: None,
        };
        let problem = sql_problem(SqlError::Wrong(Box::new(wrong)));
        assert_eq!((problem.code(), problem.is_temporary()), ("sql_syntax", false));
        assert!(format!("{problem:?}").contains("position"));
    }
}
