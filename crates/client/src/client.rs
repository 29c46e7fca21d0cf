//! One request each: create, describe, append, read. [`Client::follow`] begins a longer story.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Method, RequestBuilder, Response, Url};
use serde::Serialize;

use crate::error::{ClientError, Problem};
use crate::follow::{Follow, ReadFrom};
use crate::message;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a server may be silent. Longer than a long-poll or an SSE response lasts by default, so
/// that only a connection nobody holds any more reaches it.
const SILENCE_MAX: Duration = Duration::from_secs(90);

/// A server, and who we are to it. Cheap to clone: clones share their connections.
#[derive(Debug, Clone)]
pub struct Client {
    base: Url,
    http: reqwest::Client,
}

/// What makes an append safe to repeat: the server knows the stamp of what it has. `seq` starts at
/// 0 in each epoch and rises by one with each append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Producer {
    /// Who appends; unique in the stream.
    pub id: String,
    /// Which life of the producer; rises when it starts anew.
    pub epoch: u64,
    /// Which append of that life.
    pub seq: u64,
}

/// An append that is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appended {
    /// Where the stream continues.
    pub next_offset: String,
    /// The server had it already, from an earlier attempt with the same [`Producer`].
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

impl Client {
    /// A client of the server at `url`, such as `http://127.0.0.1:4437`. Connects when it is used.
    pub fn new(url: &str, token: Option<&str>) -> Result<Client, ClientError> {
        let base = Url::parse(url)
            .ok()
            .filter(|base| base.has_host())
            .filter(http_or_https);
        let base = base.ok_or_else(|| {
            unusable(format!(
                "{url} is no server's address; give one like http://127.0.0.1:4437"
            ))
        })?;
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(SILENCE_MAX)
            .tcp_nodelay(true)
            .default_headers(headers(token)?);
        if loopback(&base) {
            // A proxy set for the outside world cannot reach this machine's own ports.
            builder = builder.no_proxy();
        }
        let http = builder
            .build()
            .map_err(|error| unusable(format!("no HTTP client: {error}")))?;
        Ok(Client { base, http })
    }

    /// Creates a stream. One that exists with the same configuration is left as it is.
    pub async fn create(&self, stream: &str, content_type: &str) -> Result<(), ClientError> {
        let request = self
            .request(Method::PUT, stream)?
            .header(CONTENT_TYPE, content_type);
        self.send(request).await?;
        Ok(())
    }

    /// A stream's type and end.
    pub async fn describe(&self, stream: &str) -> Result<Description, ClientError> {
        let response = self.send(self.request(Method::HEAD, stream)?).await;
        let response = response.map_err(|error| described(error, stream))?;
        Ok(Description {
            content_type: text(&response, CONTENT_TYPE.as_str()).unwrap_or_default(),
            next_offset: next_offset(&response)?,
            closed: flag(&response, "stream-closed"),
        })
    }

    /// Appends bytes. `content_type` must be the stream's own.
    pub async fn append(
        &self,
        stream: &str,
        content_type: &str,
        body: impl Into<Bytes>,
        producer: Option<&Producer>,
    ) -> Result<Appended, ClientError> {
        let mut request = self
            .request(Method::POST, stream)?
            .header(CONTENT_TYPE, content_type);
        if let Some(Producer { id, epoch, seq }) = producer {
            request = request.header("producer-id", id);
            request = request
                .header("producer-epoch", *epoch)
                .header("producer-seq", *seq);
        }
        let response = self.send(request.body(body.into())).await?;
        Ok(Appended {
            next_offset: next_offset(&response)?,
            // With a stamp, 200 means new data and 204 a repetition; without one it is always 204.
            duplicate: producer.is_some() && response.status() == 204,
        })
    }

    /// Appends one message to a JSON stream. (An array would be taken apart into its elements by
    /// the server, so the message is wrapped in one.)
    pub async fn append_json(
        &self,
        stream: &str,
        message: &impl Serialize,
        producer: Option<&Producer>,
    ) -> Result<Appended, ClientError> {
        let body = serde_json::to_vec(&[message])
            .map_err(|error| unusable(format!("the message has no JSON form: {error}")))?;
        self.append(stream, message::JSON, body, producer).await
    }

    /// Reads what follows `from`, up to what the server gives at once.
    pub async fn read(&self, stream: &str, from: &ReadFrom) -> Result<Page, ClientError> {
        let mut url = self.stream_url(stream)?;
        url.query_pairs_mut()
            .append_pair("offset", from.as_offset());
        let response = self.send(self.http.get(url)).await?;
        let (next_offset, json) = (next_offset(&response)?, is_json(&response));
        let up_to_date = flag(&response, "stream-up-to-date");
        let closed = flag(&response, "stream-closed");
        let body = response
            .bytes()
            .await
            .map_err(|source| self.no_answer(source))?;
        Ok(Page {
            messages: message::split(json, body)?,
            next_offset,
            up_to_date,
            closed,
        })
    }

