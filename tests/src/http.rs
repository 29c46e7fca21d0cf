//! One request each, and the answer as it came.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, HeaderMap};
use reqwest::{Method, RequestBuilder};
use serde_json::Value;

use crate::certificate::Authority;

/// A server that is silent for so long hangs. Longer than any long-poll of a story lasts.
const SILENCE_MAX: Duration = Duration::from_secs(45);

/// A connection that was opened and not needed is closed by the server when no request has come for ten
/// seconds (`limits.header_timeout_ms`). One that is about to be is not used.
const UNUSED_MAX: Duration = Duration::from_secs(5);

/// A client of one server. Cheap to clone; clones share their connections.
#[derive(Debug, Clone)]
pub struct Http {
    base: String,
    client: reqwest::Client,
    token: Option<String>,
    /// Who has issued the server's certificate, if it has one.
    authority: Option<Authority>,
}

impl Http {
    /// A client of the server at this port of the loopback interface.
    pub fn new(port: u16, token: Option<&str>, authority: Option<Authority>) -> Http {
        let mut client = reqwest::Client::builder()
            .no_proxy()
            .tcp_nodelay(true)
            .read_timeout(SILENCE_MAX)
            .pool_idle_timeout(UNUSED_MAX);
        if let Some(authority) = &authority {
            let certificate = reqwest::Certificate::from_pem(authority.pem().as_bytes());
            client = client.tls_certs_only([certificate.expect("a certificate")]);
        }
        let client = client.build().expect("an HTTP client");
        let scheme = if authority.is_some() { "https" } else { "http" };
        let token = token.map(ToOwned::to_owned);
        Http { base: format!("{scheme}://127.0.0.1:{port}"), client, token, authority }
    }

    /// The same server, for someone with another token, or none.
    #[must_use]
    pub fn as_someone(&self, token: Option<&str>) -> Http {
        Http { token: token.map(ToOwned::to_owned), ..self.clone() }
    }

    /// Where the server is, without a slash at the end.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// The port of the loopback interface that the server listens on.
    pub fn port(&self) -> u16 {
        let digits = self.base.rsplit(':').next();
        digits.and_then(|digits| digits.parse().ok()).expect("a base that ends with its port")
    }

    /// The same server and the same person, for the client library.
    pub fn client(&self) -> tidewire_client::Client {
        let (url, token) = (&self.base, self.token.as_deref());
        let client = match &self.authority {
            None => tidewire_client::Client::new(url, token),
            Some(ca) => tidewire_client::Client::with_ca(url, token, ca.pem().as_bytes()),
        };
        client.expect("a server's address and a token")
    }

    /// The number that a metric of the server has, without labels.
    pub async fn metric(&self, name: &str) -> u64 {
        let metrics = self.get("/metrics").await.text();
        let found = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let number = found.and_then(|number| number.parse().ok());
        number.unwrap_or_else(|| panic!("no {name} in {metrics}"))
    }

    /// Where a stream ends.
    pub async fn tail(&self, stream: &str) -> String {
        let request = self.request(Method::HEAD, &format!("/v1/stream/{stream}"));
        Answer::of(request).await.next_offset()
    }

    /// Opens a session.
    pub async fn open_session(&self) -> String {
        let answer = Answer::of(self.request(Method::POST, "/v1/sessions")).await;
        assert_eq!(answer.status, 201, "open a session: {}", answer.text());
        answer.json()["sessionId"].as_str().expect("a session's id").to_owned()
    }

    /// Lets a session follow a stream, and returns after which offset it does.
    pub async fn follow(&self, session: &str, stream: &str, offset: &str) -> String {
        let body = serde_json::json!({
            "sessionId": session, "streamId": stream, "offset": offset,
        });
        let answer = self.json(Method::POST, "/v1/subscriptions", &body).await;
        assert_eq!(answer.status, 200, "follow {stream}: {}", answer.text());
        answer.json()["lastOffset"].as_str().expect("an offset").to_owned()
    }

    /// What the client presents.
    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Whom the client trusts.
    pub fn authority(&self) -> Option<&Authority> {
        self.authority.as_ref()
    }

    /// A request, to be completed and sent.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.base));
        match &self.token {
            Some(token) => request.header(AUTHORIZATION, format!("Bearer {token}")),
            None => request,
        }
    }

    /// A GET whose answer is wanted.
    pub async fn get(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::GET, path)).await
    }

    /// A GET that may fail.
    pub async fn try_get(&self, path: &str) -> reqwest::Result<Answer> {
        Answer::try_of(self.request(Method::GET, path)).await
    }

    /// A PUT, POST or DELETE of JSON.
    pub async fn json(&self, method: Method, path: &str, body: &Value) -> Answer {
        let request = self.request(method, path);
        Answer::of(request.header("content-type", "application/json").body(body.to_string())).await
    }

    /// Makes a stream of JSON messages.
    pub async fn create(&self, stream: &str) {
        let request = self.request(Method::PUT, &format!("/v1/stream/{stream}"));
        let answer = Answer::of(request.header("content-type", "application/json")).await;
        assert_eq!(answer.status, 201, "create {stream}: {}", answer.text());
    }

    /// Appends one JSON message, which must be accepted, and returns the stream's new end.
    pub async fn append(&self, stream: &str, message: &Value) -> String {
        let path = format!("/v1/stream/{stream}");
        let body = Value::from(vec![message.clone()]);
        let answer = self.json(Method::POST, &path, &body).await;
        assert_eq!(answer.status, 204, "append to {stream}: {}", answer.text());
        answer.next_offset()
    }
}

/// An answer that arrived whole.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    /// Sends a request that must be answered.
    pub async fn of(request: RequestBuilder) -> Answer {
        Answer::try_of(request).await.unwrap_or_else(|error| panic!("no answer: {error:?}"))
    }

    /// Sends a request.
    pub async fn try_of(request: RequestBuilder) -> reqwest::Result<Answer> {
        let response = request.send().await?;
        Ok(Answer {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            body: response.bytes().await?,
        })
    }

    /// A header's text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Where the stream continues.
    pub fn next_offset(&self) -> String {
        let offset = self.header("stream-next-offset");
        offset.unwrap_or_else(|| panic!("no Stream-Next-Offset in {self:?}")).to_owned()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("not JSON ({error}): {}", self.text()))
    }

    /// Checks that this is a whole problem document with this status and code, and returns it.
    #[track_caller]
    pub fn problem(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "the status of: {}", self.text());
        let kind = self.header("content-type").unwrap_or_default();
        assert!(kind.starts_with("application/problem+json"), "{kind:?}");
        let problem = self.json();
        assert_eq!(problem["code"], code, "the code of: {problem}");
        assert_eq!(problem["status"], status, "the status in: {problem}");
        for member in ["type", "title", "detail", "hint"] {
            let text = problem[member].as_str().unwrap_or_default();
            assert!(!text.is_empty(), "{member} is missing in: {problem}");
        }
        assert!(problem["temporary"].is_boolean(), "temporary in: {problem}");
        problem
    }
}
