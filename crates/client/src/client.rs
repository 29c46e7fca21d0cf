//! One request each: create, describe, append, read. [`Client::follow`] and [`Client::live`] return objects that
//! keep a connection.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Certificate, Method, RequestBuilder, Response, Url};
use serde::Serialize;

use crate::address::Address;
use crate::answer::{self, Appended, Description, Page};
use crate::error::ClientError;
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
    address: Address,
    /// Who we are; marked as sensitive.
    headers: HeaderMap,
    /// Who may vouch for the server, besides those whom the system trusts.
    authorities: Vec<Certificate>,
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

impl Client {
    /// A client of the server at `url`, such as `http://127.0.0.1:4437`. Connects when it is used.
    pub fn new(url: &str, token: Option<&str>) -> Result<Client, ClientError> {
        Client::build(Address::parse(url)?, headers(token)?, Vec::new())
    }

    /// The same for a server whose certificate was issued by an authority that the system does not
    /// know: `ca` is the authority's certificate, or several, in PEM form.
    pub fn with_ca(url: &str, token: Option<&str>, ca: &[u8]) -> Result<Client, ClientError> {
        let authorities = Certificate::from_pem_bundle(ca).unwrap_or_default();
        if authorities.is_empty() {
            let what = "the file has no certificate in PEM form";
            return Err(unusable(what.to_owned()));
        }
        Client::build(Address::parse(url)?, headers(token)?, authorities)
    }

    /// The same client of another server, or of another node of the same.
    pub fn at(&self, url: &str) -> Result<Client, ClientError> {
        Client::build(Address::parse(url)?, self.headers.clone(), self.authorities.clone())
    }

    fn build(
        address: Address,
        headers: HeaderMap,
        authorities: Vec<Certificate>,
    ) -> Result<Client, ClientError> {
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(SILENCE_MAX)
            .tcp_nodelay(true)
            // A request can become a WebSocket only there.
            .http1_only()
            .default_headers(headers.clone());
        if address.is_loopback() {
            // A proxy set for the outside world cannot reach this machine's own ports.
            builder = builder.no_proxy();
        }
        if !authorities.is_empty() {
            builder = builder.tls_certs_merge(authorities.clone());
        }
        let http = builder.build().map_err(|error| unusable(format!("no HTTP client: {error}")))?;
        Ok(Client { address, headers, authorities, http })
    }

    /// Creates a stream. One that exists with the same configuration is left as it is.
    pub async fn create(&self, stream: &str, content_type: &str) -> Result<(), ClientError> {
        let request = self.http.put(self.address.stream(stream)?);
        self.send(request.header(CONTENT_TYPE, content_type)).await?;
        Ok(())
    }

    /// A stream's type and end.
    pub async fn describe(&self, stream: &str) -> Result<Description, ClientError> {
        let response = self.send(self.http.head(self.address.stream(stream)?)).await;
        let response = response.map_err(|error| answer::put_into_words(error, stream))?;
        Ok(Description {
            content_type: answer::content_type(&response),
            next_offset: answer::next_offset(&response)?,
            closed: answer::flag(&response, "stream-closed"),
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
        let request = self.http.post(self.address.stream(stream)?);
        let mut request = request.header(CONTENT_TYPE, content_type);
        if let Some(Producer { id, epoch, seq }) = producer {
            request = request.header("producer-id", id);
            request = request.header("producer-epoch", *epoch).header("producer-seq", *seq);
        }
        let response = self.send(request.body(body.into())).await?;
        Ok(Appended {
            next_offset: answer::next_offset(&response)?,
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
        let mut url = self.address.stream(stream)?;
        url.query_pairs_mut().append_pair("offset", from.as_offset());
        let response = self.get(url).await?;
        let next_offset = answer::next_offset(&response)?;
        let json = message::is_json(&answer::content_type(&response));
        let up_to_date = answer::flag(&response, "stream-up-to-date");
        let closed = answer::flag(&response, "stream-closed");
        let body = response.bytes().await.map_err(|source| self.no_answer(source))?;
        Ok(Page { messages: message::split(json, body)?, next_offset, up_to_date, closed })
    }

    /// Follows a stream as it grows, from here on through every lost connection.
    pub fn follow(&self, stream: &str, from: ReadFrom) -> Result<Follow, ClientError> {
        Ok(Follow::new(self.clone(), stream, self.address.stream(stream)?, from))
    }

    /// The server's address, without what may be secret in it.
    pub fn url(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) fn request(&self, method: Method, url: Url) -> RequestBuilder {
        self.http.request(method, url)
    }

    pub(crate) async fn get(&self, url: Url) -> Result<Response, ClientError> {
        self.send(self.http.get(url)).await
    }

    pub(crate) fn no_answer(&self, source: reqwest::Error) -> ClientError {
        ClientError::NoAnswer { url: self.address.to_string(), cause: source.without_url() }
    }

    pub(crate) async fn send_json(
        &self,
        method: Method,
        url: Url,
        document: &impl Serialize,
    ) -> Result<Response, ClientError> {
        let body = serde_json::to_vec(document)
            .map_err(|error| unusable(format!("the request has no JSON form: {error}")))?;
        let request = self.request(method, url).header(CONTENT_TYPE, message::JSON);
        self.send(request.body(body)).await
    }

    pub(crate) async fn send(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let response = request.send().await.map_err(|source| self.no_answer(source))?;
        self.success(response).await
    }

    /// The answer, if it is a success; else an error with what it says, and what that has to do with the address.
    pub(crate) async fn success(&self, response: Response) -> Result<Response, ClientError> {
        // An answer to HEAD has no document, but says that it would be one.
        let is_ours = answer::content_type(&response).starts_with("application/problem+json");
        let (status, mut problem, retry_after) = match answer::success(response).await {
            Err(ClientError::Refused { status, problem, retry_after }) => {
                (status, problem, retry_after)
            }
            other => return other,
        };
        if !is_ours && problem.detail.is_none() && status < 500 {
            let tls = if self.address.is_secure() { "" } else { ", or one that wants https://" };
            problem.detail = Some(format!(
                "the answer of {} is not that of a Tidewire server{tls}: status {status}",
                self.address
            ));
        }
        let leads_nowhere = match problem.code.as_deref() {
            Some(code) => code == "no_such_route",
            None => !is_ours && matches!(status, 404 | 405),
        };
        if let Some(path) = self.address.path().filter(|_| leads_nowhere) {
            problem.hint = Some(format!(
                "the server's address has the path {path}: leave it out, unless a proxy puts the server there"
            ));
        }
        Err(ClientError::Refused { status, problem, retry_after })
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

/// As the protocol's documents have durations.
pub(crate) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn unusable(what: String) -> ClientError {
    ClientError::Unusable(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_certificate_vouches_for_nobody() {
        for ca in ["", "-----BEGIN CERTIFICATE-----\nnot base64\n-----END CERTIFICATE-----\n"] {
            Client::with_ca("https://127.0.0.1", None, ca.as_bytes()).expect_err("no authority");
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
