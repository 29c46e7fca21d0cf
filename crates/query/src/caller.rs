//! Who asks: what `auth.user_id()`, `auth.host_id()` and `auth.claim('…')` stand for.

use serde_json::Value;

use crate::table::Dialect;

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

/// One of the values of a claim that is a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Element {
    Null,
    /// SQLite: compared as the number that it is also with what has no affinity.
    Number(String),
    /// Of the type of what it is compared with.
    Text(String),
}

/// A claim where a list is wanted. One that is no list is the list of itself alone, as `aud` of tokens may be
/// either. Of a claim that is not there it is unknown what is in it.
pub(crate) fn elements(claim: Option<Value>, dialect: Dialect) -> Option<Vec<Element>> {
    let element = |value: Value| match value {
        Value::Null => Element::Null,
        Value::String(text) => Element::Text(text),
        Value::Number(number) if dialect == Dialect::Sqlite => Element::Number(number.to_string()),
        other => Element::Text(other.to_string()),
    };
    match claim {
        None | Some(Value::Null) => None,
        Some(Value::Array(values)) => Some(values.into_iter().map(element).collect()),
        Some(other) => Some(vec![element(other)]),
    }
}
