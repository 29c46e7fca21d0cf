//! A cache of credentials: each is looked up once, and remembered for a while.
//!
//! A key is remembered for `keys.cache_ms`, and looked up again when it is used after that, or when
//! the store says that it changed ([`Credentials::changed`]); a token for as long, since verifying a
//! signature costs more than a hash. Those that someone stays connected with are remembered for as
//! long as that lasts, and looked at again and again, so that a change reaches them too.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use subtle::ConstantTimeEq as _;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

use tidewire_store::{KeyView, SharedStore, StoreError};

use super::identity::{Identity, Who};
use super::jwt::{Claims, Refusal, Verifier};
use super::names::TableNames;
use super::scopes::{Holder, Scopes};
use super::validity::Ended;
use super::{digest, ended, hex, key, unauthorized};
use crate::options::{Access, Options};
use crate::problem::Problem;
use crate::start_error::StartError;

/// Keys that are looked up at once: a herd that comes back must leave connections to others.
const LOOKUPS_MAX: usize = 4;
/// Credentials that are remembered without being in use.
const REMEMBERED_MAX: usize = 10_000;
/// Bytes of a token.
const TOKEN_BYTES_MAX: usize = 8 << 10;

/// What to go by.
pub struct Credentials {
    store: SharedStore,
    names: TableNames,
    /// Of the bootstrap key. Digests are compared, so that the key's length shows in no timing.
    admin: Option<([u8; 32], Identity)>,
    tokens_of: Option<TokenRules>,
    remember: Duration,
    known: Mutex<CachedCredential>,
    lookups: Semaphore,
    /// Something may be wrong with what is remembered.
    doubt: Notify,
}

/// How tokens are verified, and what they allow that do not say so.
struct TokenRules {
    verifier: Verifier,
    /// Scopes of tokens that have none, as JSON.
    default_scopes: Option<String>,
}

impl TokenRules {
    fn new(options: &Options, names: &TableNames) -> Result<Option<TokenRules>, StartError> {
        let default_scopes = options.auth.jwt.scopes.clone();
        if let Some(scopes) = &default_scopes {
            Scopes::parse(scopes, &(), names).map_err(StartError::TokenScopes)?;
        }
        let jwt = &options.auth.jwt;
        let verifier = jwt.takes_tokens().then(|| Verifier::new(jwt)).transpose();
        let verifier = verifier.map_err(StartError::Tokens)?;
        Ok(verifier.map(|verifier| TokenRules { verifier, default_scopes }))
    }
}

#[derive(Default)]
struct CachedCredential {
    keys: HashMap<i64, Entry>,
    /// Which key a token is, by the token's digest.
    key_of: HashMap<[u8; 32], i64>,
    /// Tokens of users, and tickets of theirs that were used.
    users: HashMap<[u8; 32], Entry>,
    /// Keys that were used since that was last written down.
    used: HashSet<i64>,
    /// How often something was said to have changed. What was asked of the store before the last
    /// time may be old news.
    doubts: u64,
}

struct Entry {
    identity: Identity,
    /// The scopes as they are stored, to see whether they changed.
    scopes: String,
    /// `None` if it must be looked at again before it is believed.
    checked: Option<Instant>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// A credential that was found good.
#[derive(Debug)]
pub struct Authenticated {
    pub identity: Identity,
    /// For the first time in a while, as this kind of credential.
    pub first: Option<&'static str>,
}

impl Credentials {
    pub fn new(
        options: &Options,
        store: &SharedStore,
        names: &TableNames,
    ) -> Result<Credentials, StartError> {
        let admin_key = match &options.access {
            Access::OpenOnLoopback => None,
            Access::Guarded { admin_key } => admin_key.as_deref(),
        };
        let admin = admin_key.map(|key| {
            (digest(key.as_bytes()), Identity::new(Who::Admin, Scopes::unlimited(), None))
        });
        Ok(Credentials {
            store: SharedStore::clone(store),
            admin,
            tokens_of: TokenRules::new(options, names)?,
            names: names.clone(),
            remember: options.auth.key_cache,
            known: Mutex::default(),
            lookups: Semaphore::new(LOOKUPS_MAX),
            doubt: Notify::new(),
        })
    }

    /// Keeps the keys that tokens are verified with fresh, until told to stop.
    pub async fn keep(&self, stop: CancellationToken) {
        match &self.tokens_of {
            Some(rules) => rules.verifier.keep(stop).await,
            None => stop.cancelled().await,
        }
    }

