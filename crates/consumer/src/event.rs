//! What handlers can ask an event: its JSON, its time, its row.

use serde::de::DeserializeOwned;
use tidewire_store::Operation;
use tidewire_store::groups::GroupEvent;

/// Reading an event.
pub trait EventExt {
    /// What it says: the document, or the row after the change (before it, where it was deleted).
    fn json<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error>;

    /// The table whose row was changed, if it is a change of a row.
    fn table(&self) -> Option<&str>;

    /// What was done to the row.
    fn operation(&self) -> Option<Operation>;
}

impl EventExt for GroupEvent {
    fn json<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        let row = self
            .change
            .as_ref()
            .and_then(|change| change.after.as_deref().or(change.before.as_deref()));
        // An event without either, a TRUNCATE, says nothing: that is JSON's null.
        serde_json::from_slice(self.payload.as_deref().or(row).unwrap_or(b"null"))
    }

    fn table(&self) -> Option<&str> {
        self.change.as_ref().map(|change| change.table.as_str())
    }

    fn operation(&self) -> Option<Operation> {
        self.change.as_ref().map(|change| change.operation)
    }
}
