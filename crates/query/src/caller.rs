//! Who asks: what `auth.user_id()`, `auth.host_id()` and `auth.claim('…')` stand for.

use serde_json::Value;

/// The identity that a predicate is bound to when it is parsed. It is a constant from then on.
pub trait Caller {
    /// The user.
    fn user_id(&self) -> Option<&str>;
    /// The tenant.
    fn host_id(&self) -> Option<&str>;
    /// A claim of the user's token.
    fn claim(&self, name: &str) -> Option<Value>;
}

/// Nobody: everything is NULL.
impl Caller for () {
    fn user_id(&self) -> Option<&str> {
        None
    }

    fn host_id(&self) -> Option<&str> {
        None
    }

    fn claim(&self, _name: &str) -> Option<Value> {
        None
    }
}