    /// Who presents this token.
    pub async fn authenticate(&self, token: &str) -> Result<Authenticated, Problem> {
        if token.is_empty() || token.len() > TOKEN_BYTES_MAX {
            return Err(unauthorized("the token is not valid"));
        }
        let hash = digest(token.as_bytes());
        if let Some((admin, identity)) = &self.admin
            && bool::from(hash.ct_eq(admin))
        {
            return Ok(Authenticated { identity: identity.clone(), first: None });
        }
        if let Some(identity) = self.remembered(&hash) {
            return Ok(Authenticated { identity, first: None });
        }
        if key::is_key(token) {
            return self.look_up(&hash).await;
        }
        match &self.tokens_of {
            // What has no dot in it was not meant to be a token of users: most often it is a wrong admin key.
            Some(rules) if token.contains('.') => self.verify(rules, token, hash).await,
            _ => Err(unauthorized(
                "the token is not valid: it is not this server's admin key, and no API key",
            )),
        }
    }

    /// One that was found good lately, and still is as far as is known.
    fn remembered(&self, hash: &[u8; 32]) -> Option<Identity> {
        let now = Instant::now();
        let mut known = self.known();
        let key = known.key_of.get(hash).copied();
        let entry = match key {
            Some(id) => known.keys.get(&id),
            None => known.users.get(hash),
        };
        let entry = entry.filter(|entry| entry.is_fresh(now, self.remember))?;
        let identity = entry.identity.clone();
        if let Some(id) = key {
            known.note_use(id);
        }
        Some(identity)
    }

    async fn look_up(&self, hash: &[u8; 32]) -> Result<Authenticated, Problem> {
        let Ok(_permit) = self.lookups.acquire().await else {
            return Err(StoreError::Closed.into());
        };
        // Someone else may have looked while this one waited.
        if let Some(identity) = self.remembered(hash) {
            return Ok(Authenticated { identity, first: None });
        }
        let asked_at = self.known().doubts;
        let Some(view) = self.store.key_of_hash(&hex(hash)).await? else {
            return Err(unauthorized("the token is not valid: this server has no such API key"));
        };
        let identity = self.remember_key(&view, asked_at)?;
        let mut known = self.known();
        known.key_of.insert(*hash, view.id);
        known.note_use(view.id);
        Ok(Authenticated { identity, first: Some("key") })
    }

    /// The holder of a key, by its number: of a ticket that was made with the key.
    pub(crate) async fn holder_of_key(&self, id: i64) -> Result<Identity, Problem> {
        let asked_at = self.known().doubts;
        match self.store.key(id).await? {
            Some(view) => self.remember_key(&view, asked_at),
            None => Err(ended(Ended::Revoked)),
        }
    }

    /// Takes over what the store says of a key, and said when there had been so many doubts: if
    /// there were more since, it is asked again. Those who are connected with the key keep their
    /// standing if nothing changed that matters to them, and learn what did otherwise.
    fn remember_key(&self, view: &KeyView, asked_at: u64) -> Result<Identity, Problem> {
        let now = Instant::now();
        let mut known = self.known();
        let checked = (known.doubts == asked_at).then_some(now);
        if checked.is_none() {
            self.doubt.notify_one();
        }
        if let Some(why) = refused(view) {
            known.forget_key(view.id, why);
            return Err(ended(why));
        }
        let ends_at = ends_at(view, now);
        if let Some(entry) = known.keys.get_mut(&view.id) {
            if entry.scopes == view.scopes {
                entry.checked = checked;
                entry.identity.validity().move_end(ends_at);
                return Ok(entry.identity.clone());
            }
            known.forget_key(view.id, Ended::Changed);
        }
        let scopes = Scopes::parse(&view.scopes, &(), &self.names).map_err(|error| {
            tracing::warn!(key = view.id, error, "a key's scopes are not understood");
            unauthorized("the key's scopes are not understood by this version")
        })?;
        let identity = Identity::new(Who::Key(view.id), scopes, ends_at);
        let scopes = view.scopes.clone();
        known.keys.insert(view.id, Entry { identity: identity.clone(), scopes, checked });
        Ok(identity)
    }

