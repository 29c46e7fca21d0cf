//! A change of subscriptions that waits to be committed.

use tokio::sync::oneshot;

use tidewire_store::{EntityEdit, StoreError};

/// Where the word is awaited that something is committed, or why not.
pub(super) type Reply = oneshot::Sender<Result<(), StoreError>>;

#[derive(Debug)]
pub(super) enum Work {
    /// Asked for, or only noted.
    Edit(EntityEdit, Option<Reply>),
    /// Someone wants to know when all before this is done of a connection.
    Settle(String, Reply),
}

impl Work {
    pub(super) fn connection_id(&self) -> &str {
        match self {
            Work::Edit(EntityEdit::Subscribe(subscription), _) => &subscription.connection_id,
            Work::Edit(
                EntityEdit::Unsubscribe { connection_id, .. }
                | EntityEdit::Adopt { connection_id, .. }
                | EntityEdit::Disconnect { connection_id },
                _,
            )
            | Work::Settle(connection_id, _) => connection_id,
        }
    }

    /// What the store is to do for it.
    pub(super) fn edit(&self) -> Option<&EntityEdit> {
        match self {
            Work::Edit(edit, _) => Some(edit),
            Work::Settle(..) => None,
        }
    }

    /// How much it is.
    pub(super) fn ids(&self) -> usize {
        match self {
            Work::Edit(EntityEdit::Subscribe(subscription), _) => subscription.ids.len(),
            Work::Edit(EntityEdit::Unsubscribe { ids: Some(ids), .. }, _) => ids.len(),
            _ => 1,
        }
    }

    /// Whether someone waits for it.
    pub(super) fn is_awaited(&self) -> bool {
        !matches!(self, Work::Edit(_, None))
    }

    /// Says that it is committed, if someone waits for that.
    pub(super) fn done(self) {
        if let Work::Edit(_, Some(reply)) | Work::Settle(_, reply) = self {
            let _ = reply.send(Ok(()));
        }
    }

    /// Says that it is not. A note is returned: it has to be committed some time.
    pub(super) fn failed(self, error: &StoreError) -> Option<Work> {
        match self {
            Work::Edit(_, Some(reply)) | Work::Settle(_, reply) => {
                let _ = reply.send(Err(error.clone()));
                None
            }
            note @ Work::Edit(_, None) => Some(note),
        }
    }
}
