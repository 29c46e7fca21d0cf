//! A stream as it grows, by SSE, across lost connections.
//!
//! Messages are given out only with the control event that carries their end offset. So the offset to resume from
//! is always directly after the last batch given out: if the connection breaks between the two events, the server
//! sends messages twice and the caller sees them once.
//!
//! There is no task behind it: the caller's [`Follow::next`] does the work, and a slow caller slows the connection
//! down instead of filling a queue.

use std::collections::VecDeque;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures_util::Stream;
use reqwest::{Response, Url};
use serde::Deserialize;
use tokio::time::Instant;

use crate::answer;
use crate::backoff::{Backoff, jitter};
use crate::client::Client;
use crate::error::ClientError;
use crate::{message, sse};

/// The first wait is at most this: a server that was restarted is back about then.
const WAIT_BASE: Duration = Duration::from_millis(200);
/// No wait is longer: someone watches, and a server that is back should not be waited for.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// A server that asks for a longer pause than this is asked again all the same.
const ASKED_WAIT_MAX: Duration = Duration::from_secs(60);
/// A connection that lived this long ended because the server renews them, not because it is ill.
const HEALTHY_AFTER: Duration = Duration::from_secs(1);

/// Where to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadFrom {
    /// With the stream's first message.
    Start,
    /// With what is appended from now on.
    Now,
    /// After this offset.
    Offset(String),
}

impl ReadFrom {
    /// As the protocol's `offset` parameter.
    pub fn as_offset(&self) -> &str {
        match self {
            ReadFrom::Start => "-1",
            ReadFrom::Now => "now",
            ReadFrom::Offset(offset) => offset,
        }
    }
}

/// Messages that arrived together. They share one offset, so a caller who keeps it keeps it after
/// the last of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The messages, oldest first.
    pub messages: Vec<Bytes>,
    /// Where the stream continues after them.
    pub next_offset: String,
    /// There was nothing more when they were sent.
    pub up_to_date: bool,
}

/// A stream being followed.
#[derive(Debug)]
pub struct Follow {
    client: Client,
    stream: String,
    url: Url,
    from: ReadFrom,
    /// Whether bodies are arrays of messages. An SSE response does not say, so the stream is asked
    /// for its type before the first one.
    json: Option<bool>,
    cursor: Option<String>,
    connection: Option<Connection>,
    /// Batches that arrived and were not asked for yet: at most those of one piece of a response.
    ready: VecDeque<Batch>,
    backoff: Backoff,
    /// The stream is closed and read to its end, or an error ended it.
    ended: bool,
}

#[derive(Debug)]
struct Connection {
    response: Response,
    parser: sse::Parser,
    json: bool,
    base64: bool,
    since: Instant,
    /// Data whose control event has not come yet.
    held: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Control {
    stream_next_offset: String,
    stream_cursor: Option<String>,
    #[serde(default)]
    up_to_date: bool,
    #[serde(default)]
    stream_closed: bool,
}

impl Follow {
    pub(crate) fn new(client: Client, stream: &str, url: Url, from: ReadFrom) -> Follow {
        Follow {
            client,
            stream: stream.to_owned(),
            url,
            from,
            json: None,
            cursor: None,
            connection: None,
            ready: VecDeque::new(),
            backoff: Backoff::new(WAIT_BASE, WAIT_MAX),
            ended: false,
        }
    }

