//! Keys and tickets with any change. Nothing but the very same text lets someone in, a wrong one spoils
//! nothing for the right one, and nothing panics. (Tokens of users: `jwt::tests`.)

use proptest::prelude::*;
use serde_json::json;

use tidewire_store::NewKey;

use super::key::{self, NewApiKey};
use super::names::TableNames;
use super::scopes::Scopes;
use super::{Identity, Who, credentials, jwt, ticket};
use crate::AccessControl;
use crate::testing::{ADMIN_KEY, access_control};
use tidewire_fixtures::mutations::{changed_text, changes};
use tokio::runtime::Runtime;

const CASES: u32 = 1_000;

/// Access control to present credentials to.
struct Guard {
    access: AccessControl,
    runtime: Runtime,
}

impl Guard {
    fn start() -> Guard {
        Guard { access: access_control(), runtime: Runtime::new().expect("a runtime") }
    }

    fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Makes a key, and returns its number too.
    fn key(&self) -> (i64, String) {
        let NewApiKey { key, hash } = key::generate().expect("randomness");
        let (name, scopes) = ("a key".to_owned(), r#"{"tables": ["*"]}"#.to_owned());
        let new = NewKey { name, hash, scopes, expires_in_ms: None };
        (self.wait(self.access.store.create_key(new)).expect("a key").id, key)
    }

    fn who_has(&self, token: &str) -> Option<Who> {
        let found = self.wait(self.access.credentials.authenticate(token));
        found.ok().map(|found| found.identity.who().clone())
    }

    fn ticket_of(&self, identity: &Identity) -> String {
        self.wait(ticket::issue(&self.access, identity)).expect("a ticket").0
    }

    fn who_comes_with(&self, ticket: &str) -> Option<Who> {
        let found = self.wait(ticket::redeem(&self.access, ticket));
        found.ok().map(|found| found.identity.who().clone())
    }
}

fn user() -> Identity {
    let all = json!({ "sub": "ada" }).as_object().expect("an object").clone();
    let expires_at_ms = tidewire_wire::clock::now_ms() + 3_600_000;
    let claims =
        jwt::Claims { user: "ada".to_owned(), host: None, scopes: None, expires_at_ms, all };
    let scopes = r#"{"streams": ["user/{user_id}/**"]}"#;
    credentials::user(&claims, scopes, &TableNames::none()).expect("a user")
}

#[test]
fn a_changed_key_is_no_key() {
    let guard = Guard::start();
    let (id, key) = guard.key();
    for (right, who) in [(key.as_str(), Who::Key(id)), (ADMIN_KEY, Who::Admin)] {
        proptest!(ProptestConfig::with_cases(CASES), |(changes in changes())| {
            let changed = changed_text(right, &changes);
            let expected = (changed == right).then(|| who.clone());
            prop_assert_eq!(guard.who_has(&changed), expected);
        });
        assert_eq!(guard.who_has(right), Some(who));
    }
}

#[test]
fn no_text_is_a_key() {
    let guard = Guard::start();
    guard.key();
    let text = prop_oneof![".{0,100}", "twt?_[A-Za-z0-9_-]{43}", "[0-9a-f]{64}"];
    proptest!(ProptestConfig::with_cases(CASES), |(text in text)| {
        prop_assert_eq!(guard.who_has(&text), None);
    });
}

/// What the store has in a key's place opens nothing.
#[test]
fn the_hash_of_a_key_or_ticket_is_neither() {
    let guard = Guard::start();
    let (id, key) = guard.key();
    let holder = Identity::new(Who::Key(id), Scopes::none(), None);
    let ticket = guard.ticket_of(&holder);
    for secret in [&key, &ticket] {
        let hash = key::hash_of(secret);
        assert_eq!(guard.who_has(&hash), None);
        assert_eq!(guard.who_comes_with(&hash), None);
        assert_eq!(guard.who_comes_with(&format!("twt_{hash}")), None);
    }
    assert_eq!(guard.who_has(&ticket), None, "a ticket is no key");
    assert_eq!(guard.who_comes_with(&key), None, "a key is no ticket");
}

#[test]
fn a_changed_ticket_lets_nobody_in_and_the_right_one_does_once() {
    let guard = Guard::start();
    let (id, _) = guard.key();
    for holder in [
        Identity::new(Who::Admin, Scopes::unlimited(), None),
        Identity::new(Who::Key(id), Scopes::none(), None),
        user(),
    ] {
        let ticket = guard.ticket_of(&holder);
        proptest!(ProptestConfig::with_cases(CASES), |(changes in changes())| {
            let changed = changed_text(&ticket, &changes);
            prop_assume!(changed != ticket);
            prop_assert_eq!(guard.who_comes_with(&changed), None);
        });
        assert_eq!(guard.who_comes_with(&ticket).as_ref(), Some(holder.who()));
        assert_eq!(guard.who_comes_with(&ticket), None, "a second time");
    }
}
