//! Tickets: tokens for one use within a minute, for those who can set no header. A browser's
//! `EventSource` has nothing but a URL, and URLs are written into logs: what stands there must be of
//! no use to whoever reads it later.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use super::credentials::{self, Authenticated};
use super::identity::{Identity, Who};
use super::jwt::Claims;
use super::scopes::Scopes;
use super::{digest, hex, unauthorized};
use crate::AccessControl;
use crate::options::Access;
use crate::problem::Problem;
use crate::secret;

const PREFIX: &str = "twt_";
const TICKET_BYTES: usize = 32;

/// Whom a ticket lets in, as it is stored. The ticket itself is stored as its hash only.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "who", rename_all = "lowercase")]
pub enum Holder {
    Admin,
    Key { id: i64 },
    User { claims: Claims, scopes: String },
}

/// Makes a ticket for someone, and says how long it can be used.
pub async fn issue(
    access: &AccessControl,
    identity: &Identity,
) -> Result<(String, Duration), Problem> {
    let holder = match identity.who() {
        Who::Anyone | Who::Admin => Holder::Admin,
        Who::Key(id) => Holder::Key { id: *id },
        Who::User { .. } => {
            let Some((claims, scopes)) = identity.claims() else {
                return Err(unauthorized("the token is not valid"));
            };
            Holder::User { claims: claims.clone(), scopes: scopes.to_owned() }
        }
    };
    let random = secret::random::<TICKET_BYTES>().ok_or_else(|| {
        Problem::from(tidewire_store::StoreError::Unavailable("no randomness".to_owned()))
    })?;
    let ticket = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random));
    let holder = serde_json::to_string(&holder).map_err(|error| {
        tracing::error!(%error, "could not write a ticket");
        unauthorized("no ticket can be made for this token")
    })?;
    let ttl = access.options.auth.ticket_ttl;
    let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
    access.store.put_ticket(&hex(&digest(ticket.as_bytes())), &holder, ttl_ms).await?;
    Ok((ticket, ttl))
}

/// Who comes in with a ticket, which is of no use any more after this.
pub async fn redeem(access: &AccessControl, ticket: &str) -> Result<Authenticated, Problem> {
    let spent = || unauthorized("the ticket is not valid, or was used before");
    if !ticket.starts_with(PREFIX) || ticket.len() > 2 * TICKET_BYTES {
        return Err(spent());
    }
    let hash = digest(ticket.as_bytes());
    let holder = access.store.take_ticket(&hex(&hash)).await?.ok_or_else(spent)?;
    let holder: Holder = serde_json::from_str(&holder).map_err(|_| spent())?;
    let identity = match holder {
        Holder::Admin => match access.options.access {
            Access::OpenOnLoopback => access.anyone.clone(),
            Access::Guarded { .. } => Identity::new(Who::Admin, Scopes::unlimited(), None),
        },
        Holder::Key { id } => access.credentials.holder_of_key(id).await?,
        Holder::User { claims, scopes } => {
            let identity = credentials::user(&claims, &scopes, &access.names)?;
            if identity.validity().is_due(std::time::Instant::now()) {
                return Err(super::ended(super::Ended::Expired));
            }
            access.credentials.remember_user(hash, identity, scopes)
        }
    };
    Ok(Authenticated { identity, first: Some("ticket") })
}
