//! Authentication and authorization: who someone is, and what they may do.
//!
//! - [`identity`]: who a request comes from; [`scopes`]: what that allows, with [`pattern`]s over names
//! - [`names`]: which table a name means
//! - [`permit`]: the one place that every route and every subscription passes
//! - [`credentials`]: keys, tokens and tickets, looked up once and remembered; [`validity`]: whether
//!   they are still valid, for connections that last
//! - [`key`]: what an API key looks like; [`jwt`]: end users' tokens; [`ticket`]: tokens for one use
//! - [`rates`], [`rate_limiters`]: how often someone may ask; [`connection_permits`]: how many connections they may have
//! - [`audit`]: what is written down about all this

pub mod audit;
pub mod connection_permits;
pub mod credentials;
#[cfg(test)]
mod forgeries;
pub mod identity;
pub mod jwt;
pub mod key;
pub mod names;
pub mod pattern;
pub mod permit;
pub mod rate_limiters;
pub mod rates;
pub mod scopes;
pub mod ticket;
pub mod validity;

use aws_lc_rs::digest::{SHA256, digest as hash};
use axum::http::StatusCode;

pub use credentials::Credentials;
pub use identity::{Identity, Who};
pub use permit::Act;
pub use scopes::Ability;
pub use validity::Ended;

use crate::problem::Problem;

/// SHA-256.
pub fn digest(bytes: &[u8]) -> [u8; 32] {
    let mut digest = [0; 32];
    digest.copy_from_slice(hash(&SHA256, bytes).as_ref());
    digest
}

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The answer to one who has not said who they are, or not so that it could be believed.
pub fn unauthorized(detail: impl Into<String>) -> Problem {
    Problem::new(
        StatusCode::UNAUTHORIZED,
        "unauthorized",
        detail,
        "send Authorization: Bearer with an API key, a token, or the key in TIDEWIRE_ADMIN_KEY",
    )
    .with_header("www-authenticate", "Bearer")
}

/// The answer to one whose credential held, and holds no longer.
pub fn ended(why: Ended) -> Problem {
    let (detail, hint) = match why {
        Ended::Revoked => ("the key was revoked", "use another key"),
        Ended::Expired => ("the key or token has expired", "get a new one"),
        Ended::Changed => ("what the key allows has changed", "come back with the same key"),
        Ended::Killed => ("an operator ended this", "come back later, with a new token if need be"),
    };
    Problem::new(StatusCode::UNAUTHORIZED, why.reason(), detail, hint)
        .with_header("www-authenticate", "Bearer")
}
