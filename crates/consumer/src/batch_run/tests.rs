//! Batches run over a transaction that only records the calls it gets.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::value::RawValue;
use tidewire_store::groups::{
    Batch, Ending, Filter, GroupError, GroupEvent, GroupView, HELD_TOO_LONG, Holdings, Key,
    KeyEvents, OnDead, PartitionView, Verdict, Work,
};
use tidewire_store::{Epoch, Position, SqlAnswer, SqlError, SqlLimits, SqlProblem, StoreError};

use super::{BatchOutcome, Job, NextRun, run};
use crate::context::Context;
use crate::error::HandlerError;
use crate::handler::{Group, Handler};

/// What was asked of a transaction.
type Recorded = Arc<Mutex<Vec<String>>>;

#[derive(Debug)]
struct RecordingWork {
    asked: Recorded,
    savepoint: bool,
}

impl RecordingWork {
    fn write(&self, line: impl Into<String>) {
        self.asked.lock().expect("no panic").push(line.into());
    }
}

#[async_trait]
impl Work for RecordingWork {
    fn enter(&mut self, savepoint: bool) {
        self.savepoint = savepoint;
        self.write(if savepoint { "enter+" } else { "enter" });
    }

    async fn sql(
        &mut self,
        sql: &str,
        _: &[Box<RawValue>],
        _: SqlLimits,
    ) -> Result<SqlAnswer, SqlError> {
        self.write(sql);
        match sql {
            "lost" => Err(StoreError::Unavailable("lost".to_owned()).into()),
            "slow" => Err(SqlError::Wrong(Box::new(SqlProblem {
                code: HELD_TOO_LONG,
                message: "too long".to_owned(),
                position: None,
                hint: None,
            }))),
            _ => Ok(SqlAnswer::default()),
        }
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }

    async fn undo(&mut self) -> Result<(), GroupError> {
        self.write("undo");
        if self.savepoint { Ok(()) } else { Err(GroupError::Transient("no savepoint".to_owned())) }
    }

    async fn finish(self: Box<Self>, _: &Ending) -> Result<Option<Position>, GroupError> {
        Ok(None)
    }

    async fn abandon(self: Box<Self>) {
        self.write("abandon");
    }
}

/// Does with each event what its user says.
struct ScriptedHandler;

#[async_trait]
impl Handler for ScriptedHandler {
    async fn handle(
        &self,
        group: &Group<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), HandlerError> {
        for event in group.events() {
            context.sql(&format!("{}", event.position.number()), &[]).await?;
            match event.stream.as_str() {
                "retry" => return Err(HandlerError::retry("not yet")),
                "dead" => return Err(HandlerError::dead("never").at(event.position.number())),
                "stop" => return Err(HandlerError::stop("the deploy is bad")),
                "panic" => panic!("at the disco"),
                sql @ ("lost" | "slow") => context.sql(sql, &[]).await.map(|_| ())?,
                "hang" => std::future::pending().await,
                _ => {}
            }
        }
        Ok(())
    }
}

/// An event by position, user and what becomes of it; each is a transaction of its own.
fn event(position: u64, user: &str, becomes: &str) -> Arc<GroupEvent> {
    Arc::new(GroupEvent {
        position: Position::new(position),
        append_id: Position::new(position),
        stream: becomes.to_owned(),
        host_id: None,
        user_id: Some(user.to_owned()),
        txid: i64::try_from(position).ok(),
        tx_last: true,
        created_at_ms: 0,
        trace_context: None,
        change: None,
        payload: None,
        content_type: None,
    })
}

fn batch(events: &[(u64, &str, &str)]) -> Batch {
    let mut groups: Vec<KeyEvents> = Vec::new();
    for (position, user, becomes) in events {
        let key = Key::of(None, Some(user));
        let event = event(*position, user, becomes);
        match groups.iter_mut().find(|group| group.key == key) {
            Some(group) => group.events.push(event),
            None => groups.push(KeyEvents { key, attempt: 0, events: vec![event] }),
        }
    }
    let next = Position::new(events.last().map_or(1, |(last, ..)| last + 1));
    Batch { from: Position::new(1), next, groups, park: Vec::new(), redrive: None }
}

fn held(on_dead: OnDead, attempts: &[(&str, u32)]) -> Holdings {
    let group = GroupView {
        group: "g".to_owned(),
        total: 1,
        wanted: None,
        barrier: None,
        filter: Filter::default(),
        max_attempts: 3,
        on_dead,
        stopped: None,
        lost_to: Position::START,
        created_at_ms: 0,
        partitions: Vec::new(),
        members: Vec::new(),
        dead: 0,
        parked: 0,
    };
    let partition = PartitionView {
        partition: 0,
        next: Position::new(1),
        generation: 0,
        member: None,
        moved_at_ms: None,
        lease_ms: None,
        leased_to: None,
        retry_in_ms: None,
        failing: 0,
        parked: 0,
        redrive: false,
        trouble: None,
    };
    let attempts =
        attempts.iter().map(|(user, n)| (Key::of(None, Some(user)), (*n, Verdict::Retry)));
    Holdings {
        group,
        partition,
        parked: BTreeMap::new(),
        attempts: attempts.collect(),
        dead: BTreeSet::new(),
    }
}