    async fn verify(
        &self,
        rules: &TokenRules,
        token: &str,
        hash: [u8; 32],
    ) -> Result<Authenticated, Problem> {
        let claims = rules.verifier.verify(token).await.map_err(not_verified)?;
        let scopes = match (&claims.scopes, &rules.default_scopes) {
            (Some(claimed), _) if !claimed.is_null() => claimed.to_string(),
            (_, Some(default)) => default.clone(),
            (_, None) => r#"{"can": []}"#.to_owned(),
        };
        let identity = user(&claims, &scopes, &self.names)?;
        let identity = self.remember_user(hash, identity, scopes);
        Ok(Authenticated { identity, first: Some("token") })
    }

    /// Remembers an end user by the digest of what they presented, and says who they are: the same
    /// as those who are connected with it, so that what ends one ends all.
    pub(crate) fn remember_user(
        &self,
        hash: [u8; 32],
        identity: Identity,
        scopes: String,
    ) -> Identity {
        let now = Instant::now();
        let mut known = self.known();
        if let Some(entry) = known.users.get_mut(&hash)
            && entry.scopes == scopes
            && entry.holds(now)
        {
            entry.checked = Some(now);
            return entry.identity.clone();
        }
        if known.users.len() >= REMEMBERED_MAX {
            known.users.retain(|_, entry| entry.identity.is_in_use());
        }
        let entry = Entry { identity: identity.clone(), scopes, checked: Some(now) };
        known.users.insert(hash, entry);
        identity
    }

    /// A key changed: it is believed again when the store was asked.
    pub fn changed(&self, id: i64) {
        let mut known = self.known();
        known.doubts += 1;
        if let Some(entry) = known.keys.get_mut(&id) {
            entry.checked = None;
        }
        drop(known);
        self.doubt.notify_one();
    }

    /// Anything may have changed.
    pub fn doubt_all(&self) {
        let mut known = self.known();
        known.doubts += 1;
        known.users.retain(|_, entry| entry.identity.is_in_use());
        let CachedCredential { keys, users, .. } = &mut *known;
        keys.values_mut().chain(users.values_mut()).for_each(|entry| entry.checked = None);
        drop(known);
        self.doubt.notify_one();
    }

    /// Ends all that came in as this user: of one tenant, or of any.
    pub fn kill(&self, user: &str, tenant: Option<&str>) {
        self.known().users.retain(|_, entry| {
            let theirs = match entry.identity.who() {
                Who::User { name, host } => {
                    **name == *user && tenant.is_none_or(|tenant| host.as_deref() == Some(tenant))
                }
                _ => false,
            };
            if theirs {
                entry.identity.validity().end(Ended::Killed);
            }
            !theirs
        });
    }

    /// Waits until something remembered is in doubt.
    pub async fn in_doubt(&self) {
        self.doubt.notified().await;
    }

    /// Ends those whose time has run out, forgets those that nobody uses, and returns the keys that
    /// must be looked at again.
    pub fn tidy(&self, now: Instant) -> Vec<i64> {
        let remember = self.remember;
        let mut known = self.known();
        let CachedCredential { keys, key_of, users, .. } = &mut *known;
        let mut again = Vec::new();
        keys.retain(|id, entry| {
            if entry.expire(now) {
                return false;
            }
            let fresh = entry.is_fresh(now, remember);
            if !fresh && entry.identity.is_in_use() {
                again.push(*id);
            }
            fresh || entry.identity.is_in_use()
        });
        key_of.retain(|_, id| keys.contains_key(id));
        users.retain(|_, entry| {
            !entry.expire(now) && (entry.is_fresh(now, remember) || entry.identity.is_in_use())
        });
        again
    }

    /// Asks the store about a key that someone stays connected with.
    pub async fn look_again(&self, id: i64) -> Result<(), StoreError> {
        let asked_at = self.known().doubts;
        match self.store.key(id).await? {
            // What is wrong with it, its connections learn from its standing.
            Some(view) => drop(self.remember_key(&view, asked_at)),
            None => self.known().forget_key(id, Ended::Revoked),
        }
        Ok(())
    }

    /// Keys that were used since this was last asked.
    pub fn take_uses(&self) -> Vec<i64> {
        self.known().used.drain().collect()
    }

    fn known(&self) -> MutexGuard<'_, CachedCredential> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CachedCredential {
    fn forget_key(&mut self, id: i64, why: Ended) {
        if let Some(entry) = self.keys.remove(&id) {
            if entry.identity.is_in_use() {
                super::audit::ended(&entry.identity, why.reason());
            }
            entry.identity.validity().end(why);
        }
    }

