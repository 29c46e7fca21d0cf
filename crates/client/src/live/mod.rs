//! Any number of streams over one WebSocket, across lost connections: every event once, in order.
//!
//! ```no_run
//! # async fn example() -> Result<(), tidewire_client::ClientError> {
//! use tidewire_client::{Client, LiveOptions, ReadFrom, Update};
//!
//! let client = Client::new("http://127.0.0.1:4437", None)?;
//! let mut live = client.live(LiveOptions::default())?;
//! live.subscribe("doc", "doc-123", ReadFrom::Start)?;
//! while let Some(update) = live.next().await? {
//!     match update {
//!         Update::Event(event) => println!("{} {:?}", event.offset, event.payload),
//!         Update::Disconnected { error, retry_in } => eprintln!("{error}; back in {retry_in:?}"),
//!         Update::Problem { problem, .. } => eprintln!("{problem:?}"),
//!         _ => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! There is no task behind it: the caller's [`Live::next`] does the work, and a caller who is slow
//! slows the connection down instead of filling a queue. (The server then drops what it cannot
//! queue, says so, and is asked for it again; none of that shows here.)
//!
//! - `state`, `receive`: what there is, and what each message does to it; `lane`, `subscription`: the
//!   same for one subscription; `acks`: what the caller has processed. All of these are pure
//! - `link`: the connection as it comes and goes; `handshake`: how one is made; `socket`: one of them
//! - `query`, `result`: a query that is followed, and its rows
//! - `reader`: what is too large to be pushed is read over HTTP
//! - `wire`: the messages; `update`: what comes out; `options`

mod acks;
#[cfg(test)]
mod cases;
mod handshake;
mod lane;
mod link;
mod options;
mod query;
mod reader;
mod receive;
mod result;
#[cfg(test)]
mod simulation;
mod socket;
mod state;
mod subscription;
mod update;
mod wire;

use std::time::Duration;

use futures_util::Stream;
use tokio::time::{Instant, sleep_until, timeout};

pub use options::LiveOptions;
pub use result::{QueryBegun, QueryResult, RowChange, RowText};
pub use update::{EntityChange, LiveEvent, Update};

use self::link::{Link, LinkEvent};
use self::reader::Reader;
use self::state::State;
use self::wire::{Message, Rows, Sql};
use crate::backoff::Backoff;
use crate::client::Client;
use crate::error::ClientError;
use crate::events::EventPage;
use crate::follow::ReadFrom;
use crate::session::SessionOffset;

/// Acknowledgements are sent this far apart: seldom enough to cost nothing, often enough that little
/// is repeated after a crash.
const ACK_INTERVAL: Duration = Duration::from_millis(250);

/// How long a server may take to say farewell.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// Bytes of a `query_id`; PROTOCOL.md, section 22.
const QUERY_ID_BYTES_MAX: usize = 256;

/// Subscriptions over a live connection. Dropping it drops the connection.
#[derive(Debug)]
pub struct Live {
    state: State,
    link: Link,
    reader: Reader,
    /// When acknowledgements may be sent again.
    acks_at: Instant,
    /// The waits of subscriptions with a temporary problem, and when the one under way is over.
    backoff: Backoff,
    wake_at: Option<Instant>,
    /// An error has ended it.
    ended: bool,
}

impl Client {
    /// Follows any number of streams over one connection, which is made when the first update is
    /// waited for.
    pub fn live(&self, options: LiveOptions) -> Result<Live, ClientError> {
        let backoff = options.backoff.clone();
        Ok(Live {
            state: State::new(options.session.is_some()),
            link: Link::new(self, options)?,
            reader: Reader::new(backoff.clone()),
            acks_at: Instant::now(),
            backoff,
            wake_at: None,
            ended: false,
        })
    }
}

impl Live {
    /// Follows a stream under the name `query_id`, at any time. A name that is in use begins anew.
    /// `None` begins where the session stands, else at the stream's end.
    pub fn subscribe(
        &mut self,
        query_id: &str,
        stream: &str,
        from: impl Into<Option<ReadFrom>>,
    ) -> Result<(), ClientError> {
        self.begin(query_id, stream, from.into(), None)
    }

    /// The same, but begun only when the node has seen the log up to `min_offset`, such as the one
    /// that an append was answered with: what is there when the subscription stands then includes
    /// it, on any node.
    pub fn subscribe_after(
        &mut self,
        query_id: &str,
        stream: &str,
        from: impl Into<Option<ReadFrom>>,
        min_offset: &str,
    ) -> Result<(), ClientError> {
        self.begin(query_id, stream, from.into(), Some(min_offset.to_owned()))
    }

