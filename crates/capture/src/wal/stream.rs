//! The connection on which the slot sends its messages.

use super::target::{CheckOf, Target};
use bytes::Bytes;
use futures_util::FutureExt;
use pgwire_replication::{
    Lsn, PgWireError, ReplicationClient, ReplicationConfig, ReplicationEvent, SslMode, TlsConfig,
};
use tokio::task::unconstrained;

use super::pgoutput::{self, DecodeError, Message};

/// What the slot publishes: the watched tables, and what is staged.
pub(crate) const PUBLICATIONS: [&str; 2] = ["tidewire_tables", "tidewire_staging"];

/// Values are written in one form, whatever defaults the server, database or role have.
const OPTIONS: &str = "-c TimeZone=UTC -c DateStyle=ISO -c IntervalStyle=postgres \
     -c extra_float_digits=1 -c bytea_output=hex -c search_path= \
     -c statement_timeout=0 -c idle_session_timeout=0 -c lock_timeout=0";

/// Messages that wait for the reader. What the server sends beyond that waits in the server.
const MESSAGES_MAX: usize = 512;

/// How often the server is told how far the log has got, at most; and, if nothing happens, at least.
const STATUS_INTERVAL: std::time::Duration = std::time::Duration::from_secs(1);

/// What arrives.
#[derive(Debug)]
pub(crate) enum Arrival {
    Message(Message),
    /// Everything up to here was sent.
    Alive(u64),
}

/// Why nothing arrives any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamError {
    #[error("the replication connection broke: {0}")]
    Broken(#[from] PgWireError),
    #[error("the server ended the replication connection")]
    Ended,
    #[error("reading was told to stop")]
    Stopped,
    #[error("the replication slot is given up: {0}")]
    GivenUp(String),
    #[error("the server sent a message that cannot be read: {0}")]
    Unreadable(#[from] DecodeError),
}

impl StreamError {
    /// Why the slot is of no use any more, if it is not.
    pub(crate) fn slot_is_lost(&self) -> Option<&str> {
        let said = ["does not exist", "can no longer get changes", "has been invalidated"];
        match self {
            StreamError::GivenUp(why) => Some(why),
            StreamError::Broken(PgWireError::Server(text)) => {
                let lost = said.iter().any(|phrase| text.contains(phrase));
                (lost && text.contains("replication slot")).then_some(text)
            }
            _ => None,
        }
    }
}

/// The stream of a slot's messages. Dropping it closes the connection.
pub(crate) struct Stream(ReplicationClient);

impl Stream {
    /// Connects, and starts to read at a place.
    pub(crate) async fn start(
        target: &Target,
        slot: &str,
        from: u64,
    ) -> Result<Stream, StreamError> {
        let config = config(target, slot).with_start_lsn(Lsn(from));
        let mut stream = Stream(ReplicationClient::connect(config).await?);
        stream.0.wait_started().await?;
        Ok(stream)
    }

    /// Connects and makes the slot. Returns the snapshot that sees what the slot will not send, for
    /// as long as the stream is not started.
    pub(crate) async fn create(
        target: &Target,
        slot: &str,
    ) -> Result<(Stream, u64, String), StreamError> {
        let mut stream = Stream(ReplicationClient::connect_gated(config(target, slot)).await?);
        // The form that all versions understand.
        let command = format!("CREATE_REPLICATION_SLOT {slot} LOGICAL pgoutput EXPORT_SNAPSHOT");
        let rows = stream.0.simple_query(&command).await?;
        let cell = |at: usize| -> Option<String> {
            let value: &Option<Bytes> = rows.first()?.get(at)?;
            Some(String::from_utf8_lossy(value.as_ref()?).into_owned())
        };
        let lsn = cell(1).and_then(|text| Lsn::parse(&text).ok());
        match (lsn, cell(2)) {
            (Some(lsn), Some(snapshot)) => Ok((stream, lsn.0, snapshot)),
            _ => Err(StreamError::Ended),
        }
    }

    /// What arrives next.
    pub(crate) async fn next(&mut self) -> Result<Arrival, StreamError> {
        match self.0.recv().await? {
            Some(event) => arrival(event),
            None => Err(StreamError::Ended),
        }
    }

    /// What has arrived already, if something has. The runtime would otherwise say after some hundred
    /// messages that nothing has, so that others have their turn, and what is there would not share a commit.
    pub(crate) fn ready(&mut self) -> Option<Result<Arrival, StreamError>> {
        unconstrained(self.next()).now_or_never()
    }

    /// Tells the server that it need not keep what lies before.
    pub(crate) fn confirm(&self, lsn: u64) {
        self.0.update_applied_lsn(Lsn(lsn));
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}

fn arrival(event: ReplicationEvent) -> Result<Arrival, StreamError> {
    Ok(Arrival::Message(match event {
        ReplicationEvent::KeepAlive { wal_end, .. } => return Ok(Arrival::Alive(wal_end.0)),
        ReplicationEvent::StoppedAt { .. } => return Err(StreamError::Ended),
        ReplicationEvent::XLogData { data, .. } => pgoutput::decode(data)?,
        ReplicationEvent::Begin { final_lsn, xid, commit_time_micros } => {
            Message::Begin { commit_lsn: final_lsn.0, committed_at: commit_time_micros, xid }
        }
        ReplicationEvent::Commit { lsn, end_lsn, commit_time_micros } => Message::Commit {
            commit_lsn: lsn.0,
            end_lsn: end_lsn.0,
            committed_at: commit_time_micros,
        },
        ReplicationEvent::Message { transactional, prefix, content, .. } => {
            Message::Logical { transactional, prefix, content }
        }
    }))
}

fn config(target: &Target, slot: &str) -> ReplicationConfig {
    // The driver would otherwise install another provider for the whole process. One that is there
    // already stays.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let mode = match target.check {
        CheckOf::NoTls => SslMode::Disable,
        CheckOf::IfOffered => SslMode::Prefer,
        CheckOf::Nothing => SslMode::Require,
        CheckOf::Issuer => SslMode::VerifyCa,
        CheckOf::IssuerAndHost => SslMode::VerifyFull,
    };
    let ca_pem_path = target.root_file.as_ref().map(Into::into);
    let (user, password) = (&target.user, &target.password);
    ReplicationConfig::new(&target.host, user, password, &target.database, slot, PUBLICATIONS)
        .with_port(target.port)
        .with_tls(TlsConfig { mode, ca_pem_path, ..TlsConfig::default() })
        .with_options(OPTIONS)
        .with_application_name("tidewire capture")
        .with_buffer_size(MESSAGES_MAX)
        .with_status_interval(STATUS_INTERVAL)
        .with_wakeup_interval(STATUS_INTERVAL)
}
