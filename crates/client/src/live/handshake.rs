//! From an HTTP request to a WebSocket, over the connections, TLS and headers of the [`Client`].
//!
//! So a refusal is the same problem document as everywhere, and the process has one TLS implementation.

use std::time::Duration;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use reqwest::header::{
    CONNECTION, HeaderMap, HeaderName, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS,
    SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use reqwest::{Method, Response, StatusCode};
use yawc::{CompressionLevel, Options, Role, WebSocket};

use super::socket::Socket;
use crate::client::Client;
use crate::error::ClientError;

/// How long a server may take to answer, the making of the connection included.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(15);

/// Bytes of a message from the server: far more than it pushes, and far less than would hurt.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Requests of this size are worth compressing: many subscriptions at once.
const COMPRESSED_FROM_BYTES: usize = 1 << 10;

/// Without context takeover, so that a server can compress a frame once for everybody.
const DEFLATE: &str = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";

/// What RFC 6455 has a server append to the key, to show that it speaks WebSocket.
const ACCEPT_SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// What to ask for.
#[derive(Debug, Clone)]
pub(super) struct Handshake {
    pub(super) session: Option<String>,
    pub(super) compression: bool,
    pub(super) silence_max: Duration,
}

impl Handshake {
    pub(super) async fn open(self, client: Client) -> Result<Socket, ClientError> {
        let opened = tokio::time::timeout(HANDSHAKE_TIMEOUT, self.shake(&client)).await;
        opened.unwrap_or_else(|_| {
            let why = format!("no answer within {} s", HANDSHAKE_TIMEOUT.as_secs());
            Err(ClientError::Lost { url: client.address().to_string(), why })
        })
    }

    async fn shake(&self, client: &Client) -> Result<Socket, ClientError> {
        let mut url = client.address().route(&["v1", "ws"]);
        if let Some(session) = &self.session {
            url.query_pairs_mut().append_pair("session", session);
        }
        let key = BASE64_STANDARD.encode(rand::random::<[u8; 16]>());
        let mut request = client
            .request(Method::GET, url)
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, "13")
            .header(SEC_WEBSOCKET_KEY, &key);
        if self.compression {
            request = request.header(SEC_WEBSOCKET_EXTENSIONS, DEFLATE);
        }
        let response = request.send().await.map_err(|source| client.no_answer(source))?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            client.success(response).await?;
            return Err(not_understood("the answer does not switch to a WebSocket"));
        }
        self.upgrade(client, response, &key).await
    }

    async fn upgrade(
        &self,
        client: &Client,
        response: Response,
        key: &str,
    ) -> Result<Socket, ClientError> {
        let headers = response.headers();
        if text(headers, &SEC_WEBSOCKET_ACCEPT) != Some(&accept(key)) {
            return Err(not_understood("it switches protocols, but not to WebSocket"));
        }
        let extensions = text(headers, &SEC_WEBSOCKET_EXTENSIONS).map(str::to_owned);
        let mut options = Options::default().with_limits(MESSAGE_BYTES_MAX, MESSAGE_BYTES_MAX);
        if self.compression {
            options = options
                .with_compression_level(CompressionLevel::fast())
                .with_compression_threshold(COMPRESSED_FROM_BYTES);
        }
        let upgraded = response.upgrade().await.map_err(|source| client.no_answer(source))?;
        let frames = WebSocket::from_stream_with_extensions(
            upgraded,
            Role::Client,
            extensions.as_deref(),
            options,
        );
        let frames = frames.map_err(|error| not_understood(&error.to_string()))?;
        Ok(Socket::new(frames, self.silence_max))
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn accept(key: &str) -> String {
    let proof = digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{ACCEPT_SUFFIX}").as_bytes());
    BASE64_STANDARD.encode(proof)
}

fn not_understood(what: &str) -> ClientError {
    ClientError::NotUnderstood(what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proof_is_that_of_the_rfc() {
        assert_eq!(accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
