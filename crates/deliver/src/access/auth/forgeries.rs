//! Keys and tickets with any change. Nothing but the very same text lets someone in, a wrong one spoils
//! nothing for the right one, and nothing panics. (Tokens of users: `jwt::tests`.)

use proptest::prelude::*;
use serde_json::json;

use tidewire_store::NewKey;

use super::key::{self, Fresh};
use super::names::TableNames;
use super::scopes::Scopes;
use super::{Identity, Who, credentials, jwt, ticket};
use crate::testing::{ADMIN_KEY, Bench, changed_text, changes};

const CASES: u32 = 1_000;

impl Bench {
    /// Makes a key, and returns its number too.
    fn key(&self) -> (i64, String) {
        let Fresh { key, hash } = key::generate().expect("randomness");
        let (name, scopes) = ("a key".to_owned(), r#"{"tables": ["*"]}"#.to_owned());
        let new = NewKey { name, hash, scopes, expires_in_ms: None };
        (self.wait(self.node().access.store.create_key(new)).expect("a key").id, key)
    }

    fn who_has(&self, token: &str) -> Option<Who> {
        let found = self.wait(self.node().access.credentials.authenticate(token));
        found.ok().map(|found| found.identity.who().clone())
    }

    fn ticket_of(&self, identity: &Identity) -> String {
        self.wait(ticket::issue(&self.node().access, identity)).expect("a ticket").0
    }

    fn who_comes_with(&self, ticket: &str) -> Option<Who> {
        let found = self.wait(ticket::redeem(&self.node().access, ticket));
        found.ok().map(|found| found.identity.who().clone())
    }
}

fn user() -> Identity {
    let all = json!({ "sub": "ada" }).as_object().expect("an object").clone();
    let expires_at_ms = crate::wire::clock::now_ms() + 3_600_000;
    let claims =
        jwt::Claims { user: "ada".to_owned(), host: None, scopes: None, expires_at_ms, all };
    let scopes = r#"{"streams": ["user/{user_id}/**"]}"#;
    credentials::user(&claims, scopes, &TableNames::none()).expect("a user")
}

#[test]
fn a_changed_key_is_no_key() {
    let bench = Bench::start();
    let (id, key) = bench.key();
    for (right, who) in [(key.as_str(), Who::Key(id)), (ADMIN_KEY, Who::Admin)] {
        proptest!(ProptestConfig::with_cases(CASES), |(changes in changes())| {
            let changed = changed_text(right, &changes);
            let expected = (changed == right).then(|| who.clone());
            prop_assert_eq!(bench.who_has(&changed), expected);
        });
        assert_eq!(bench.who_has(right), Some(who));
    }
}

#[test]
fn no_text_is_a_key() {
    let bench = Bench::start();
    bench.key();
    let text = prop_oneof![".{0,100}", "twt?_[A-Za-z0-9_-]{43}", "[0-9a-f]{64}"];
    proptest!(ProptestConfig::with_cases(CASES), |(text in text)| {
        prop_assert_eq!(bench.who_has(&text), None);
    });
}

/// What the store has in a key's place opens nothing.
#[test]
fn the_hash_of_a_key_or_ticket_is_neither() {
    let bench = Bench::start();
    let (id, key) = bench.key();
    let holder = Identity::new(Who::Key(id), Scopes::none(), None);
    let ticket = bench.ticket_of(&holder);
    for secret in [&key, &ticket] {
        let hash = key::hash_of(secret);
        assert_eq!(bench.who_has(&hash), None);
        assert_eq!(bench.who_comes_with(&hash), None);
        assert_eq!(bench.who_comes_with(&format!("twt_{hash}")), None);
    }
    assert_eq!(bench.who_has(&ticket), None, "a ticket is no key");
    assert_eq!(bench.who_comes_with(&key), None, "a key is no ticket");
}

#[test]
fn a_changed_ticket_lets_nobody_in_and_the_right_one_does_once() {
    let bench = Bench::start();
    let (id, _) = bench.key();
    for holder in [
        Identity::new(Who::Admin, Scopes::unlimited(), None),
        Identity::new(Who::Key(id), Scopes::none(), None),
        user(),
    ] {
        let ticket = bench.ticket_of(&holder);
        proptest!(ProptestConfig::with_cases(CASES), |(changes in changes())| {
            let changed = changed_text(&ticket, &changes);
            prop_assume!(changed != ticket);
            prop_assert_eq!(bench.who_comes_with(&changed), None);
        });
        assert_eq!(bench.who_comes_with(&ticket).as_ref(), Some(holder.who()));
        assert_eq!(bench.who_comes_with(&ticket), None, "a second time");
    }
}
