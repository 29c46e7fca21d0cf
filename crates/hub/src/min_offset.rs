//! Read-your-writes: waiting until this node has seen the log up to an offset.
//!
//! A write answers with the offset that it reached. Whoever gives it as `min_offset`, to any node,
//! reads nothing older. A writer that goes past Tidewire, straight to the database, has no offset, but
//! it has its transaction's id, which does the same as `min_txid`.

use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::Value;

use tidewire_store::Position;

use crate::Hub;
use crate::offset::parse_offset;
use tidewire_access::problem::Problem;

/// How far the log must have come before a reader begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MinOffset {
    offset: Option<Position>,
    /// Whether it is to have all that was committed, by anyone, when it was asked.
    committed: bool,
}

/// As it stands in a JSON document.
#[derive(Debug, Default, Deserialize)]
pub struct MinOffsetJson {
    min_offset: Option<String>,
    /// A number, or the same as text, for those whose numbers are not as large.
    min_txid: Option<Value>,
}

impl MinOffsetJson {
    pub fn read(&self, hub: &Hub) -> Result<MinOffset, Problem> {
        let txid = self.min_txid.as_ref().map(|txid| match txid {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        MinOffset::parse(hub, self.min_offset.as_deref(), txid.as_deref())
    }
}

impl MinOffset {
    /// Reads what a request says. Both may be missing.
    pub fn parse(
        hub: &Hub,
        min_offset: Option<&str>,
        min_txid: Option<&str>,
    ) -> Result<MinOffset, Problem> {
        let offset = min_offset.map(|text| parse_offset(text, hub.store.epoch())).transpose()?;
        let txid = min_txid.map(|text| text.parse::<u64>().map_err(|_| malformed_txid()));
        Ok(MinOffset { offset, committed: txid.transpose()?.is_some() })
    }

    /// All that is committed by now.
    pub fn committed() -> MinOffset {
        MinOffset { offset: None, committed: true }
    }

    /// Waits until this node is there, or for as long as a reader would: what was done is done, and its
    /// stream comes or goes a little later.
    pub async fn settled(self, hub: &Hub) {
        if let Err(problem) = self.reached(hub).await {
            tracing::debug!(code = problem.code(), "gave up waiting for the log");
        }
    }

    /// Waits until this node is there.
    pub async fn reached(self, hub: &Hub) -> Result<(), Problem> {
        let wait = hub.options.log.min_offset_wait;
        if let Some(position) = self.offset {
            seen(hub, position).await?;
        }
        if self.committed {
            let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            // The transaction was committed before its id was given here, so it is among those.
            seen(hub, hub.store.caught_up(wait_ms).await?).await?;
        }
        Ok(())
    }
}

/// Waits until this node has seen the log up to a position.
pub async fn seen(hub: &Hub, position: Position) -> Result<(), Problem> {
    let wait = hub.options.log.min_offset_wait;
    tokio::time::timeout(wait, hub.tail.reached(position)).await.map_err(|_| {
        Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "min_offset_not_reached",
            format!(
                "this node has not seen the log up to {} within {} ms (log.min_offset_wait_ms)",
                hub.offset(position),
                wait.as_millis()
            ),
            "try again, and check that the offset is one this system gave",
        )
        .retry_after_s(1)
    })
}

fn malformed_txid() -> Problem {
    Problem::bad_request(
        "malformed_txid",
        "min_txid is not a transaction's id",
        "send what SELECT pg_current_xact_id() gave in the transaction",
    )
}
