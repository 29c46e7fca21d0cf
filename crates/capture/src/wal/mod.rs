//! From the write-ahead log to the log. A reserved room: nothing is read from it yet.

use tidewire_store::StoreError;
use tokio_util::sync::CancellationToken;

use crate::leader::{End, Leadership};
use crate::options::CaptureOptions;

/// Reads until told to stop, or until changes come from elsewhere.
pub(crate) async fn run(
    _leadership: &Leadership,
    _options: &CaptureOptions,
    stop: &CancellationToken,
) -> Result<End, StoreError> {
    tracing::error!("changes are to come from the write-ahead log, which is not read yet");
    stop.cancelled().await;
    Ok(End::Stopped)
}
