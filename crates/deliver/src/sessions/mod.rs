//! Sessions on this node: their signed ids, the batches in which they are changed, and which of them
//! are connected here.
//!
//! - [`subscribe`]: how a session begins to follow

mod subscribe;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_lc_rs::hmac;
use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use tidewire_store::{Session, SessionChange, SessionOutcome, SharedStore};

use crate::access::auth::Identity;
use crate::access::options::SessionOptions;
use crate::access::problem::Problem;
use crate::access::secret;
use crate::access::start_error::StartError;
use crate::hub::admit::taken_by_session;
use crate::hub::session_notes::Batch;
use crate::hub::{Handle, Key};

pub(crate) use subscribe::{Following, subscribe};

const SIGNING_KEY: &str = "session-id";
/// Marks an id for people who come across one.
const PREFIX: &str = "tws_";
const NONCE_BYTES: usize = 16;
/// Half of the digest: 128 bits are more than anyone guesses.
const SIGNATURE_BYTES: usize = 16;

/// Sessions, as this node knows them.
pub(crate) struct Sessions {
    key: hmac::Key,
    ttl_ms: u64,
    store: SharedStore,
    batch: Arc<Batch>,
    connected: Mutex<HashMap<Arc<str>, Connected>>,
}

/// A session with connections on this node.
struct Connected {
    /// The newest revision that its connections were told of.
    revision: u64,
    connections: Vec<(Handle, Key, Identity)>,
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sessions").field("ttl_ms", &self.ttl_ms).finish_non_exhaustive()
    }
}

impl Sessions {
    pub(crate) async fn load_key(
        store: &SharedStore,
        options: &SessionOptions,
        batch: Arc<Batch>,
    ) -> Result<Sessions, StartError> {
        let secret = secret::shared(store, SIGNING_KEY).await?;
        Ok(Sessions {
            key: hmac::Key::new(hmac::HMAC_SHA256, &secret),
            ttl_ms: u64::try_from(options.ttl.as_millis()).unwrap_or(u64::MAX),
            store: SharedStore::clone(store),
            batch,
            connected: Mutex::new(HashMap::new()),
        })
    }

    /// How long a session lives after its last sign of life.
    pub(crate) fn ttl_ms(&self) -> u64 {
        self.ttl_ms
    }

