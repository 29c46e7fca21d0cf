//! An event cannot be handled: its user's later events wait behind it, everyone else's go on, and a person decides.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidewire_consumer::{Consumer, OnDead};
use tidewire_store::groups::{Key, LetterSelection, LetterState, LetterView};
use tidewire_store::{PageLimit, Position};
use tidewire_stories::{Keeper, Ledger, Store, eventually, on_both_stores};

/// All letters that there are.
const LETTERS: PageLimit = PageLimit { events: 100, bytes: 1 << 20 };

on_both_stores!(
    it_is_parked_with_what_follows_and_worked_off_in_order,
    a_verdict_of_dead_needs_one_attempt,
    those_behind_go_on_where_that_is_chosen,
    a_dropped_letter_lets_those_behind_go_on,
    a_panic_is_an_attempt_like_any_other,
    a_handler_that_says_stop_ends_its_member,
);

async fn member(ledger: &Ledger, keeper: Keeper) -> Consumer {
    let member = ledger
        .member()
        .partitions(2)
        .max_attempts(3)
        .handler_timeout(std::time::Duration::from_secs(20));
    member.start(keeper).await.expect("a member")
}

/// Waits until the ledger tells this of a user.
async fn comes_to(ledger: &Ledger, user: &str, story: &str) {
    let what = format!("{user} comes to {story:?}");
    eventually(&what, async || (ledger.story_of(user).await == story).then_some(())).await;
}

/// Waits for so many letters, and returns them in order.
async fn letters(ledger: &Ledger, count: usize) -> Vec<LetterView> {
    eventually(&format!("there are {count} letters"), async || {
        let all = ledger.groups().letters("g", Position::START, LETTERS, None).await;
        let all = all.expect("letters").letters;
        (all.len() == count).then_some(all)
    })
    .await
}

fn states(letters: &[LetterView]) -> Vec<LetterState> {
    letters.iter().map(|letter| letter.state).collect()
}

async fn it_is_parked_with_what_follows_and_worked_off_in_order(store: Store) {
    let ledger = Ledger::open(store).await;
    let healed = Arc::new(AtomicBool::new(false));
    let worker = member(&ledger, Keeper::healing(&healed)).await;
    ledger.order("h", "bad", &["1"]).await;
    ledger.order("h", "bad", &["retry", "2"]).await;
    ledger.order("h", "bad", &["3"]).await;
    ledger.order("h", "good", &["a"]).await;
    comes_to(&ledger, "good", "a").await;
    comes_to(&ledger, "bad", "1").await;
    // The whole transaction died, and what came after it waits.
    let found = letters(&ledger, 3).await;
    assert_eq!(states(&found), [LetterState::Dead, LetterState::Dead, LetterState::Parked]);
    assert_eq!((found[0].letter.attempts, found[0].letter.error.as_str()), (3, "told to fail"));
    ledger.order("h", "bad", &["4"]).await;
    ledger.order("h", "good", &["b"]).await;
    comes_to(&ledger, "good", "a b").await;
    letters(&ledger, 4).await;
    // Redriven in vain, it waits again.
    let key = Key::of(Some("h"), Some("bad"));
    assert_eq!(
        ledger.groups().redrive("g", &LetterSelection::Key(key.clone())).await.expect("redriven"),
        1
    );
    eventually("it was tried again and given up", async || {
        let all = ledger.groups().letters("g", Position::START, LETTERS, None).await;
        let all = all.expect("letters").letters;
        all.iter().all(|letter| !letter.redrive).then_some(())
    })
    .await;
    assert_eq!(ledger.story_of("bad").await, "1");
    // Once the handler is mended, all of it goes in order, and what comes is behind it.
    healed.store(true, Ordering::SeqCst);
    ledger.groups().redrive("g", &LetterSelection::All).await.expect("redriven");
    ledger.order("h", "bad", &["5"]).await;
    comes_to(&ledger, "bad", "1 retry 2 3 4 5").await;
    letters(&ledger, 0).await;
    let stats = worker.stop().await.expect("it stops");
    assert!(stats.retries >= 2 && stats.dead >= 2 && stats.redriven >= 4, "{stats:?}");
    ledger.holds().await;
}

async fn a_verdict_of_dead_needs_one_attempt(store: Store) {
    let ledger = Ledger::open(store).await;
    ledger.order("h", "bad", &["dead"]).await;
    ledger.order("h", "good", &["a"]).await;
    ledger.order("h", "bad", &["1"]).await;
    let worker = member(&ledger, Keeper::default()).await;
    comes_to(&ledger, "good", "a").await;
    let found = letters(&ledger, 2).await;
    assert_eq!(states(&found), [LetterState::Dead, LetterState::Parked]);
    assert_eq!(found[0].letter.attempts, 1);
    assert_eq!(ledger.story_of("bad").await, "");
    let stats = worker.stop().await.expect("it stops");
    assert_eq!((stats.dead, stats.parked), (1, 1), "{stats:?}");
}

async fn those_behind_go_on_where_that_is_chosen(store: Store) {
    let ledger = Ledger::open(store).await;
    ledger.order("h", "bad", &["1"]).await;
    ledger.order("h", "bad", &["retry"]).await;
    ledger.order("h", "bad", &["2"]).await;
    let member = ledger.member().partitions(2).max_attempts(2).on_dead(OnDead::Skip);
    let worker = member.start(Keeper::default()).await.expect("a member");
    comes_to(&ledger, "bad", "1 2").await;
    assert_eq!(states(&letters(&ledger, 1).await), [LetterState::Dead]);
    worker.stop().await.expect("it stops");
}

async fn a_dropped_letter_lets_those_behind_go_on(store: Store) {
    let ledger = Ledger::open(store).await;
    ledger.order("h", "bad", &["dead"]).await;
    ledger.order("h", "bad", &["1"]).await;
    let worker = member(&ledger, Keeper::default()).await;
    let found = letters(&ledger, 2).await;
    let poison = found[0].letter.event.position;
    ledger
        .groups()
        .drop_letters("g", &LetterSelection::Offset(poison), false)
        .await
        .expect("dropped");
    ledger.order("h", "bad", &["2"]).await;
    comes_to(&ledger, "bad", "1 2").await;
    letters(&ledger, 0).await;
    worker.stop().await.expect("it stops");
}

async fn a_panic_is_an_attempt_like_any_other(store: Store) {
    let ledger = Ledger::open(store).await;
    ledger.order("h", "bad", &["panic"]).await;
    ledger.order("h", "good", &["a"]).await;
    let worker = member(&ledger, Keeper::default()).await;
    comes_to(&ledger, "good", "a").await;
    let found = letters(&ledger, 1).await;
    assert_eq!(found[0].letter.error, "the handler panicked: told to panic");
    assert_eq!(found[0].letter.attempts, 3);
    worker.stop().await.expect("it stops");
}

async fn a_handler_that_says_stop_ends_its_member(store: Store) {
    let ledger = Ledger::open(store).await;
    let mut worker = member(&ledger, Keeper::default()).await;
    ledger.order("h", "u", &["stop"]).await;
    let ended = worker.ended().await.expect_err("it must not go on");
    assert_eq!(ended.to_string(), "the handler stopped: told to stop");
    assert_eq!(ledger.story_of("u").await, "");
}
