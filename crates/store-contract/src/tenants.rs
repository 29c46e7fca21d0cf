//! Tenants: whose a stream is, and that others do not get at it.

use super::Opener;
use super::test_store::{EVERYTHING, TestStore, refusal};
use tidewire_store::command::{Actor, Answer, Append, Create, Reach, Refusal};
use tidewire_store::log::Found;
use tidewire_store::offset::Position;
use tidewire_store::testing::commands::{
    LONG_AGO, append, close, create, create_json, delete_by, fork, stamped, tenant,
};

fn by(actor: &Actor, append: Append) -> Append {
    Append { actor: actor.clone(), ..append }
}

fn made_by(actor: &Actor, create: Create) -> Create {
    Create { actor: actor.clone(), ..create }
}

/// A stream is its maker's tenant's, and that tenant uses it as anyone would.
pub async fn a_tenant_uses_its_own_streams(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let a = tenant("a", false);
    store.create(made_by(&a, create("doc"))).await;
    assert_eq!(store.view("doc").await.state.host_id.as_deref(), Some("a"));
    let again = store.creates(made_by(&a, create("doc"))).await;
    assert!(matches!(again, Answer::Created { new: false, .. }), "{again:?}");
    store.append(by(&a, append("doc", "1"))).await;
    store.append(by(&a, stamped("doc", "2", "p", 0, 0))).await;
    store.append(by(&a, close("doc"))).await;
    let state = store.view("doc").await.state;
    assert!(state.closed.is_some() && state.host_id.as_deref() == Some("a"), "{state:?}");
    assert_eq!(store.texts("doc").await, ["1", "2"]);
    assert_eq!(store.ask(delete_by(a, "doc")).await, Answer::Done);
    assert!(!store.is_found("doc").await);
}

/// To other tenants a stream is not there, whatever its state; and nothing happens to it.
pub async fn a_stream_out_of_reach_is_not_there(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let (a, b) = (tenant("a", true), tenant("b", true));
    for name in ["open", "closed", "hidden"] {
        store.create(made_by(&a, create(name))).await;
        store.append(by(&a, stamped(name, "x", "p", 3, 0))).await;
    }
    store.append(by(&a, close("closed"))).await;
    store.create(made_by(&a, fork("hidden", "fork"))).await;
    assert_eq!(store.ask(delete_by(a.clone(), "hidden")).await, Answer::Done);
    // Whoever reads it decides by this to whom it is gone, and to whom it never was.
    let hidden = store.find("hidden", Position::START, EVERYTHING).await;
    assert!(
        matches!(&hidden, Found::Gone { host_id } if host_id.as_deref() == Some("a")),
        "{hidden:?}"
    );
    let (before, tip) = (store.view("open").await.state, store.log_tip().await);
    for name in ["open", "closed", "hidden", "missing"] {
        for attempt in [
            append(name, "y"),
            stamped(name, "x", "p", 3, 0),
            stamped(name, "y", "p", 2, 0),
            close(name),
            Append { content_type: Some("image/png".to_owned()), ..append(name, "y") },
        ] {
            let about = format!("{attempt:?}");
            let answer = store.appends(by(&b, attempt)).await;
            assert_eq!(refusal(answer), Refusal::NotFound, "{about}");
        }
        assert_eq!(refusal(store.ask(delete_by(b.clone(), name)).await), Refusal::NotFound);
        let forked = store.creates(made_by(&b, fork(name, "mine"))).await;
        assert_eq!(refusal(forked), Refusal::SourceNotFound, "{name}");
    }
    assert_eq!(store.log_tip().await, tip, "nothing was written");
    assert_eq!(store.view("open").await.state, before);
    let found = store.find("hidden", Position::START, EVERYTHING).await;
    let of_a = matches!(&found, Found::Gone { host_id } if host_id.as_deref() == Some("a"));
    assert!(of_a, "whose a hidden stream was: {found:?}");
    store.append(by(&a, stamped("open", "y", "p", 3, 1))).await;
    assert_eq!(store.texts("open").await, ["x", "y"]);
}

