//! A worker whose role has the rights that its README lists, and no others: it is no superuser, and owns nothing.
//!
//! The list is run as it is printed there, but for the role's name: roles belong to the whole cluster, and so each
//! story has its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidewire_consumer::Start;
use tidewire_store::groups::{GroupChange, LetterSelection};
use tidewire_store::{PageLimit, Position};
use tidewire_stories::{Keeper, Ledger, Store, eventually};

const README: &str = include_str!("../../crates/consumer/README.md");

/// A time that has not come.
const YEAR_2100_MS: i64 = 4_102_444_800_000;

/// The statements of the README's chapter on rights, for a role.
fn grants(role: &str) -> Vec<String> {
    let (_, chapter) = README.split_once("## Rights").expect("a chapter on rights");
    let (_, from) = chapter.split_once("```sql\n").expect("SQL in it");
    let (statements, _) = from.split_once("```").expect("an end of the SQL");
    let statements = statements.split(';').map(str::trim).filter(|text| !text.is_empty());
    let statements = statements.map(|text| {
        assert!(text.starts_with("GRANT ") && text.ends_with(" TO worker"), "{text}");
        text.replace(" TO worker", &format!(" TO {role}"))
    });
    statements.collect()
}

/// A role that may log in, and write into the ledger. Returns its name and the database's address for it.
async fn role(ledger: &Ledger) -> (String, String) {
    let name = format!("worker_{}", uuid::Uuid::new_v4().simple());
    ledger.run(&format!("CREATE ROLE {name} LOGIN; GRANT INSERT ON ledger TO {name}")).await;
    let mut url = reqwest::Url::parse(ledger.url()).expect("a database's URL");
    url.set_username(&name).expect("a URL with a host");
    url.set_password(None).expect("a URL with a host");
    (name, url.to_string())
}

async fn comes_to(ledger: &Ledger, user: &str, story: &str) {
    let what = format!("{user} comes to {story:?}");
    eventually(&what, async || (ledger.story_of(user).await == story).then_some(())).await;
}

/// All that a member does at all: it makes the group, shares, fails, sets aside, works off again what it has set
/// aside, and goes along with another number of partitions.
#[tokio::test(flavor = "multi_thread")]
async fn the_rights_that_the_readme_lists_are_enough() {
    let ledger = Ledger::open(Store::postgres().await).await;
    let (role, url) = role(&ledger).await;
    for grant in grants(&role) {
        ledger.run(&grant).await;
    }
    let healed = Arc::new(AtomicBool::new(false));
    let member = Ledger::member_at(url.clone()).max_attempts(2);
    let worker = member.start(Keeper::healing(&healed)).await.expect("a member");
    for host in 0..20 {
        ledger.order(&format!("h{host}"), "good", &["a", "b"]).await;
    }
    ledger.order("h", "bad", &["retry"]).await;
    ledger.order("h", "bad", &["1"]).await;
    let all = PageLimit { events: 10, bytes: 1 << 20 };
    eventually("what cannot be handled is set aside, and what is behind it", async || {
        let letters = ledger.groups().letters("g", Position::START, all, None).await;
        (letters.expect("letters").letters.len() == 2).then_some(())
    })
    .await;
    healed.store(true, Ordering::SeqCst);
    ledger.groups().redrive("g", &LetterSelection::All).await.expect("redriven");
    comes_to(&ledger, "bad", "retry 1").await;
    let change = GroupChange { partitions: Some(3), ..GroupChange::default() };
    ledger.groups().change_group("g", &change).await.expect("a change");
    ledger.order("h", "bad", &["2"]).await;
    comes_to(&ledger, "bad", "retry 1 2").await;
    eventually("it has its partitions, and all is done", async || {
        let group = ledger.groups().group("g").await.expect("a look").expect("a group");
        let done = ledger.number("SELECT count(*) FROM ledger").await == 43;
        (group.total == 3 && group.barrier.is_none() && done).then_some(())
    })
    .await;
    // A group that begins at a time has to look for it; this one is for nothing that is there.
    let late = Ledger::member_at(url).group("late").starting(Start::Time(YEAR_2100_MS));
    let late = late.start(Keeper::default()).await.expect("a member of another group");
    late.stop().await.expect("it stops");
    let stats = worker.stop().await.expect("it stops");
    assert!(stats.dead == 1 && stats.parked == 1 && stats.redriven == 2, "{stats:?}");
    ledger.holds().await;
}

/// Whoever left something out reads in the error what it was.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_told_by_name() {
    let ledger = Ledger::open(Store::postgres().await).await;
    ledger.order("h", "u", &["a"]).await;
    let missing = ["schema tidewire", "migrations", "consumer_groups"];
    let count = grants("nobody").len();
    assert_eq!(count, missing.len(), "each statement, and what is told without it");
    for (without, name) in missing.into_iter().enumerate() {
        let (role, url) = role(&ledger).await;
        for (number, grant) in grants(&role).iter().enumerate() {
            if number != without {
                ledger.run(grant).await;
            }
        }
        let refused = Ledger::member_at(url).start(Keeper::default()).await;
        let refused = refused.expect_err("it may not work").to_string();
        assert!(refused.contains(name) && refused.contains("permission denied"), "{refused}");
    }
}
