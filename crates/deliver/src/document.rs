//! JSON documents of requests and answers.

use axum::Json;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, Response, StatusCode, header};
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::Value;

use tidewire_access::problem::Problem;

/// An answer that is true now and for its asker only.
pub(crate) fn uncached(status: StatusCode, document: Value) -> Response<Body> {
    (status, [(header::CACHE_CONTROL, "no-store")], Json(document)).into_response()
}

/// The answer to a method that the route does not know.
pub(crate) fn method_not_allowed(allow: &'static str) -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        format!("this route knows {allow}"),
        "PROTOCOL.md lists what each route knows",
    )
    .with_header("allow", allow)
}

/// Refuses methods that a route does not know.
pub(crate) fn only(request: &Request, methods: &[Method]) -> Result<(), Problem> {
    if methods.contains(request.method()) {
        return Ok(());
    }
    Err(method_not_allowed(match methods {
        [Method::GET] => "GET",
        [Method::POST] => "POST",
        [Method::DELETE] => "DELETE",
        [Method::GET, Method::POST] => "GET, POST",
        [Method::GET, Method::POST, Method::DELETE] => "GET, POST, DELETE",
        _ => "POST, DELETE",
    }))
}

/// Reads a body. Nothing is an object without members.
pub(crate) fn parse<'a, T: Deserialize<'a>>(
    body: &'a [u8],
    invalid: impl Fn(String) -> Problem,
) -> Result<T, Problem> {
    let body: &[u8] = if body.is_empty() { b"{}" } else { body };
    let parsed = serde_json::from_slice(body);
    parsed.map_err(|error| invalid(format!("the body is not right: {}", fault(&error))))
}

/// What is wrong with a document, without the text that is in the wrong place: it may be a credential,
/// and errors are written into logs.
pub(crate) fn fault(error: &serde_json::Error) -> String {
    let said = error.to_string();
    match (said.find("string \""), said.rfind("\", expected")) {
        (Some(from), Some(to)) => format!("{}a string{}", &said[..from], &said[to + 1..]),
        _ => said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_in_the_wrong_place_is_not_repeated() {
        let fault_of = |text: &str| fault(&serde_json::from_str::<Vec<u8>>(text).expect_err(text));
        for text in [r#""tw_secret""#, r#"["tw_secret"]"#, r#""tw_secret\", expected a \"tw_""#] {
            let fault = fault_of(text);
            assert!(fault.starts_with("invalid type: a string, expected "), "{fault}");
            assert!(!fault.contains("tw_"), "{fault}");
        }
        assert!(fault_of("[300]").contains("300"), "numbers are no credentials");
    }
}
