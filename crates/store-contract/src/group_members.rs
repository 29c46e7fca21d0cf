//! Members and their heartbeats.

use serde_json::value::RawValue;

use super::Opener;
use super::group_fixture::{GROUP, GroupFixture, LONG_MS};
use super::test_store::{DEADLINE, eventually};
use tidewire_store::groups::{GroupError, MemberKind, MemberReport, Renewed};

fn report(member: &str) -> MemberReport {
    MemberReport {
        group: GROUP.to_owned(),
        member: member.to_owned(),
        kind: MemberKind::Library,
        pinned: None,
        counts: RawValue::from_string("{\"events\":1}".to_owned()).expect("JSON"),
    }
}

impl GroupFixture<'_> {
    async fn lives(&self, report: &MemberReport, lease_ms: u64) -> Renewed {
        let renewed = self.groups.renew_member(report, lease_ms).await;
        renewed.unwrap_or_else(|error| panic!("{report:?}: {error}"))
    }

    async fn members(&self) -> Vec<String> {
        self.view().await.members.iter().map(|member| member.report.member.clone()).collect()
    }
}

/// Members are listed in the order in which they joined, with what they said last.
pub async fn members_are_listed_as_they_report(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 4).await;
    let first = fixture.lives(&report("z"), LONG_MS).await;
    assert_eq!(first.group.members.len(), 1, "who renews is among the living");
    let later = || async {
        // They are told apart by the millisecond.
        let now = fixture.lives(&report("probe"), LONG_MS).await.joined_at_ms;
        fixture.groups.remove_member(GROUP, "probe").await.expect("it leaves");
        (now > first.joined_at_ms).then_some(())
    };
    eventually("the clock moves", later).await;
    let http = MemberReport { kind: MemberKind::Http, pinned: Some(3), ..report("a") };
    let second = fixture.lives(&http, LONG_MS).await;
    assert_eq!(fixture.members().await, ["z", "a"]);
    let counts = RawValue::from_string("{\"events\":2}".to_owned()).expect("JSON");
    let again = fixture.lives(&MemberReport { counts, ..report("z") }, LONG_MS / 2).await;
    assert_eq!(again.joined_at_ms, first.joined_at_ms, "it joined once");
    let [z, a] = &again.group.members[..] else { panic!("{:?}", again.group.members) };
    let said: serde_json::Value = serde_json::from_str(z.report.counts.get()).expect("JSON");
    assert_eq!(said, serde_json::json!({"events": 2}));
    assert!(z.lease_ms <= LONG_MS / 2 && z.lease_ms > LONG_MS / 4, "{}", z.lease_ms);
    assert_eq!((z.report.kind, z.report.pinned), (MemberKind::Library, None));
    assert_eq!((a.report.kind, a.report.pinned), (MemberKind::Http, Some(3)));
    assert_eq!(a.joined_at_ms, second.joined_at_ms);
}

/// A member that is not heard of is gone with its lease, and joins anew if it comes back.
pub async fn a_silent_member_is_gone(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    let first = fixture.lives(&report("silent"), 1).await;
    fixture.lives(&report("b"), LONG_MS).await;
    let gone = || async { (fixture.members().await == ["b"]).then_some(()) };
    eventually("its lease ends", gone).await;
    let back = fixture.lives(&report("silent"), LONG_MS).await;
    assert!(back.joined_at_ms > first.joined_at_ms, "it is the youngest");
    assert_eq!(fixture.members().await, ["b", "silent"]);
}

/// Members long dead leave no rows.
pub async fn members_long_dead_are_swept(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    fixture.lives(&report("old"), LONG_MS).await;
    data.run_sql("UPDATE tidewire.consumer_members SET lease_until_ms = 1").await;
    fixture.lives(&report("b"), LONG_MS).await;
    let rows = data.run_sql("SELECT member_id FROM tidewire.consumer_members").await;
    assert_eq!(rows, ["b"]);
}

