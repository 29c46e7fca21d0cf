//! Who asks in these tests, and how that is said to a database that has never heard of it.

use serde_json::{Value as Json, json};
use tidewire_query::Caller;

/// A caller with a user and a claim, and no tenant.
pub(crate) struct Who;

const USER: &str = "ab";
const ROLE: &str = "2";

impl Caller for Who {
    fn user_id(&self) -> Option<&str> {
        Some(USER)
    }

    fn host_id(&self) -> Option<&str> {
        None
    }

    fn claim(&self, name: &str) -> Option<Json> {
        (name == "role").then(|| json!(2))
    }
}

/// The ways to name an identity, and what a database must be given in their place.
pub(crate) const IDENTITIES: [(&str, &str); 4] = [
    ("auth.user_id()", "'ab'"),
    ("CURRENT_USER()", "'ab'"),
    ("auth.host_id()", "NULL"),
    ("auth.claim('role')", "'2'"),
];

/// A condition as the database gets it.
pub(crate) fn for_database(condition: &str) -> String {
    let put = |text: String, (call, value): &(&str, &str)| text.replace(call, value);
    IDENTITIES.iter().fold(condition.to_owned(), put)
}

#[test]
fn the_database_is_told_who_asks() {
    assert_eq!(for_database("a = CURRENT_USER()"), format!("a = '{USER}'"));
    assert_eq!(for_database("auth.claim('role') = '2'"), format!("'{ROLE}' = '2'"));
}