    /// Is told when entities of a code change, under the name `query_id`; not how they change. `None`
    /// begins at the log's end. A name that is in use begins anew: so to add entities, name all of them
    /// again, from the offset of the last [`Update::Invalidated`]. After a lost connection it goes on
    /// where it was.
    pub fn subscribe_entities(
        &mut self,
        query_id: &str,
        entity_code: &str,
        entity_ids: impl IntoIterator<Item = impl Into<String>>,
        from: impl Into<Option<ReadFrom>>,
    ) -> Result<(), ClientError> {
        check_query_id(query_id)?;
        let ids = entity_ids.into_iter().map(Into::into).collect();
        let entities = wire::Entities { code: entity_code.to_owned(), ids };
        self.state.subscribe_entities(query_id, entities, from.into());
        Ok(())
    }

    /// Follows the rows of a watched table: all, or those that satisfy a condition. What comes are
    /// [`Update::Event`]s whose payload is a `cdc_event`; a row that does not satisfy the condition any
    /// more comes as a `DELETE`. It belongs to the connection, not to a session: after a return it goes on
    /// where this client got to.
    pub fn subscribe_table(
        &mut self,
        query_id: &str,
        table: &str,
        filter: Option<&str>,
        from: impl Into<Option<ReadFrom>>,
    ) -> Result<(), ClientError> {
        let rows = Rows { table: table.to_owned(), filter: filter.map(ToOwned::to_owned) };
        self.check(query_id, &rows.stream())?;
        self.state.subscribe_to_rows(query_id, rows, from.into());
        Ok(())
    }

    /// Follows the result of a SELECT, with `params` for `$1`, `$2` and so on: first all rows
    /// ([`Update::ResultBegan`]), then what each transaction changes ([`Update::ResultChanged`]). The rows
    /// are kept here: [`Live::result`]. It belongs to the connection, not to a session: after a return it
    /// goes on where it was, or begins with all rows again.
    pub fn query(
        &mut self,
        query_id: &str,
        sql: &str,
        params: &[serde_json::Value],
    ) -> Result<(), ClientError> {
        check_query_id(query_id)?;
        let sql = Sql { sql: sql.to_owned(), params: params.to_vec(), etag: None };
        self.state.subscribe_to_query(query_id, sql);
        Ok(())
    }

    /// The result of a query that is followed, as the last update left it.
    pub fn result(&self, query_id: &str) -> Option<&QueryResult> {
        self.state.result(query_id)
    }

    fn begin(
        &mut self,
        query_id: &str,
        stream: &str,
        from: Option<ReadFrom>,
        min_offset: Option<String>,
    ) -> Result<(), ClientError> {
        self.check(query_id, stream)?;
        self.state.subscribe(query_id, stream, from, min_offset);
        Ok(())
    }

    fn check(&self, query_id: &str, stream: &str) -> Result<(), ClientError> {
        check_query_id(query_id)?;
        self.link.node().address().stream(stream)?;
        Ok(())
    }

    /// Stops following. No update of it comes after this.
    pub fn unsubscribe(&mut self, query_id: &str) {
        self.state.unsubscribe(query_id);
    }

    /// Says that this event of its stream, and all before it, were processed: the session goes on
    /// after it, wherever it is taken up. It is sent with others, within [`Live::next`]. Without a
    /// session it does nothing.
    pub fn ack(&mut self, event: &LiveEvent) {
        self.state.ack(event);
    }

    /// Says the same of all that was given out before an [`Update::Progress`], of every stream.
    pub fn ack_progress(&mut self, offset: &str) {
        self.state.ack_progress(offset);
    }

    /// The next update. `None` when nothing can come any more: every subscription has ended and no
    /// session could bring another, or an error was given out before. Waits through lost
    /// connections; an error is one that trying again would not mend.
    ///
    /// Dropping the future loses nothing, and an attempt to connect goes on with the next call.
    pub async fn next(&mut self) -> Result<Option<Update>, ClientError> {
        loop {
            if let Some(update) = self.state.next_update() {
                return Ok(Some(update));
            }
            if self.ended || self.state.is_idle() {
                return Ok(None);
            }
            if let Err(error) = self.turn().await {
                self.ended = true;
                return Err(error);
            }
        }
    }

    /// The same as a [`Stream`], which ends after the first error. What it gives out can only be
    /// acknowledged by a [`Client::heartbeat`].
    pub fn into_stream(self) -> impl Stream<Item = Result<Update, ClientError>> {
        futures_util::stream::unfold(self, |mut live| async {
            let item = live.next().await.transpose()?;
            Some((item, live))
        })
    }

    /// Sends the acknowledgements that are due and takes leave of the server. Where there is no
    /// connection they go by a heartbeat.
    pub async fn close(mut self) -> Result<(), ClientError> {
        let Some(socket) = self.link.socket() else {
            return self.heartbeat().await;
        };
        self.state.take_acks().iter().for_each(|request| socket.send(request));
        let url = self.link.node().address().to_string();
        let lost = |why: String| ClientError::Lost { url, why };
        match self.link.into_socket() {
            Some(socket) => match timeout(CLOSE_WAIT, socket.close()).await {
                Ok(closed) => closed.map_err(lost),
                Err(_) => Err(lost("it did not answer the farewell".to_owned())),
            },
            None => Ok(()),
        }
    }

