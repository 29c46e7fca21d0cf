//! From the write-ahead log to the log: a logical slot, and the reader that turns what it sends into
//! events.
//!
//! - `pgoutput`: the slot's messages; `stream`: the connection they come on
//! - `kind`, `json`, `image`: values and rows in the canonical form; `table`: what tables look like
//! - `assemble`: transactions and parts of them; `translate`: from there to events
//! - `reader`: the loop; `slot_watch`: how much write-ahead log the slot keeps
//! - `append`, `columns`: into the log, with the position that was reached, by the store's appender
//! - `repair`: what to do when the slot is lost; `differences`: what a repair reads
//! - `database`: what reading asks of the database; `target`: where replication connections go

pub mod append;
mod assemble;
mod columns;
pub mod database;
mod differences;
mod image;
mod json;
mod kind;
mod pgoutput;
mod reader;
mod repair;
mod slot_watch;
mod stream;
mod table;
mod target;
mod translate;

use std::time::Duration;

use tidewire_store::StoreError;
use tidewire_store_postgres::captured::broken;
use tidewire_store_postgres::wal::{self, WalState};
use tokio_util::sync::CancellationToken;

use crate::leader::{End, Leadership};
use crate::options::CaptureOptions;
use crate::sequencer;

use reader::{Ended, ReadError, Reader};
pub use slot_watch::WalLimits;
use stream::{Stream, StreamError};

/// How long to wait after the replication connection broke.
const PAUSE: Duration = Duration::from_millis(100);

/// How long the server may take to let us read.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Reads until told to stop, or until changes come from elsewhere.
pub(crate) async fn run(
    leadership: &Leadership,
    options: &CaptureOptions,
    stop: &CancellationToken,
) -> Result<End, StoreError> {
    let client = leadership.client();
    loop {
        let state = wal::state(client).await?;
        if !state.on && !state.finishing {
            return Ok(End::Switched);
        }
        let prepared = stop.run_until_cancelled(prepare(leadership, options, &state)).await;
        match prepared {
            Some(Ok(None)) => {}
            Some(Ok(Some(end))) => return Ok(end),
            Some(Err(error)) => return Err(error),
            None => {
                // It may have been in the middle of a transaction.
                let ended = client.batch_execute("ROLLBACK").await;
                return ended.map(|()| End::Stopped).map_err(broken("stop reading"));
            }
        }
        let lost = match Box::pin(read(leadership, options, &state, stop)).await {
            Ok(Ended::Well(End::Switched)) => {
                wal::drop_slot(client, &state.slot).await?;
                tracing::info!(slot = state.slot, "changes come from the outbox; the slot is gone");
                return Ok(End::Switched);
            }
            Ok(Ended::Well(end)) => return Ok(end),
            Ok(Ended::SlotLost(why)) => Some(why),
            Err(ReadError::Store(error)) => return Err(error),
            Err(ReadError::Stream(StreamError::Stopped)) => return Ok(End::Stopped),
            Err(ReadError::Stream(error)) => {
                let lost = error.slot_is_lost().map(ToOwned::to_owned);
                if lost.is_none() {
                    tracing::warn!(%error, "reading the write-ahead log was interrupted");
                    tokio::time::sleep(PAUSE).await;
                }
                lost
            }
        };
        if let Some(why) = lost {
            repair::announce(leadership, &state, &why).await?;
        }
    }
}

/// Does what comes before reading: moves what was staged before the switch, and repairs what a lost
/// slot has left behind. Returns why it is not this node's to do, if it is not.
async fn prepare(
    leadership: &Leadership,
    options: &CaptureOptions,
    state: &WalState,
) -> Result<Option<End>, StoreError> {
    if let Some(until) = state.staged_until {
        if let Some(end) = sequencer::drain(leadership, options, until).await? {
            return Ok(Some(end));
        }
        database::drained(leadership.client()).await?;
    }
    if let Some(why) = &state.repairing {
        Box::pin(repair::repair(leadership, options, state, why)).await?;
        // Where the outbox is the source by now, there is nothing left to read.
        return Ok(state.finishing.then_some(End::Switched));
    }
    Ok(None)
}

/// Reads the slot from the position on. Ends whoever else does: that can only be a leader of before.
async fn read(
    leadership: &Leadership,
    options: &CaptureOptions,
    state: &WalState,
    stop: &CancellationToken,
) -> Result<Ended, ReadError> {
    let client = leadership.client();
    match wal::slot(client, &state.slot).await? {
        None => return Ok(Ended::SlotLost("there is no slot".to_owned())),
        Some(slot) if slot.lost => {
            let why = "the server removed what the slot needed (max_slot_wal_keep_size)";
            return Ok(Ended::SlotLost(why.to_owned()));
        }
        Some(_) => {}
    }
    wal::make_publications(client).await?;
    wal::end_sender(client, &state.slot).await?;
    let Some(position) = database::position(client).await? else {
        return Ok(Ended::SlotLost("the position up to which it was read is unknown".to_owned()));
    };
    let stream = connect(leadership, &state.slot, position.1.lsn).await?;
    tracing::info!(slot = state.slot, lsn = position.1.lsn, "reading the write-ahead log");
    Reader::new(leadership, options, state.slot.clone(), stream, position).run(stop).await
}

/// Connects to the server that has the slot: one of those that the URL names.
async fn connect(leadership: &Leadership, slot: &str, from: u64) -> Result<Stream, StreamError> {
    let mut last = StreamError::Ended;
    for target in target::targets(&leadership.link) {
        match tokio::time::timeout(CONNECT_MAX, Stream::start(&target, slot, from)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(_) => {}
        }
    }
    Err(last)
}
