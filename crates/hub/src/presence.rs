//! A connection's registration with the hub, which ends when it is dropped.

use std::sync::Arc;

use tokio::sync::oneshot;

use tidewire_store::StoreError;

use tidewire_access::auth::Ended;

use super::{Arrival, Command, ConnectionInfo, Handle, Key, Transport};

/// A connection of a shard.
#[derive(Debug)]
pub struct Presence {
    shard: Handle,
    key: Key,
}

impl Presence {
    pub fn key(&self) -> Key {
        self.key
    }

    /// Ends all that is followed here, because the credential it came with holds no longer.
    pub async fn leave(&self, ended: Ended) {
        let (key, reason) = (self.key, ended.reason());
        self.shard.ask(Command::Expire { key, reason }).await;
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.shard.detach(self.key);
    }
}

impl Handle {
    pub(super) fn presence(&self, key: Key) -> Presence {
        Presence { shard: self.clone(), key }
    }

    /// Takes a place for a client.
    pub async fn attach(
        &self,
        transport: Transport,
        connection_info: Arc<ConnectionInfo>,
    ) -> Result<Presence, StoreError> {
        let (reply, attached) = oneshot::channel();
        self.ask(Command::Attach { transport, connection_info, reply }).await;
        attached.await.map_err(|_| StoreError::Closed)
    }

    /// Takes a place for a reader.
    pub async fn admit(
        &self,
        transport: Transport,
        arrival: Box<Arrival>,
    ) -> Result<Presence, StoreError> {
        let (reply, admitted) = oneshot::channel();
        self.ask(Command::Admit { transport, arrival, reply }).await;
        admitted.await.map_err(|_| StoreError::Closed)
    }
}
