//! Who a request comes from, and what follows from that alone.

use std::sync::Arc;
use std::time::Instant;

use axum::http::{HeaderMap, HeaderValue, header};

use tidewire_store::{Actor, Owner, Reach};

use super::jwt::Claims;
use super::scopes::Scopes;
use super::validity::CredentialValidity;
use crate::budget::Account;
use crate::stream_name::is_of_entities;

/// Who a request comes from. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Identity(Arc<IdentityData>);

#[derive(Debug)]
struct IdentityData {
    who: Who,
    scopes: Scopes,
    validity: CredentialValidity,
    /// What all who came in with it hold of the node's budget.
    account: Arc<Account>,
    /// Of an end user: what the token says, and the scopes as they are written.
    claims: Option<(Claims, String)>,
}

/// The kinds of callers there are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Who {
    /// Someone on this machine, in `dev`; or someone at a public route.
    Anyone,
    /// The holder of the bootstrap key.
    Admin,
    /// The holder of an API key.
    Key(i64),
    /// An end user, as a token names them, of a tenant: two tenants may both have an Ann.
    User { name: Box<str>, host: Option<Box<str>> },
}

impl Who {
    /// On whose account the store works for them: no two have the same.
    pub fn account(&self) -> Arc<str> {
        match self {
            Who::Anyone => "anyone".into(),
            Who::Admin => "admin".into(),
            Who::Key(id) => format!("key {id}").into(),
            Who::User { name, host } => format!("user {name:?} of {host:?}").into(),
        }
    }
}

impl Identity {
    pub fn new(who: Who, scopes: Scopes, ends_at: Option<Instant>) -> Identity {
        let validity = CredentialValidity::until(ends_at);
        let account = Arc::default();
        Identity(Arc::new(IdentityData { who, scopes, validity, account, claims: None }))
    }

    /// An end user, with what their token says.
    pub(crate) fn of_user(
        claims: Claims,
        written: String,
        scopes: Scopes,
        ends_at: Option<Instant>,
    ) -> Identity {
        let (name, host) = (claims.user.as_str().into(), scopes.host().map(Into::into));
        let (who, validity) = (Who::User { name, host }, CredentialValidity::until(ends_at));
        let (account, claims) = (Arc::default(), Some((claims, written)));
        Identity(Arc::new(IdentityData { who, scopes, validity, account, claims }))
    }

    /// What an end user's token says, and its scopes as they are written.
    pub fn claims(&self) -> Option<(&Claims, &str)> {
        self.0.claims.as_ref().map(|(claims, scopes)| (claims, scopes.as_str()))
    }

    /// Whether it is an end user, whom a token names.
    pub fn is_end_user(&self) -> bool {
        matches!(self.0.who, Who::User { .. })
    }

    /// Anyone on this machine, who may do everything: `dev`.
    pub fn of_this_machine() -> Identity {
        Identity::new(Who::Anyone, Scopes::unlimited(), None)
    }

    /// Someone of whom nothing is known, and to whom nothing is allowed.
    pub fn stranger() -> Identity {
        Identity::new(Who::Anyone, Scopes::none(), None)
    }

    /// Whether anyone but the caller keeps it: someone who is connected, or a request under way.
    pub(crate) fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    pub fn who(&self) -> &Who {
        &self.0.who
    }

    pub fn scopes(&self) -> &Scopes {
        &self.0.scopes
    }

    pub fn validity(&self) -> &CredentialValidity {
        &self.0.validity
    }

    pub fn account(&self) -> &Arc<Account> {
        &self.0.account
    }

    /// The actor written into the log, and whose streams it can reach.
    pub fn actor(&self) -> Actor {
        let user_id = match &self.0.who {
            Who::User { name, .. } => Some(name.to_string()),
            Who::Anyone | Who::Admin | Who::Key(_) => None,
        };
        Actor {
            host_id: self.0.scopes.host().map(ToOwned::to_owned),
            user_id,
            reach: self.reach(),
            account: Some(self.0.who.account()),
        }
    }

    /// Which tenants' streams it can use.
    pub fn reach(&self) -> Reach {
        self.0.scopes.reach().clone()
    }

    /// Which tenants' streams it can use, if a stream is one of them: one of entities has what all
    /// tenants are told, and is none for those who do not reach them all.
    pub fn reach_of(&self, stream: &str) -> Reach {
        match self.reach() {
            Reach::Of { .. } if is_of_entities(stream) => {
                Reach::Of { hosts: Arc::default(), shared: false }
            }
            reach => reach,
        }
    }

    /// Whose the sessions are that it opens. Names of keys cannot be confused with names of users:
    /// those begin with `user:`.
    pub fn owner(&self) -> Owner {
        let user_id = match &self.0.who {
            Who::Anyone => "anonymous".to_owned(),
            Who::Admin => "admin".to_owned(),
            Who::Key(id) => format!("key:{id}"),
            Who::User { name, .. } => format!("user:{name}"),
        };
        Owner { user_id, host_id: self.0.scopes.host().map(ToOwned::to_owned) }
    }

    /// As it is written in the audit log: never a secret.
    pub fn label(&self) -> String {
        self.owner().user_id
    }

    /// The tenant that its connections are placed by.
    pub fn tenant(&self) -> &str {
        self.0.scopes.host().unwrap_or_default()
    }

    fn is_anyone(&self) -> bool {
        self.0.who == Who::Anyone
    }

    /// Distinguishes what one identity may see from what another may, in an ETag.
    pub fn tag(&self) -> String {
        match &self.0.who {
            Who::Anyone => String::new(),
            Who::Admin => "-a".to_owned(),
            Who::Key(id) => format!("-k{id}"),
            // A hash, because a name may hold characters that an ETag may not.
            Who::User { name, .. } => {
                let digest = super::digest(format!("{}\0{name}", self.tenant()).as_bytes());
                let short = digest[..6].iter().map(|byte| format!("{byte:02x}"));
                format!("-u{}", short.collect::<String>())
            }
        }
    }

    /// Sets how an answer may be cached: by anyone, or by the asker alone.
    pub fn cache(&self, headers: &mut HeaderMap, freshness: &str) {
        let audience = if self.is_anyone() { "public" } else { "private" };
        if let Ok(value) = HeaderValue::from_str(&format!("{audience}, {freshness}")) {
            headers.insert(header::CACHE_CONTROL, value);
        }
        self.vary(headers);
    }

    /// Says that the answer depends on who asks.
    pub fn vary(&self, headers: &mut HeaderMap) {
        let depends = HeaderValue::from_static("authorization, cookie");
        let varies = headers.get_all(header::VARY).iter().any(|value| *value == depends);
        if !self.is_anyone() && !varies {
            headers.append(header::VARY, depends);
        }
    }
}