    /// A new id, which is of use to its owner only.
    pub(crate) fn mint(&self, identity: &Identity) -> Result<String, Problem> {
        let nonce = secret::random::<NONCE_BYTES>().ok_or_else(|| {
            Problem::from(tidewire_store::StoreError::Unavailable("no randomness".to_owned()))
        })?;
        let mut id = nonce.to_vec();
        id.extend_from_slice(&self.sign(&nonce, identity).as_ref()[..SIGNATURE_BYTES]);
        Ok(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(id)))
    }

    fn sign(&self, nonce: &[u8], identity: &Identity) -> hmac::Tag {
        let owner = identity.owner();
        let mut context = hmac::Context::with_key(&self.key);
        context.update(nonce);
        context.update(owner.user_id.as_bytes());
        context.update(&[0]);
        context.update(owner.host_id.unwrap_or_default().as_bytes());
        context.sign()
    }

    /// Checks that an id was made here, for this identity.
    pub(crate) fn verify(&self, id: &str, identity: &Identity) -> Result<(), Problem> {
        use subtle::ConstantTimeEq as _;
        let bytes = id.strip_prefix(PREFIX).and_then(|id| URL_SAFE_NO_PAD.decode(id).ok());
        let valid = bytes.is_some_and(|bytes| match bytes.split_at_checked(NONCE_BYTES) {
            Some((nonce, signature)) => {
                let expected = self.sign(nonce, identity);
                bool::from(expected.as_ref()[..SIGNATURE_BYTES].ct_eq(signature))
            }
            None => false,
        });
        if valid { Ok(()) } else { Err(not_found()) }
    }

    /// A session that is there. Its id was verified.
    pub(crate) async fn load(&self, id: &str) -> Result<Session, Problem> {
        self.store.session(id).await?.ok_or_else(not_found)
    }

    /// Makes a change and waits until it is durable.
    pub(crate) async fn change(&self, change: SessionChange) -> Result<SessionOutcome, Problem> {
        self.change_all([change]).await
    }

    /// Makes changes together, and returns the last one's outcome when they are durable.
    pub(crate) async fn change_all(
        &self,
        changes: impl IntoIterator<Item = SessionChange>,
    ) -> Result<SessionOutcome, Problem> {
        match self.batch.ask(changes).await? {
            SessionOutcome::NoSession => Err(not_found()),
            outcome => Ok(outcome),
        }
    }

    /// Makes changes some time soon. Where one supersedes another it takes its place.
    pub(crate) fn note(&self, changes: Vec<SessionChange>) {
        self.batch.note(changes);
    }

    fn connected_now(&self) -> MutexGuard<'_, HashMap<Arc<str>, Connected>> {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection of this node serves a session: it is told when the session changes.
    pub(crate) fn connected(
        &self,
        session: &Arc<str>,
        shard: Handle,
        key: Key,
        identity: Identity,
    ) {
        let mut connected = self.connected_now();
        let entry = connected
            .entry(Arc::clone(session))
            .or_insert_with(|| Connected { revision: 0, connections: Vec::new() });
        entry.connections.push((shard, key, identity));
    }

    /// Notes that a session's connections know it as it is here.
    pub(crate) fn seen(&self, session: &Session) {
        if let Some(entry) = self.connected_now().get_mut(session.id.as_str()) {
            entry.revision = entry.revision.max(session.revision);
        }
    }

    /// A connection serves a session no longer.
    pub(crate) fn disconnected(&self, node: &str, session: &Arc<str>, key: Key) {
        let mut connected = self.connected_now();
        let Some(entry) = connected.get_mut(session) else { return };
        entry.connections.retain(|(_, theirs, _)| *theirs != key);
        if entry.connections.is_empty() {
            connected.remove(session);
            drop(connected);
            self.note(vec![SessionChange::Disconnect {
                session: session.to_string(),
                node: node.to_owned(),
                ttl_ms: self.ttl_ms,
            }]);
        }
    }

    /// A session's connections.
    pub(crate) fn connections(&self, session: &str) -> Vec<(Handle, Key, Identity)> {
        let connected = self.connected_now();
        connected.get(session).map(|entry| entry.connections.clone()).unwrap_or_default()
    }

    /// Sessions that are connected here, and how far their connections know them.
    pub(crate) fn revisions(&self) -> Vec<(Arc<str>, u64)> {
        let connected = self.connected_now();
        connected.iter().map(|(id, entry)| (Arc::clone(id), entry.revision)).collect()
    }

    /// Says again that this node serves the sessions that are connected here.
    pub(crate) fn reconnect(&self, node: &str) {
        let connect = |session: &Arc<str>| SessionChange::Connect {
            session: session.to_string(),
            node: node.to_owned(),
        };
        let changes = self.connected_now().keys().map(connect).collect();
        self.note(changes);
    }

    /// Commits what is asked for until the node stops.
    pub(crate) fn run(
        &self,
        stop: tokio_util::sync::CancellationToken,
    ) -> impl Future<Output = ()> + use<> {
        let (batch, store) = (Arc::clone(&self.batch), SharedStore::clone(&self.store));
        async move { batch.run(store, stop).await }
    }
}

/// One answer for every session that is not there for the asker, whatever the reason.
fn not_found() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "session_not_found",
        "there is no such session",
        "it may have expired: open a new one with POST /v1/sessions",
    )
}

/// Why a subscription could not be made.
fn refusal(outcome: SessionOutcome) -> Problem {
    match outcome {
        SessionOutcome::NamedOtherwise(query_id) => Problem::new(
            StatusCode::CONFLICT,
            "stream_already_subscribed",
            format!("the session follows this stream as {query_id:?}"),
            "use that query_id, or unsubscribe it first",
        ),
        SessionOutcome::NameTaken(stream) => taken_by_session(&stream),
        SessionOutcome::TooMany => Problem::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_subscriptions",
            format!(
                "a session follows at most {} streams",
                tidewire_store::SESSION_SUBSCRIPTIONS_MAX
            ),
            "unsubscribe from something, or open another session",
        ),
        SessionOutcome::NoSession | SessionOutcome::Done | SessionOutcome::Subscribed(_) => {
            not_found()
        }
    }
}