/// A name that another tenant has is taken, and no more is told about it.
pub async fn a_name_out_of_reach_is_taken(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let (a, b) = (tenant("a", false), tenant("b", false));
    store.create(made_by(&a, create("doc"))).await;
    store.create(made_by(&a, create("hidden"))).await;
    store.create(made_by(&a, fork("hidden", "fork"))).await;
    store.ask(delete_by(a.clone(), "hidden")).await;
    let closed = Create { closed: true, ..create("doc") };
    for attempt in [create("doc"), create_json("doc"), closed, create("hidden"), fork("doc", "doc")]
    {
        let about = format!("{attempt:?}");
        let answer = store.creates(made_by(&b, attempt)).await;
        assert_eq!(refusal(answer), Refusal::NameTaken, "{about}");
    }
    let held = store.creates(made_by(&a, create("hidden"))).await;
    assert_eq!(refusal(held), Refusal::NameHeldByForks, "its tenant is told why");
    assert_eq!(store.ask(delete_by(a, "doc")).await, Answer::Done);
    store.create(made_by(&b, create("doc"))).await;
    assert_eq!(store.view("doc").await.state.host_id.as_deref(), Some("b"));
}

/// A name whose stream's time has run out is free for another tenant.
pub async fn an_expired_name_goes_to_the_next_tenant(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let (a, b) = (tenant("a", false), tenant("b", false));
    store.create(made_by(&a, Create { lifetime: Some(LONG_AGO), ..create("doc") })).await;
    store.create(made_by(&b, create("doc"))).await;
    let answer = store.appends(by(&a, append("doc", "x"))).await;
    assert_eq!(refusal(answer), Refusal::NotFound);
    store.append(by(&b, append("doc", "x"))).await;
}

/// Streams of no tenant are for those who may use what is shared; those without bounds use all.
pub async fn shared_streams_are_of_no_tenant(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    store.create_text("shared").await;
    assert_eq!(store.view("shared").await.state.host_id, None);
    store.append(by(&tenant("a", true), append("shared", "1"))).await;
    let answer = store.appends(by(&tenant("a", false), append("shared", "2"))).await;
    assert_eq!(refusal(answer), Refusal::NotFound);
    let answer = store.creates(made_by(&tenant("a", false), create("shared"))).await;
    assert_eq!(refusal(answer), Refusal::NameTaken);
    store.create(made_by(&tenant("a", false), create("of-a"))).await;
    let several = Actor {
        reach: Reach::Of { hosts: ["b", "a"].map(str::to_owned).into(), shared: false },
        ..Actor::default()
    };
    store.append(by(&several, append("of-a", "1"))).await;
    store.append_text("of-a", "2").await;
    assert_eq!(store.texts("of-a").await, ["1", "2"]);
    store.delete("of-a").await;
}

/// A fork is its maker's, not its source's; each goes on by itself.
pub async fn a_fork_belongs_to_its_maker(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let (a, b) = (tenant("a", true), tenant("b", true));
    store.create_text("template").await;
    store.append_text("template", "1").await;
    store.create(made_by(&a, fork("template", "copy-of-a"))).await;
    store.create(made_by(&b, fork("template", "copy-of-b"))).await;
    store.append(by(&a, append("copy-of-a", "2"))).await;
    let answer = store.appends(by(&b, append("copy-of-a", "3"))).await;
    assert_eq!(refusal(answer), Refusal::NotFound);
    assert_eq!(store.view("copy-of-b").await.state.host_id.as_deref(), Some("b"));
    store.delete("template").await;
    assert_eq!(store.texts("copy-of-a").await, ["1", "2"], "a fork outlives its source");
    assert_eq!(store.ask(delete_by(a, "copy-of-a")).await, Answer::Done);
    assert_eq!(store.ask(delete_by(b, "copy-of-b")).await, Answer::Done);
    assert_eq!(store.names("", "", 10).await.expect("listed"), Vec::<String>::new());
}

/// Whose a stream is survives everything that happens to its row, and a restart.
pub async fn tenants_survive_a_restart(data: &dyn Opener) {
    let store = TestStore::open(data).await;
    let (a, b) = (tenant("a", false), tenant("b", false));
    store.create(made_by(&a, create("doc"))).await;
    store.append(by(&a, Append { seq: Some("1".to_owned()), ..append("doc", "1") })).await;
    store.create(made_by(&a, fork("doc", "fork"))).await;
    store.create_text("shared").await;
    let before = store.view("doc").await.state;
    assert_eq!((before.host_id.as_deref(), before.forks), (Some("a"), 1));

    let store = store.reopen(data).await;
    assert_eq!(store.view("doc").await.state, before);
    assert_eq!(store.view("fork").await.state.host_id.as_deref(), Some("a"));
    assert_eq!(store.view("shared").await.state.host_id, None);
    let answer = store.appends(by(&b, append("doc", "2"))).await;
    assert_eq!(refusal(answer), Refusal::NotFound, "also before the row is in memory");
    store.append(by(&a, append("doc", "2"))).await;
    let column = "SELECT host_id FROM tidewire.streams ORDER BY stream_id";
    assert_eq!(data.run_sql(column).await, ["a", "a", ""]);
}