/// Runs a batch once. How it went, and what was asked of the transaction.
async fn once(batch: &Batch, held: &Holdings, plan: &mut NextRun) -> (BatchOutcome, String) {
    let asked = Recorded::default();
    let work = Box::new(RecordingWork { asked: Arc::clone(&asked), savepoint: false });
    let timeout = Duration::from_secs(1);
    let job = Job { handler: &ScriptedHandler, batch, held, timeout, epoch: Epoch::FIRST };
    let outcome = run(&job, plan, work).await;
    let asked = asked.lock().expect("no panic").join(" ");
    (outcome, asked)
}

/// The same, and again for as long as it is to be run again at once.
async fn whole(batch: &Batch, held: &Holdings) -> (BatchOutcome, String) {
    let mut plan = NextRun::default();
    loop {
        let (outcome, asked) = once(batch, held, &mut plan).await;
        if !matches!(outcome, BatchOutcome::Again) {
            return (outcome, asked);
        }
    }
}

fn ending(outcome: BatchOutcome) -> Ending {
    match outcome {
        BatchOutcome::Done(_, ending, _) => *ending,
        other => panic!("not done: {other:?}"),
    }
}

fn dead(ending: &Ending) -> Vec<u64> {
    ending.dead.iter().map(|letter| letter.event.position.number()).collect()
}

fn parked(ending: &Ending) -> Vec<u64> {
    ending.park.iter().map(|event| event.position.number()).collect()
}

#[tokio::test]
async fn keys_go_in_turn_each_with_a_savepoint() {
    let batch = batch(&[(1, "a", ""), (2, "b", ""), (3, "a", "")]);
    let (outcome, asked) = whole(&batch, &held(OnDead::Park, &[])).await;
    assert_eq!(asked, "enter+ 1 3 enter+ 2");
    assert_eq!(ending(outcome).next, Position::new(4));
}

#[tokio::test]
async fn a_single_key_needs_no_savepoint() {
    let (_, asked) = whole(&batch(&[(1, "a", "")]), &held(OnDead::Park, &[])).await;
    assert_eq!(asked, "enter 1");
}

#[tokio::test]
async fn past_sixty_keys_there_are_no_more_savepoints() {
    let users: Vec<String> = (0..70).map(|n| format!("u{n}")).collect();
    let events: Vec<_> = (1..).zip(&users).map(|(n, user)| (n, user.as_str(), "")).collect();
    let (_, asked) = whole(&batch(&events), &held(OnDead::Park, &[])).await;
    assert_eq!(asked.matches("enter+").count(), 60);
}

#[tokio::test]
async fn a_failing_key_rolls_the_batch_back_and_is_counted() {
    let batch = batch(&[(1, "a", ""), (2, "b", "retry"), (3, "c", "")]);
    let (outcome, asked) = whole(&batch, &held(OnDead::Park, &[])).await;
    let BatchOutcome::Failed { failures, .. } = outcome else { panic!("not failed: {outcome:?}") };
    assert_eq!(asked, "enter+ 1 enter+ 2 abandon");
    assert_eq!(failures.len(), 1);
    assert_eq!((&*failures[0].key.user, failures[0].first.number()), ("b", 2));
}

#[tokio::test]
async fn after_a_failure_the_others_are_tried_too() {
    let batch = batch(&[(1, "a", "retry"), (2, "b", "panic"), (3, "c", "")]);
    let (outcome, asked) = whole(&batch, &held(OnDead::Park, &[("a", 1)])).await;
    let BatchOutcome::Failed { failures, .. } = outcome else { panic!("not failed: {outcome:?}") };
    assert_eq!(asked, "enter+ 1 undo enter+ 2 undo enter+ 3 abandon");
    let texts: Vec<&str> = failures.iter().map(|failure| failure.error.as_str()).collect();
    assert_eq!(texts, ["not yet", "the handler panicked: at the disco"]);
}

#[tokio::test]
async fn the_last_attempt_sets_aside_what_fails_and_keeps_the_rest() {
    let batch = batch(&[(1, "a", ""), (2, "a", "retry"), (3, "b", ""), (4, "a", "")]);
    let (outcome, asked) = whole(&batch, &held(OnDead::Park, &[("a", 2)])).await;
    assert_eq!(asked, "enter+ 1 enter+ 2 undo enter+ 3");
    let ending = ending(outcome);
    assert_eq!((dead(&ending), parked(&ending)), (vec![2], vec![4]));
    assert_eq!(ending.dead[0].attempts, 3);
    let key = Key::of(None, Some("a"));
    assert_eq!(ending.parked_from, [(key.clone(), Position::new(2))]);
    assert_eq!(ending.settled, [key]);
}

