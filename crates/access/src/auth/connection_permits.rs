//! How many live connections one identity has: a stolen key, or a page that reconnects in a loop,
//! must not take the places of everyone else.

use axum::http::StatusCode;

use super::identity::{Identity, Who};
use crate::AccessControl;
use crate::problem::Problem;
use tidewire_wire::keyed_permits::KeyedPermit;

/// A live connection's place, given back when dropped.
pub type ConnectionPermit = KeyedPermit<Who>;

impl AccessControl {
    /// A place for another live connection. Those who are nobody in particular are not counted.
    pub fn place(&self, identity: &Identity) -> Result<Option<ConnectionPermit>, Problem> {
        let connections_max = self.options.live.connections_per_identity_max;
        match identity.who() {
            Who::Anyone => Ok(None),
            who => match self.places.take(who.clone(), connections_max) {
                Some(place) => Ok(Some(place)),
                None => Err(too_many(connections_max)),
            },
        }
    }
}

fn too_many(connections_max: usize) -> Problem {
    Problem::new(
        StatusCode::TOO_MANY_REQUESTS,
        "too_many_connections",
        format!(
            "the credential has {connections_max} live connections to this server, and may have no \
             more (live.connections_per_identity_max)"
        ),
        "end some, follow several streams over one, or give each of its users a token of their own",
    )
    .retry_after_s(5)
}