    /// The next messages; `None` once the stream is closed and read to its end. Waits through lost
    /// connections and unwell servers; an error is one that trying again would not mend.
    ///
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Option<Batch>, ClientError> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                return Ok(Some(batch));
            }
            if self.ended {
                return Ok(None);
            }
            match self.receive().await {
                Ok(true) => {}
                Ok(false) => self.come_back(None).await,
                Err(error) if error.temporary() => self.come_back(Some(error)).await,
                Err(error) => {
                    self.ended = true;
                    return Err(error);
                }
            }
        }
    }

    /// The same as a [`Stream`], which ends after the first error.
    pub fn into_stream(self) -> impl Stream<Item = Result<Batch, ClientError>> {
        futures_util::stream::unfold(self, |mut follow| async {
            let item = follow.next().await.transpose()?;
            Some((item, follow))
        })
    }

    /// Where the stream continues after the last batch given out or ready to be.
    pub fn position(&self) -> &ReadFrom {
        &self.from
    }

    /// Whether the messages are JSON. Known once the first batch is there.
    pub fn is_json(&self) -> bool {
        self.json.unwrap_or(false)
    }

    /// Takes one piece of the response. `false`: the response has ended.
    async fn receive(&mut self) -> Result<bool, ClientError> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            None => {
                let connection = self.connect().await?;
                self.connection.insert(connection)
            }
        };
        let piece = connection.response.chunk().await;
        let Some(piece) = piece.map_err(|source| self.client.no_answer(source))? else {
            return Ok(false);
        };
        let events = connection.parser.push(&piece).map_err(|error| not_understood(&error))?;
        for event in events {
            self.take(event)?;
        }
        Ok(true)
    }

    async fn connect(&mut self) -> Result<Connection, ClientError> {
        let json = match self.json {
            Some(json) => json,
            None => {
                let content_type = self.client.describe(&self.stream).await?.content_type;
                *self.json.insert(message::is_json(&content_type))
            }
        };
        let mut url = self.url.clone();
        url.query_pairs_mut()
            .append_pair("offset", self.from.as_offset())
            .append_pair("live", "sse")
            .extend_pairs(self.cursor.as_ref().map(|cursor| ("cursor", cursor)));
        let response = self.client.get(url).await?;
        let encoding = answer::text(&response, "stream-sse-data-encoding");
        Ok(Connection {
            base64: encoding.is_some_and(|encoding| encoding.eq_ignore_ascii_case("base64")),
            json,
            response,
            parser: sse::Parser::default(),
            since: Instant::now(),
            held: Vec::new(),
        })
    }

    fn take(&mut self, event: sse::Event) -> Result<(), ClientError> {
        let Some(connection) = &mut self.connection else {
            return Ok(());
        };
        match event.name.as_str() {
            "data" => connection.held.push(event.data),
            "control" => {
                let control: Control =
                    serde_json::from_str(&event.data).map_err(|error| not_understood(&error))?;
                let held = std::mem::take(&mut connection.held);
                let messages = decode(held, connection.json, connection.base64)?;
                self.advance(messages, control);
            }
            _ => {}
        }
        Ok(())
    }

    /// Offsets compare as strings, and only forwards is news: a repeated batch is dropped.
    fn advance(&mut self, messages: Vec<Bytes>, control: Control) {
        let next_offset = control.stream_next_offset;
        let seen = matches!(&self.from, ReadFrom::Offset(at) if *at >= next_offset);
        if !seen {
            if !messages.is_empty() {
                let (next_offset, up_to_date) = (next_offset.clone(), control.up_to_date);
                self.ready.push_back(Batch { messages, next_offset, up_to_date });
            }
            self.from = ReadFrom::Offset(next_offset);
            self.backoff.reset();
        }
        self.cursor = control.stream_cursor.or_else(|| self.cursor.take());
        self.ended |= control.stream_closed;
    }

    async fn come_back(&mut self, error: Option<ClientError>) {
        let ended = self.connection.take();
        if ended.as_ref().is_some_and(|ended| ended.since.elapsed() >= HEALTHY_AFTER) {
            self.backoff.reset();
        }
        let mut wait = self.backoff.next_wait(&mut rand::rng());
        if let Some(asked) = ended.and_then(|ended| ended.parser.retry()) {
            wait = wait.max(jitter(asked.min(ASKED_WAIT_MAX), &mut rand::rng()));
        }
        if let Some(ClientError::Refused { retry_after: Some(asked), .. }) = &error {
            wait = wait.max((*asked).min(ASKED_WAIT_MAX));
        }
        match error {
            Some(error) => tracing::warn!(?wait, "{error}; trying again"),
            None => tracing::debug!(?wait, "the server ended the response; coming back"),
        }
        tokio::time::sleep(wait).await;
    }
}

fn decode(held: Vec<String>, json: bool, base64: bool) -> Result<Vec<Bytes>, ClientError> {
    let mut messages = Vec::new();
    for data in held {
        let body = if base64 {
            // The server may break the text into lines anywhere.
            let text: String = data.split_ascii_whitespace().collect();
            BASE64_STANDARD.decode(text).map_err(|error| not_understood(&error))?
        } else {
            data.into_bytes()
        };
        messages.extend(message::split(json, Bytes::from(body))?);
    }
    Ok(messages)
}

fn not_understood(error: &dyn std::fmt::Display) -> ClientError {
    ClientError::NotUnderstood(error.to_string())
}
