//! The server's answers to requests about streams.

use std::time::Duration;

use bytes::Bytes;
use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use serde::de::DeserializeOwned;

use crate::client::Client;
use crate::error::{ClientError, Problem};

/// Bytes of a text that is repeated to people, at most.
const TEXT_BYTES_MAX: usize = 200;

/// An append that is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appended {
    /// Where the stream continues.
    pub next_offset: String,
    /// The server had it already, from an earlier attempt of the same producer.
    pub duplicate: bool,
}

/// A stream, without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// What it holds.
    pub content_type: String,
    /// Where it ends.
    pub next_offset: String,
    /// Whether it has ended for good.
    pub closed: bool,
}

/// Part of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Its messages; see [`message`](crate::message) for what counts as one.
    pub messages: Vec<Bytes>,
    /// Where to read on.
    pub next_offset: String,
    /// There was nothing more.
    pub up_to_date: bool,
    /// There never will be.
    pub closed: bool,
}

pub(crate) fn text(response: &Response, header: &str) -> Option<String> {
    response.headers().get(header)?.to_str().ok().map(str::to_owned)
}

pub(crate) fn flag(response: &Response, header: &str) -> bool {
    text(response, header).is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

pub(crate) fn content_type(response: &Response) -> String {
    text(response, CONTENT_TYPE.as_str()).unwrap_or_default()
}

pub(crate) fn next_offset(response: &Response) -> Result<String, ClientError> {
    text(response, "stream-next-offset")
        .ok_or_else(|| ClientError::NotUnderstood("it has no Stream-Next-Offset".to_owned()))
}

/// The answer, if it is a success; else an error with what it says.
pub(crate) async fn success(response: Response) -> Result<Response, ClientError> {
    if response.status().is_success() {
        return Ok(response);
    }
    let status = response.status().as_u16();
    let retry_after = text(&response, RETRY_AFTER.as_str());
    let retry_after = retry_after.and_then(|seconds| seconds.parse().ok());
    let is_text = content_type(&response).starts_with("text/plain");
    let body = response.bytes().await.unwrap_or_default();
    let mut problem: Problem = serde_json::from_slice(&body).unwrap_or_default();
    // A word of whoever is no Tidewire, such as that of a port that speaks TLS.
    if is_text && problem.code.is_none() && body.len() <= TEXT_BYTES_MAX {
        let text = String::from_utf8_lossy(&body);
        let text = text.trim().trim_end_matches('.');
        problem.detail =
            (!text.is_empty()).then(|| format!("the answer is {text:?} (status {status})"));
    }
    Err(ClientError::Refused {
        status,
        problem: Box::new(problem),
        retry_after: retry_after.map(Duration::from_secs),
    })
}

/// The document that an answer carries.
pub(crate) async fn json<T: DeserializeOwned>(
    client: &Client,
    response: Response,
) -> Result<T, ClientError> {
    let body = response.bytes().await.map_err(|source| client.no_answer(source))?;
    serde_json::from_slice(&body).map_err(|error| ClientError::NotUnderstood(error.to_string()))
}

/// An answer to HEAD has no body, so no problem document: the common refusals get their words here.
pub(crate) fn put_into_words(error: ClientError, stream: &str) -> ClientError {
    let ClientError::Refused { status, retry_after, mut problem } = error else {
        return error;
    };
    problem.detail = problem.detail.or_else(|| match status {
        401 => Some("the server wants a token, or another one".to_owned()),
        403 => Some(format!("the token does not allow the use of {stream}")),
        404 => Some(format!("there is no stream {stream}")),
        410 => Some(format!("the stream {stream} was deleted")),
        _ => None,
    });
    ClientError::Refused { status, retry_after, problem }
}
