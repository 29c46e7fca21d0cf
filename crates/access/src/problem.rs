//! Errors as clients see them: RFC 9457 problem documents with a stable code, a hint that says what
//! to do, and whether trying again may help.

use std::borrow::Cow;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use serde_json::{Map, Value, json};

use tidewire_store::StoreError;

use tidewire_wire::websocket::handshake::{self, NoHandshake};

/// An error on its way to a client.
#[derive(Debug)]
pub struct Problem(Box<Parts>);

#[derive(Debug)]
struct Parts {
    status: StatusCode,
    code: &'static str,
    detail: String,
    hint: Cow<'static, str>,
    temporary: bool,
    headers: Vec<(HeaderName, HeaderValue)>,
    extra: Map<String, Value>,
    /// What the operator's log says besides, and the client is not told.
    noted: Option<String>,
}

impl Problem {
    /// A problem that trying again will not mend.
    pub fn new(
        status: StatusCode,
        code: &'static str,
        detail: impl Into<String>,
        hint: &'static str,
    ) -> Problem {
        Problem(Box::new(Parts {
            status,
            code,
            detail: detail.into(),
            hint: hint.into(),
            temporary: false,
            headers: Vec::new(),
            extra: Map::new(),
            noted: None,
        }))
    }

    /// A malformed request.
    pub fn bad_request(
        code: &'static str,
        detail: impl Into<String>,
        hint: &'static str,
    ) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, code, detail, hint)
    }

    /// Adds a header to the answer.
    pub fn with_header(mut self, name: &'static str, value: impl ToString) -> Problem {
        if let Ok(value) = HeaderValue::from_str(&value.to_string()) {
            self.0.headers.push((HeaderName::from_static(name), value));
        }
        self
    }

    /// Adds a member to the document.
    pub fn with_member(mut self, name: &str, value: impl Into<Value>) -> Problem {
        self.0.extra.insert(name.to_owned(), value.into());
        self
    }

    /// Says something else about what to do.
    pub fn with_hint(mut self, hint: impl Into<Cow<'static, str>>) -> Problem {
        self.0.hint = hint.into();
        self
    }

    /// Says something to the operator's log alone.
    pub fn with_note(mut self, note: String) -> Problem {
        self.0.noted = Some(note);
        self
    }

    /// What the operator's log says of it besides its code.
    pub fn note(&self) -> Option<&str> {
        self.0.noted.as_deref()
    }

    /// Marks a problem that may pass by itself, and says when to try again.
    pub fn retry_after_s(mut self, seconds: u32) -> Problem {
        self.0.temporary = true;
        self.with_header("retry-after", seconds)
    }

    /// The stable code.
    pub fn code(&self) -> &'static str {
        self.0.code
    }

    /// Whether it may pass by itself.
    pub fn is_temporary(&self) -> bool {
        self.0.temporary
    }

    /// What happened.
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// What to do.
    pub fn hint(&self) -> &str {
        &self.0.hint
    }

    /// What the document has besides.
    pub fn members(&self) -> &Map<String, Value> {
        &self.0.extra
    }
}

impl From<NoHandshake> for Problem {
    fn from(why: NoHandshake) -> Problem {
        let bad = |detail: &str| {
            Problem::bad_request("bad_handshake", detail, "connect with a WebSocket client")
        };
        match why {
            NoHandshake::NotAsked => Problem::new(
                StatusCode::UPGRADE_REQUIRED,
                "websocket_required",
                "this route is a WebSocket",
                "connect with a WebSocket client, over HTTP/1.1",
            )
            .with_header("upgrade", "websocket"),
            NoHandshake::Version => bad("Sec-WebSocket-Version must be 13")
                .with_header("sec-websocket-version", handshake::VERSION),
            NoHandshake::Key => bad("Sec-WebSocket-Key must be 16 bytes in base64"),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        let detail = error.to_string();
        let unavailable = StatusCode::SERVICE_UNAVAILABLE;
        match error {
            StoreError::Unavailable(_) => Problem::new(
                unavailable,
                "store_unavailable",
                "the database cannot be reached; nothing was written",
                "try again after the time in Retry-After",
            )
            .retry_after_s(1),
            StoreError::Replaced(_) => Problem::new(
                unavailable,
                "store_replaced",
                "the database failed over to another server, or was put back to an older state; \
                 nothing was written",
                "try again after the time in Retry-After; if offsets are then answered 410, begin \
                 anew from -1 or now",
            )
            .retry_after_s(1),
            StoreError::Unknown(_) => Problem::new(
                unavailable,
                "outcome_unknown",
                "the database went away during the commit; the write may or may not have happened",
                "retry with the same Producer-Id, Producer-Epoch and Producer-Seq: an append that \
                 happened is then not repeated",
            )
            .retry_after_s(1),
            StoreError::Full(_) => Problem::new(
                StatusCode::INSUFFICIENT_STORAGE,
                "store_full",
                "the disk that holds the store is full; nothing was written",
                "free space on the server's disk; appends then work again without a restart",
            )
            .retry_after_s(5),
            StoreError::Closed => Problem::new(
                unavailable,
                "shutting_down",
                "the server is shutting down; nothing was written",
                "reconnect after the time in Retry-After",
            )
            .retry_after_s(1),
            StoreError::Overloaded(_) => Problem::new(
                StatusCode::TOO_MANY_REQUESTS,
                "too_many_waiting_appends",
                detail,
                "send fewer appends at once, or put several messages into one append; the limit is \
                 commit.queue_max",
            )
            .retry_after_s(1),
            StoreError::InvalidKey(_) => Problem::bad_request(
                "invalid_new_key",
                detail,
                "send a name, and scopes such as {\"tables\": [\"*\"]}",
            ),
            StoreError::Broken { .. } | StoreError::Refused(_) => {
                tracing::error!(error = detail, "the store failed");
                Problem::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "store_failed",
                    "the store could not do this",
                    "the server's log says why",
                )
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        let Parts { status, code, detail, hint, temporary, headers, extra, noted: _ } = *self.0;
        let mut document = json!({
            "type": format!("urn:tidewire:problem:{code}"),
            "title": title(code),
            "status": status.as_u16(),
            "code": code,
            "detail": detail,
            "hint": hint,
            "temporary": temporary,
        });
        if let Some(members) = document.as_object_mut() {
            members.extend(extra);
        }
        let mut response = Response::new(Body::from(document.to_string()));
        *response.status_mut() = status;
        let answer = response.headers_mut();
        answer.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json; charset=utf-8"),
        );
        answer.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        answer.extend(headers);
        response
    }
}

/// The code in words: `stream_not_found` is "Stream not found".
fn title(code: &str) -> String {
    let mut words = code.replace('_', " ").to_lowercase();
    if let Some(first) = words.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    words
}