#[tokio::test]
async fn those_behind_go_on_where_that_is_chosen() {
    let batch = batch(&[(1, "a", "retry"), (2, "a", ""), (3, "a", "retry")]);
    let (outcome, asked) = whole(&batch, &held(OnDead::Skip, &[("a", 2)])).await;
    assert_eq!(asked, "enter+ 1 undo enter+ 2 enter+ 3 undo");
    let ending = ending(outcome);
    assert_eq!((dead(&ending), parked(&ending)), (vec![1, 3], vec![]));
    assert!(ending.parked_from.is_empty());
}

#[tokio::test]
async fn a_dead_verdict_is_final_at_once_and_the_named_event_is_not_tried_again() {
    let batch = batch(&[(1, "a", ""), (2, "a", "dead"), (3, "b", "")]);
    let (outcome, asked) = whole(&batch, &held(OnDead::Park, &[])).await;
    assert_eq!(asked, "enter+ 1 2 undo enter+ 1 enter+ 3");
    assert_eq!(dead(&ending(outcome)), [2]);
}

#[tokio::test]
async fn without_a_savepoint_the_batch_is_run_again_carefully() {
    let batch = batch(&[(1, "a", ""), (2, "a", "dead")]);
    let held = held(OnDead::Park, &[]);
    let mut plan = NextRun::default();
    let (outcome, asked) = once(&batch, &held, &mut plan).await;
    assert!(matches!(outcome, BatchOutcome::Again), "{outcome:?}");
    assert_eq!(asked, "enter 1 2 undo abandon");
    let (outcome, asked) = once(&batch, &held, &mut plan).await;
    assert_eq!(asked, "enter+ 1");
    assert_eq!(dead(&ending(outcome)), [2]);
}

#[tokio::test]
async fn a_transient_error_is_not_counted() {
    let batch = batch(&[(1, "a", "lost"), (2, "b", "")]);
    let (outcome, asked) = whole(&batch, &held(OnDead::Park, &[("a", 2)])).await;
    assert!(matches!(outcome, BatchOutcome::Transient(_)), "{outcome:?}");
    assert_eq!(asked, "enter+ 1 lost abandon");
}

#[tokio::test]
async fn the_time_of_a_batch_is_counted_only_against_who_is_alone_in_it() {
    let several = batch(&[(1, "a", ""), (2, "b", "slow")]);
    let (outcome, asked) = whole(&several, &held(OnDead::Park, &[("b", 2)])).await;
    assert!(matches!(outcome, BatchOutcome::Overran(_)), "{outcome:?}");
    assert_eq!(asked, "enter+ 1 enter+ 2 slow abandon");
    let alone = batch(&[(2, "b", "slow")]);
    let (outcome, _) = whole(&alone, &held(OnDead::Park, &[])).await;
    assert!(matches!(outcome, BatchOutcome::Failed { .. }), "{outcome:?}");
    let (outcome, _) = whole(&alone, &held(OnDead::Park, &[("b", 2)])).await;
    assert_eq!(dead(&ending(outcome)), [2]);
}

#[tokio::test]
async fn whoever_says_stop_stops_all() {
    let batch = batch(&[(1, "a", "stop"), (2, "b", "")]);
    let (outcome, _) = whole(&batch, &held(OnDead::Park, &[])).await;
    assert!(
        matches!(&outcome, BatchOutcome::Stop(text) if text == "the deploy is bad"),
        "{outcome:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_hangs_is_cut_off_and_its_session_is_not_gone_on_with() {
    let batch = batch(&[(1, "a", "hang"), (2, "b", "")]);
    let (outcome, asked) = whole(&batch, &held(OnDead::Park, &[])).await;
    let BatchOutcome::Failed { failures, .. } = outcome else { panic!("not failed: {outcome:?}") };
    assert!(failures[0].error.contains("longer than 1s"), "{failures:?}");
    assert_eq!(asked, "enter+ 1 abandon");
    // In its last attempt it is set aside without being waited for once more.
    let (outcome, asked) = whole(&batch, &held(OnDead::Park, &[("a", 2)])).await;
    assert_eq!(asked, "enter+ 2");
    assert_eq!(dead(&ending(outcome)), [1]);
}

#[tokio::test]
async fn letters_are_worked_off_and_free_their_key() {
    let redrive = Some(Key::of(None, Some("a")));
    let good = Batch { redrive: redrive.clone(), ..batch(&[(1, "a", ""), (2, "a", "")]) };
    let (outcome, _) = whole(&good, &held(OnDead::Park, &[])).await;
    let done = ending(outcome);
    assert_eq!(done.redriven, [Position::new(1), Position::new(2)]);
    assert_eq!((done.free, done.give_up), (redrive.clone(), None));
    let bad = batch(&[(1, "a", ""), (2, "a", "dead"), (3, "a", "")]);
    let bad = Batch { redrive: redrive.clone(), ..bad };
    let (outcome, _) = whole(&bad, &held(OnDead::Park, &[])).await;
    let done = ending(outcome);
    assert_eq!((done.redriven.len(), dead(&done), parked(&done)), (1, vec![2], vec![]));
    assert_eq!((done.free, done.give_up), (None, redrive));
}