    /// Follows a stream as it grows, from here on through every lost connection.
    pub fn follow(&self, stream: &str, from: ReadFrom) -> Result<Follow, ClientError> {
        Ok(Follow::new(
            self.clone(),
            stream,
            self.stream_url(stream)?,
            from,
        ))
    }

    pub(crate) fn get(&self, url: Url) -> RequestBuilder {
        self.http.get(url)
    }

    /// Sends a request; an answer that is no success is an error with what it says.
    pub(crate) async fn send(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let response = request
            .send()
            .await
            .map_err(|source| self.no_answer(source))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status().as_u16();
        let retry_after = text(&response, RETRY_AFTER.as_str());
        let body = response.bytes().await.unwrap_or_default();
        let problem: Problem = serde_json::from_slice(&body).unwrap_or_default();
        Err(ClientError::Refused {
            status,
            problem: Box::new(problem),
            retry_after: retry_after
                .and_then(|s| s.parse().ok())
                .map(Duration::from_secs),
        })
    }

    pub(crate) fn no_answer(&self, source: reqwest::Error) -> ClientError {
        ClientError::NoAnswer {
            url: self.base.to_string(),
            source: source.without_url(),
        }
    }

    fn request(&self, method: Method, stream: &str) -> Result<RequestBuilder, ClientError> {
        Ok(self.http.request(method, self.stream_url(stream)?))
    }

    fn stream_url(&self, stream: &str) -> Result<Url, ClientError> {
        // An URL cannot carry these as they are: `.` and `..` are resolved away.
        if stream
            .split('/')
            .any(|part| matches!(part, "" | "." | ".."))
        {
            return Err(unusable(format!(
                "{stream:?} is no stream's name; a name has parts like doc/123, none of them \
                 empty, . or .."
            )));
        }
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty()
                .extend(["v1", "stream"])
                .extend(stream.split('/'));
        }
        Ok(url)
    }
}

fn headers(token: Option<&str>) -> Result<HeaderMap, ClientError> {
    let mut headers = HeaderMap::new();
    if let Some(token) = token {
        // The error must not repeat the token.
        let mut value = HeaderValue::try_from(format!("Bearer {token}"))
            .map_err(|_| unusable("the token has characters no token has".to_owned()))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

/// An answer to HEAD has no body, so no problem document: the common refusals get their words here.
fn described(error: ClientError, stream: &str) -> ClientError {
    let ClientError::Refused {
        status,
        retry_after,
        mut problem,
    } = error
    else {
        return error;
    };
    problem.detail = problem.detail.or(match status {
        401 => Some("the server wants a token, or another one".to_owned()),
        403 => Some(format!("the token does not allow to use {stream}")),
        404 => Some(format!("there is no stream {stream}")),
        410 => Some(format!("the stream {stream} was deleted")),
        _ => None,
    });
    ClientError::Refused {
        status,
        retry_after,
        problem,
    }
}

fn http_or_https(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https")
}

fn loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || address
            .parse()
            .is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

fn unusable(what: String) -> ClientError {
    ClientError::Unusable(what)
}

pub(crate) fn text(response: &Response, header: &str) -> Option<String> {
    response
        .headers()
        .get(header)?
        .to_str()
        .ok()
        .map(str::to_owned)
}

pub(crate) fn is_json(response: &Response) -> bool {
    text(response, CONTENT_TYPE.as_str()).is_some_and(|value| message::is_json(&value))
}

fn flag(response: &Response, header: &str) -> bool {
    text(response, header).is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

fn next_offset(response: &Response) -> Result<String, ClientError> {
    text(response, "stream-next-offset")
        .ok_or_else(|| ClientError::NotUnderstood("it has no Stream-Next-Offset".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream_url(base: &str, stream: &str) -> Result<String, ClientError> {
        Ok(Client::new(base, None)?.stream_url(stream)?.to_string())
    }

    #[test]
    fn names_are_escaped_part_by_part() {
        let url = stream_url("http://127.0.0.1:4437", "doc/a b?#%").expect("a name");
        assert_eq!(url, "http://127.0.0.1:4437/v1/stream/doc/a%20b%3F%23%25");
    }

    #[test]
    fn a_server_may_live_below_a_path() {
        let url = stream_url("https://example.org/live/", "doc").expect("a name");
        assert_eq!(url, "https://example.org/live/v1/stream/doc");
    }

    #[test]
    fn names_that_an_url_cannot_carry_are_refused() {
        for name in ["", "/a", "a/", "a//b", "a/../b", "."] {
            assert!(stream_url("http://127.0.0.1", name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn addresses_that_are_none_are_refused() {
        for url in ["", "127.0.0.1:4437", "ftp://example.org", "unix:/socket"] {
            assert!(Client::new(url, None).is_err(), "{url:?}");
        }
    }

    #[test]
    fn a_token_is_never_shown() {
        let client = Client::new("http://127.0.0.1", Some("secret")).expect("a client");
        assert!(!format!("{client:?}").contains("secret"));
        let error = Client::new("http://127.0.0.1", Some("secret\n")).expect_err("no token");
        assert!(!error.to_string().contains("secret"));
    }
}
