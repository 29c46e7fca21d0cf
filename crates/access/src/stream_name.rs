//! Stream names: the path after `/v1/stream/`.

use axum::http::StatusCode;

use tidewire_store::ENTITY_PREFIX;

use crate::options::Limits;
use crate::problem::Problem;

/// A stream's name, checked.
#[derive(Debug, Clone)]
pub struct StreamName(String);

impl StreamName {
    /// Checks a decoded path.
    pub fn parse(path: &str, limits: &Limits) -> Result<StreamName, Problem> {
        let bad = |detail: String| {
            Err(Problem::bad_request(
                "invalid_stream_name",
                detail,
                "a name is one or more segments joined by single slashes, such as doc/123; names \
                 under __ds are reserved",
            ))
        };
        if path.len() > limits.stream_name_bytes_max {
            return Err(Problem::new(
                StatusCode::URI_TOO_LONG,
                "stream_name_too_long",
                format!(
                    "the stream's name has {} bytes; limits.stream_name_bytes_max is {}",
                    path.len(),
                    limits.stream_name_bytes_max
                ),
                "use a shorter name",
            ));
        }
        if path.chars().any(char::is_control) {
            return bad("the stream's name has a control character in it".to_owned());
        }
        if path.split('/').any(|segment| segment.is_empty() || segment == "." || segment == "..") {
            return bad(format!("{path:?} has an empty or dotted segment"));
        }
        if path.split('/').next() == Some("__ds") {
            return bad("names under __ds are reserved for the protocol".to_owned());
        }
        Ok(StreamName(path.to_owned()))
    }

    /// Refuses streams that only what was captured is written to.
    pub fn writable(&self) -> Result<(), Problem> {
        if is_of_entities(&self.0) {
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "entity_stream_is_read_only",
                "streams under entity/ hold what tidewire.invalidate told",
                "call tidewire.invalidate by SQL, or choose a name that does not start with entity/",
            ));
        }
        if self.0 == "table" || self.0.starts_with("table/") {
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "table_stream_is_read_only",
                "streams under table/ hold the changes of watched tables",
                "write to the table itself, or choose a name that does not start with table/",
            ));
        }
        Ok(())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn into_string(self) -> String {
        self.0
    }
}

/// Whether a stream is of the kind that invalidations are written to. All tenants share those.
pub fn is_of_entities(stream: &str) -> bool {
    stream == "entity" || stream.starts_with(ENTITY_PREFIX)
}

/// A stream's name as it may be written in a header or a JSON body: with or without the URL's path
/// before it, with or without slashes around it.
pub fn relative_name(text: &str) -> &str {
    text.strip_prefix("/v1/stream/").unwrap_or(text).trim_matches('/')
}
