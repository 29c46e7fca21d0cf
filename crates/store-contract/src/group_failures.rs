//! Failed runs of a key's events.

use super::Opener;
use super::group_fixture::{
    GROUP, GroupFixture, LONG_MS, failure, handled, host_in, key, well_done,
};
use tidewire_store::groups::{Begun, Claim, ERROR_BYTES_MAX, Ending, Failure, GroupError, Verdict};

/// Failed attempts are counted by key, apart from the work that was rolled back.
pub async fn failed_attempts_are_counted_by_key(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    fixture.say("h", "u", &["1"]).await;
    fixture.say("h", "v", &["2"]).await;
    fixture.say("", "", &["3"]).await;
    let events = handled(&fixture.batch(0).await);
    let claim = fixture.claim(0, "m").await;
    fixture.works(&claim).await.abandon().await;
    let both = [failure(&events[0], "no"), failure(&events[2], "neither")];
    fixture.groups.note_failures(&claim, &both, 0).await.expect("they are noted");
    let holdings = fixture.holds(0).await;
    assert_eq!(holdings.partition.failing, 2);
    assert_eq!(holdings.partition.next, claim.next, "it does not move");
    let expected = [(key("", ""), (1, Verdict::Retry)), (key("h", "u"), (1, Verdict::Retry))];
    assert_eq!(holdings.attempts, expected.into());
    let claim = fixture.claim(0, "m").await;
    let dead = Failure { verdict: Verdict::Dead, ..failure(&events[0], "never") };
    fixture.groups.note_failures(&claim, &[dead], 0).await.expect("it is noted");
    let expected = [(key("", ""), (1, Verdict::Retry)), (key("h", "u"), (2, Verdict::Dead))];
    assert_eq!(fixture.attempts(0).await, expected.into());
    let error = "SELECT error FROM tidewire.consumer_attempts WHERE user_id = 'u'";
    assert_eq!(data.run_sql(error).await, ["never"]);
}

/// A partition waits before it is tried again, and the others do not.
pub async fn a_failed_partition_waits(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 2).await;
    let hosts = [host_in(0, 2), host_in(1, 2)];
    for host in &hosts {
        fixture.say(host, "u", &["1"]).await;
    }
    let batch = fixture.batch(0).await;
    let failures = [failure(&handled(&batch)[0], "no")];
    let claim = fixture.claim(0, "m").await;
    fixture.groups.note_failures(&claim, &failures, LONG_MS).await.expect("it is noted");
    let wait = fixture.holds(0).await.partition.retry_in_ms.expect("it waits");
    assert!(wait <= LONG_MS && wait > LONG_MS / 2, "{wait}");
    let claim = fixture.claim(0, "m").await;
    assert!(matches!(fixture.begins(&claim).await, Begun::Taken));
    let leased = fixture.groups.lease(&claim, batch.next, LONG_MS).await.expect("an answer");
    assert_eq!(leased, None);
    assert!(!fixture.groups.skip(&claim, batch.next).await.expect("an answer"));
    fixture.ends(1, &well_done(&fixture.batch(1).await)).await;
}

/// An advance ends the wait, and forgets the attempts of keys that were handled.
pub async fn handled_keys_are_settled(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    fixture.say("h", "u", &["1"]).await;
    fixture.say("h", "v", &["2"]).await;
    let batch = fixture.batch(0).await;
    let events = handled(&batch);
    let failures = [failure(&events[0], "no"), failure(&events[1], "no")];
    let claim = fixture.claim(0, "m").await;
    fixture.groups.note_failures(&claim, &failures, 0).await.expect("they are noted");
    let settled = vec![key("h", "u")];
    fixture.ends(0, &Ending { settled, ..well_done(&batch) }).await;
    let holdings = fixture.holds(0).await;
    assert_eq!(holdings.attempts, [(key("h", "v"), (1, Verdict::Retry))].into());
    let partition = holdings.partition;
    assert_eq!((partition.failing, partition.retry_in_ms), (1, None));
}

/// Failures of a batch that somebody else has worked off since are not noted.
pub async fn failures_of_what_moved_are_not_noted(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    fixture.say("h", "u", &["1"]).await;
    let batch = fixture.batch(0).await;
    let failures = [failure(&handled(&batch)[0], "no")];
    let claim = fixture.claim(0, "m").await;
    fixture.ends(0, &well_done(&batch)).await;
    let elsewhen = Claim { generation: claim.generation + 1, ..fixture.claim(0, "m").await };
    for stale in [claim, elsewhen] {
        let outcome = fixture.groups.note_failures(&stale, &failures, LONG_MS).await;
        assert!(matches!(outcome, Err(GroupError::Moved)), "{stale:?} gave {outcome:?}");
    }
    let holdings = fixture.holds(0).await;
    assert!(holdings.attempts.is_empty() && holdings.partition.retry_in_ms.is_none());
}

/// Of an error's text so much is kept as there may be.
pub async fn errors_are_cut(data: &dyn Opener) {
    let fixture = GroupFixture::of(data, 1).await;
    let host = "long ".repeat(2_000);
    fixture.say(&host, "u", &["1"]).await;
    let event = handled(&fixture.batch(0).await).remove(0);
    let text = format!("a\0b{}", "x".repeat(1 << 20));
    let claim = fixture.claim(0, "m").await;
    let noted = fixture.groups.note_failures(&claim, &[failure(&event, &text)], 0).await;
    noted.expect("it is noted");
    let kept = data.run_sql("SELECT error FROM tidewire.consumer_attempts").await;
    assert!(kept[0].starts_with("a\u{fffd}bxx"), "{}", &kept[0][..9]);
    assert_eq!(kept[0].len(), ERROR_BYTES_MAX);
    assert_eq!(fixture.attempts(0).await.len(), 1, "keys may be long");
    assert!(fixture.groups.group(GROUP).await.expect("a group").is_some());
}