/// A member that leaves is gone at once.
pub async fn a_member_leaves(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    fixture.lives(&report("a"), LONG_MS).await;
    fixture.lives(&report("b"), LONG_MS).await;
    fixture.groups.remove_member(GROUP, "a").await.expect("it leaves");
    fixture.groups.remove_member(GROUP, "a").await.expect("it has left");
    fixture.groups.remove_member("other", "a").await.expect("it was never there");
    assert_eq!(fixture.members().await, ["b"]);
}

/// That somebody joined or left is told.
pub async fn comings_and_goings_are_signalled(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    let mut signals = fixture.groups.group_signals();
    let told = async |signals: &mut tokio::sync::watch::Receiver<u64>, what: &str| {
        let changed = tokio::time::timeout(DEADLINE, signals.changed()).await;
        changed.unwrap_or_else(|_| panic!("{what} is not told")).expect("the store is open");
    };
    fixture.lives(&report("a"), LONG_MS).await;
    told(&mut signals, "a joining").await;
    signals.mark_unchanged();
    fixture.groups.remove_member(GROUP, "a").await.expect("it leaves");
    told(&mut signals, "a leaving").await;
}

/// Members are of a group that is there, have names, and are not too many.
pub async fn what_cannot_be_a_member_is_refused(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    let nowhere = MemberReport { group: "other".to_owned(), ..report("a") };
    let outcome = fixture.groups.renew_member(&nowhere, LONG_MS).await;
    assert!(matches!(outcome, Err(GroupError::NotFound)), "{outcome:?}");
    for name in ["", "a/b", "a\u{7}"] {
        let outcome = fixture.groups.renew_member(&report(name), LONG_MS).await;
        assert!(matches!(outcome, Err(GroupError::Invalid(_))), "{name:?} gave {outcome:?}");
    }
    let pinned = MemberReport { pinned: Some(1), ..report("a") };
    let outcome = fixture.groups.renew_member(&pinned, LONG_MS).await;
    assert!(matches!(outcome, Err(GroupError::Invalid(_))), "{outcome:?}");
    fixture.lives(&report("known"), LONG_MS).await;
    fill(data, "library", 1_000).await;
    let outcome = fixture.groups.renew_member(&report("one more"), LONG_MS).await;
    assert!(
        matches!(outcome, Err(GroupError::TooMany { limit: "members_max", max: 1_000 })),
        "{outcome:?}"
    );
    fixture.lives(&report("known"), LONG_MS).await;
}

/// Puts living members beside the first one, up to a number.
async fn fill(data: &dyn Opener, kind: &str, count: u64) {
    let insert = format!(
        "INSERT INTO tidewire.consumer_members
             (group_id, member_id, kind, joined_at_ms, lease_until_ms)
         WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
         SELECT 'g', '{kind}-' || i, '{kind}', 1, 9000000000000 FROM n"
    );
    data.run_sql(&insert).await;
}

/// Workers over HTTP call themselves what they like, and members of the library join all the same; so they do
/// beside those that are dead.
pub async fn names_over_http_keep_no_library_out(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    let http = |name: &str| MemberReport { kind: MemberKind::Http, ..report(name) };
    fixture.lives(&http("known"), LONG_MS).await;
    fill(data, "http", 1_000).await;
    let outcome = fixture.groups.renew_member(&http("one more"), LONG_MS).await;
    assert!(matches!(outcome, Err(GroupError::TooMany { .. })), "{outcome:?}");
    fixture.lives(&report("library"), LONG_MS).await;
    fill(data, "library", 1_000).await;
    data.run_sql(
        "UPDATE tidewire.consumer_members
         SET lease_until_ms = (SELECT max(joined_at_ms) FROM tidewire.consumer_members)
         WHERE member_id LIKE 'library-%'",
    )
    .await;
    let joins = || async {
        // They died when the first of them joined, by the millisecond.
        fixture.groups.renew_member(&report("after them"), LONG_MS).await.ok()
    };
    eventually("there is room beside the dead", joins).await;
}