    fn note_use(&mut self, id: i64) {
        self.used.insert(id);
    }
}

impl Entry {
    /// Whether it can be believed without asking again.
    fn is_fresh(&self, now: Instant, remember: Duration) -> bool {
        self.checked.is_some_and(|at| now.saturating_duration_since(at) < remember)
            && self.holds(now)
    }

    /// Whether it has neither been ended nor run out.
    fn holds(&self, now: Instant) -> bool {
        let validity = self.identity.validity();
        validity.ended().is_none() && !validity.is_due(now)
    }

    /// Ends it if its time has run out.
    fn expire(&self, now: Instant) -> bool {
        let due = self.identity.validity().is_due(now);
        if due {
            if self.identity.is_in_use() {
                super::audit::ended(&self.identity, Ended::Expired.reason());
            }
            self.identity.validity().end(Ended::Expired);
        }
        due
    }
}

/// An end user, as a token or a ticket describes them.
pub fn user(claims: &Claims, scopes: &str, names: &TableNames) -> Result<Identity, Problem> {
    let allowed = Scopes::parse(scopes, claims, names).map_err(|error| {
        tracing::debug!(error, "a token's scopes are not understood");
        unauthorized("the token's scopes are not understood")
    })?;
    let left_ms = claims.expires_at_ms.saturating_sub(tidewire_wire::clock::now_ms());
    let left = Duration::from_millis(u64::try_from(left_ms).unwrap_or(0));
    let ends_at = Instant::now().checked_add(left);
    Ok(Identity::of_user(claims.clone(), scopes.to_owned(), allowed, ends_at))
}

impl Holder for Claims {
    fn own(&self, name: &str) -> Option<String> {
        if name == "user_id" {
            return Some(self.user.clone());
        }
        match self.all.get(name)? {
            serde_json::Value::String(text) => Some(text.clone()),
            serde_json::Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    fn host(&self) -> Option<String> {
        self.host.clone()
    }
}

/// Why a key that is known is not good.
fn refused(view: &KeyView) -> Option<Ended> {
    if !view.is_active {
        Some(Ended::Revoked)
    } else if !view.is_valid() {
        Some(Ended::Expired)
    } else {
        None
    }
}

/// When a key expires, by this node's steady clock: the store says how long it still has.
fn ends_at(view: &KeyView, now: Instant) -> Option<Instant> {
    let left_ms = u64::try_from(view.expires_in_ms?).unwrap_or(0);
    now.checked_add(Duration::from_millis(left_ms))
}

fn not_verified(refusal: Refusal) -> Problem {
    match refusal {
        Refusal::Expired => ended(Ended::Expired),
        other if other.is_temporary() => Problem::new(
            axum::http::StatusCode::SERVICE_UNAVAILABLE,
            "token_keys_unavailable",
            "the keys that tokens are verified with could not be loaded",
            "try again in a moment; the server's log says why",
        )
        .retry_after_s(2),
        other => unauthorized(other.to_string()).with_member("reason", other.code()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_store::{NewKey, memory::MemoryStore};

    /// What the store said before a key was revoked arrives after that was heard.
    #[tokio::test]
    async fn old_news_of_a_key_is_not_believed() {
        let store: SharedStore = MemoryStore::fresh();
        let options = Options::new(Access::Guarded { admin_key: None });
        let credentials =
            Credentials::new(&options, &store, &TableNames::none()).expect("usable options");
        let key::NewApiKey { key, hash } = key::generate().expect("randomness");
        let scopes = r#"{"tables": []}"#.to_owned();
        let new = NewKey { name: "k".to_owned(), hash, scopes, expires_in_ms: None };
        let view = store.create_key(new).await.expect("a key");

        let asked_at = credentials.known().doubts;
        store.revoke_key(view.id).await.expect("revoked");
        credentials.changed(view.id);
        let identity = credentials.remember_key(&view, asked_at).expect("as good as it was then");

        assert_eq!(credentials.tidy(Instant::now()), [view.id], "it is looked at again");
        credentials.look_again(view.id).await.expect("an answer");
        assert_eq!(identity.validity().ended(), Some(Ended::Revoked));
        let refused = credentials.authenticate(&key).await.expect_err("revoked");
        assert_eq!(refused.code(), "key_revoked");
        store.close().await;
    }
}
