//! Session ids that were not made here, or not for whoever presents them. Only the very same id is
//! accepted, from its owner alone, and nothing panics.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;
use serde_json::json;

use super::PREFIX;
use crate::testing::Bench;
use tidewire_access::auth::names::TableNames;
use tidewire_access::auth::scopes::Scopes;
use tidewire_access::auth::{Identity, Who};
use tidewire_fixtures::mutations::{changed, changed_text, changes};

const CASES: u32 = 2_000;

fn of_tenant(who: Who, host: Option<&str>) -> Identity {
    let scopes = json!({ "tables": [], "host": host }).to_string();
    Identity::new(who, Scopes::parse(&scopes, &(), &TableNames::none()).expect("well formed"), None)
}

/// Everyone there is. Names and tenants are such that they could be taken for each other's.
fn someone() -> impl Strategy<Value = Identity> {
    let name = "(user:|key:)?[a1 ]{0,2}|admin|anonymous|key:1";
    let who = prop_oneof![
        Just(Who::Anyone),
        Just(Who::Admin),
        (0i64..3).prop_map(Who::Key),
        name.prop_map(|name| Who::User { name: name.as_str().into(), host: None }),
    ];
    let host = prop::option::of("[a1 ]{0,2}");
    (who, host).prop_map(|(who, host)| of_tenant(who, host.as_deref()))
}

#[test]
fn a_changed_id_is_no_session() {
    let bench = Bench::start();
    let sessions = &bench.node().sessions;
    let owner = of_tenant(Who::User { name: "ada".into(), host: None }, Some("acme"));
    let id = sessions.mint(&owner).expect("randomness");
    assert!(sessions.verify(&id, &owner).is_ok());
    let bytes = URL_SAFE_NO_PAD.decode(&id[PREFIX.len()..]).expect("base64");
    proptest!(ProptestConfig::with_cases(CASES), |(changes in changes())| {
        let text = changed_text(&id, &changes);
        let content = URL_SAFE_NO_PAD.encode(changed(bytes.clone(), &changes));
        for other in [text, format!("{PREFIX}{content}")] {
            prop_assert_eq!(sessions.verify(&other, &owner).is_ok(), other == id);
        }
    });
}

#[test]
fn no_character_of_an_id_can_be_another() {
    let bench = Bench::start();
    let sessions = &bench.node().sessions;
    let owner = of_tenant(Who::Admin, None);
    let id = sessions.mint(&owner).expect("randomness");
    for at in 0..id.len() {
        for other in (0..128).map(char::from) {
            let mut changed = id.clone();
            changed.replace_range(at..=at, &other.to_string());
            assert_eq!(sessions.verify(&changed, &owner).is_ok(), changed == id, "{changed}");
        }
    }
}

#[test]
fn an_id_is_of_use_to_its_owner_alone() {
    let bench = Bench::start();
    let sessions = &bench.node().sessions;
    proptest!(ProptestConfig::with_cases(CASES), |(owner in someone(), other in someone())| {
        let id = sessions.mint(&owner).expect("randomness");
        prop_assert!(sessions.verify(&id, &owner).is_ok());
        let same = (owner.owner().user_id, owner.owner().host_id.unwrap_or_default())
            == (other.owner().user_id, other.owner().host_id.unwrap_or_default());
        prop_assert_eq!(sessions.verify(&id, &other).is_ok(), same);
    });
}

#[test]
fn an_id_of_another_store_is_no_session() {
    let (here, elsewhere) = (Bench::start(), Bench::start());
    let owner = of_tenant(Who::Admin, None);
    let id = elsewhere.node().sessions.mint(&owner).expect("randomness");
    assert!(here.node().sessions.verify(&id, &owner).is_err());
}

#[test]
fn no_text_is_a_session() {
    let bench = Bench::start();
    let sessions = &bench.node().sessions;
    let text = prop_oneof![".{0,100}", "tws_[A-Za-z0-9_-]{0,60}", "tws_[A-Za-z0-9_-]{43}"];
    proptest!(ProptestConfig::with_cases(CASES), |(text in text, who in someone())| {
        prop_assert!(sessions.verify(&text, &who).is_err());
    });
}
