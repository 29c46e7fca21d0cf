//! In which order the writer takes what waits.

use super::*;
use crate::testing::commands;

/// Commands of a commit by their number, or the name of a work.
fn taken(next: Option<Next<&'static str>>) -> String {
    match next {
        Some(Next::Commit(batch)) => format!("{} commands", batch.len()),
        Some(Next::Exclusive(work)) => work.to_owned(),
        None => "nothing".to_owned(),
    }
}

#[test]
fn between_two_works_of_callers_comes_what_else_waits() {
    let (queue, mut taker) = Queue::new(&CommitOptions::default());
    let ann: Account = Some("ann".into());
    let work = |account: &Account, name| queue.push_of_caller(account.clone(), name).expect("room");
    let append = || drop(queue.enter(Command::Append(commands::append("doc", "x"))).expect("room"));
    for name in ["ann 1", "ann 2", "ann 3"] {
        work(&ann, name);
    }
    append();
    append();
    queue.push(Job::Exclusive("upkeep")).expect("room");
    work(&Some("bob".into()), "bob 1");
    append();
    for expected in ["ann 1", "2 commands", "upkeep"] {
        assert_eq!(taken(taker.next_waiting()), expected);
    }
    // It shares the commit of the last that goes before the next work, and what comes then waits.
    append();
    assert_eq!(taken(taker.next_waiting()), "2 commands");
    append();
    for expected in ["bob 1", "1 commands", "ann 2", "ann 3", "nothing"] {
        assert_eq!(taken(taker.next_waiting()), expected);
    }
    // Whoever comes alone does not wait for others to come.
    for name in ["ann 4", "ann 5"] {
        work(&ann, name);
    }
    assert_eq!(taken(taker.blocking_next()), "ann 4");
    append();
    assert_eq!(taken(taker.blocking_next()), "1 commands");
    queue.close();
    assert_eq!(taken(taker.blocking_next()), "ann 5", "what was let in is done");
    assert_eq!(taken(taker.blocking_next()), "nothing");
}

#[test]
fn there_is_room_for_so_much_of_everything() {
    let options = CommitOptions { queue_max: 2, ..CommitOptions::default() };
    let (queue, mut taker) = Queue::new(&options);
    for name in ["one", "two"] {
        queue.push_of_caller(None, name).expect("room");
    }
    let full = queue.push_of_caller(None, "three").expect_err("no room");
    assert!(matches!(full, StoreError::Overloaded(2)), "{full:?}");
    assert_eq!(taken(taker.next_waiting()), "one");
    assert_eq!(taken(taker.next_waiting()), "two");
    assert_eq!(taken(taker.next_waiting()), "nothing", "what was refused is not done");
}

/// However much else comes, a caller's work has its turn.
#[test]
fn what_comes_all_the_time_does_not_keep_callers_waiting() {
    let (queue, mut taker) = Queue::new(&CommitOptions::default());
    for name in ["one", "two"] {
        queue.push_of_caller(None, name).expect("room");
    }
    let mut order = Vec::new();
    for _ in 0..6 {
        queue.push(Job::Exclusive("upkeep")).expect("room");
        order.push(taken(taker.next_waiting()));
    }
    assert_eq!(order, ["one", "upkeep", "upkeep", "two", "upkeep", "upkeep"]);
}