    /// Sends the acknowledgements that are due over HTTP, to the first node that takes them. Those
    /// of a progress belonged to a connection that is gone.
    async fn heartbeat(mut self) -> Result<(), ClientError> {
        let offset = |acked: wire::Acked| {
            let (stream, last_offset) = (acked.stream_id?, acked.last_offset);
            Some(SessionOffset { stream, last_offset, subscription_epoch: None })
        };
        let offsets: Vec<SessionOffset> =
            self.state.take_acked().into_iter().filter_map(offset).collect();
        let Some(session) = self.link.session().filter(|_| !offsets.is_empty()) else {
            return Ok(());
        };
        let mut outcome = Ok(());
        for node in self.link.nodes() {
            let lost = || {
                let url = node.address().to_string();
                ClientError::Lost { url, why: "the last acknowledgements were not sent".to_owned() }
            };
            let beat = timeout(CLOSE_WAIT, node.heartbeat(session, &offsets)).await;
            outcome = beat.unwrap_or_else(|_| Err(lost())).map(drop);
            if !outcome.as_ref().is_err_and(ClientError::temporary) {
                break;
            }
        }
        outcome
    }

    /// Sends what is due, then waits for one thing to happen and does what follows from it.
    async fn turn(&mut self) -> Result<(), ClientError> {
        self.send();
        let timer = self.timer();
        tokio::select! {
            happened = self.link.next() => self.happened(happened),
            (read, page) = self.reader.next() => self.was_read(read, page),
            () = sleep_until(timer.unwrap_or_else(Instant::now)), if timer.is_some() => {
                self.rang();
                Ok(())
            }
        }
    }

    fn send(&mut self) {
        let Some(socket) = self.link.socket() else {
            return;
        };
        self.state.take_requests().iter().for_each(|request| socket.send(request));
        // What was sent before must be gone, so that they do not pile up before a slow server.
        if self.state.acks.are_due() && socket.is_sent() && Instant::now() >= self.acks_at {
            self.state.take_acks().iter().for_each(|request| socket.send(request));
            self.acks_at = Instant::now() + ACK_INTERVAL;
        }
        if self.reader.is_free()
            && let Some(read) = self.state.next_read()
        {
            self.reader.start(self.link.node(), read);
        }
        if self.state.resting && self.wake_at.is_none() {
            self.wake_at = Some(Instant::now() + self.backoff.next_wait(&mut rand::rng()));
        }
    }

    /// When something is to be done even if nothing happens.
    fn timer(&mut self) -> Option<Instant> {
        let socket = self.link.socket()?;
        let acks_at = (self.state.acks.are_due() && socket.is_sent()).then_some(self.acks_at);
        [acks_at, self.wake_at].into_iter().flatten().min()
    }

    fn rang(&mut self) {
        if self.wake_at.take_if(|at| *at <= Instant::now()).is_some() {
            self.state.wake();
        }
    }

    fn happened(&mut self, happened: LinkEvent) -> Result<(), ClientError> {
        match happened {
            LinkEvent::Up => {}
            LinkEvent::Message(frame) => match Message::parse(&frame)? {
                Message::Closing { reason, reconnect_in } => {
                    self.link.closing(reason, reconnect_in);
                }
                message => {
                    if let Message::Problem { query_id: None, problem } = &message {
                        self.link.problem(problem);
                    }
                    let delivers = matches!(
                        message,
                        Message::Event { .. }
                            | Message::Invalidate { .. }
                            | Message::Change { .. }
                            | Message::Created(_)
                    );
                    self.state.receive(message);
                    if delivers {
                        self.backoff.reset();
                        self.link.delivers();
                    }
                }
            },
            LinkEvent::Down { error, retry_in } => {
                self.state.disconnected();
                self.reader.stop();
                self.wake_at = None;
                self.state.updates.push_back(Update::Disconnected { error, retry_in });
            }
            LinkEvent::Refused(error) => return Err(error),
        }
        Ok(())
    }

    fn was_read(
        &mut self,
        read: receive::Read,
        page: Result<EventPage, ClientError>,
    ) -> Result<(), ClientError> {
        match page {
            Ok(page) => self.state.was_read(read, page),
            Err(error) if error.temporary() => {
                tracing::debug!(stream = &*read.stream, "{error}; reading it again");
                self.state.read_later(read);
            }
            Err(ClientError::Refused { status, problem, .. }) if status != 401 => {
                self.state.read_refused(&read, *problem);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

fn check_query_id(query_id: &str) -> Result<(), ClientError> {
    if query_id.is_empty() || query_id.len() > QUERY_ID_BYTES_MAX {
        let bounds = format!("it has 1 to {QUERY_ID_BYTES_MAX} bytes");
        return Err(ClientError::Unusable(format!("{query_id:?} is not a query_id; {bounds}")));
    }
    Ok(())
}
