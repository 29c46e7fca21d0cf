//! One transaction of the user's: its statements, and the events that come of them.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, Transaction};

use super::collect::SchemaChangedSince;
use super::problem::wrong;
use super::table::Watched;
use super::{Capture, Guard, foreign, preupdate, run, schema, watched};
use crate::command::Actor;
use crate::decide::{Plan, Step, Unpublished, commands_of, decide_transaction};
use crate::error::StoreError;
use crate::offset::Position;
use crate::sql::{SqlAnswer, SqlError, Statements};
use crate::sqlite::cache::StreamCache;
use crate::sqlite::error::broken;
use crate::sqlite::writer::Writer;
use crate::sqlite::{load, save};

/// Disarms the guard, however the work ends.
struct Armed<'a>(&'a Guard);

impl<'a> Armed<'a> {
    fn new(guard: &'a Guard, statements: &Statements) -> Armed<'a> {
        guard.arm(Duration::from_millis(statements.limits.timeout_ms));
        Armed(guard)
    }
}

impl Drop for Armed<'_> {
    fn drop(&mut self) {
        self.0.disarm();
    }
}

/// Runs statements on a reader's connection, if they only read; none if one of them writes.
pub(crate) fn read(
    connection: &mut Connection,
    guard: &Guard,
    statements: &Statements,
) -> Result<Option<SqlAnswer>, SqlError> {
    let snapshot = connection.transaction().map_err(broken("begin a read"))?;
    // The first read begins the snapshot, so the tip is that of what the statements see.
    let tip = load::tip(&snapshot)?;
    let armed = Armed::new(guard, statements);
    if !run::only_read(&snapshot, guard, statements)? {
        return Ok(None);
    }
    let answer = run::run(&snapshot, guard, statements, || Ok(()))?;
    drop(armed);
    Ok(Some(SqlAnswer { offset: Some(tip), ..answer }))
}

/// Runs statements on the writer's connection, in a transaction of their own.
pub(crate) fn write(writer: &mut Writer, statements: &Statements) -> Result<SqlAnswer, SqlError> {
    foreign::undisturbed(writer, |writer| write_once(writer, statements))
}

fn write_once(writer: &mut Writer, statements: &Statements) -> Result<SqlAnswer, SqlError> {
    let capture = writer.capture();
    let result = writer.commit(|transaction, streams, now_ms| {
        foreign::check(&capture, transaction)?;
        let watched = capture.watched(transaction).map_err(broken("read what is watched"))?;
        let ran = run_capturing(&capture, transaction, statements, &watched, now_ms);
        let gathered = capture.collector.end();
        let (answer, after) = ran?;
        let mut steps = gathered.map_err(incomplete)?;
        let outcome = match after {
            None => schema::Outcome::default(),
            Some(after) => {
                capture.forget();
                schema::settle(transaction, after, capture.own_names(), &mut steps)?
            }
        };
        let (plan, reached) = log(transaction, streams, steps, now_ms)?;
        outcome.finish(transaction, reached).map_err(broken("keep what is watched"))?;
        Ok((SqlAnswer { offset: Some(reached), ..answer }, plan))
    });
    if result.is_err() {
        // What was watched before is watched again, but what is known of it may be of what was undone.
        capture.forget();
    }
    result.map(|(answer, _)| answer).map_err(deferred)
}

/// Rules that are checked only at the end are broken by the statements all the same.
fn deferred(error: SqlError) -> SqlError {
    match error {
        SqlError::Store(StoreError::Broken { reason, .. }) if reason.contains("FOREIGN KEY") => {
            let hint = "a row refers to one that is not there at the end of the transaction";
            wrong("sql_constraint", reason, hint.to_owned())
        }
        other => other,
    }
}

fn incomplete(reason: String) -> StoreError {
    StoreError::Broken { operation: "capture a change", reason }
}

/// Runs the statements and gathers what they change. Where one of them changed the schema, also tells
/// what became of the watched tables.
fn run_capturing(
    capture: &Capture,
    transaction: &Transaction<'_>,
    statements: &Statements,
    watched: &[Arc<Watched>],
    now_ms: i64,
) -> Result<(SqlAnswer, Option<schema::Followed>), SqlError> {
    let (guard, collector) = (&*capture.guard, &*capture.collector);
    let actor = Actor { reach: crate::Reach::All, ..statements.actor.clone() };
    collector.begin(actor, watched);
    let mut followed = None;
    let mut alterations = 0;
    let after_each = || {
        if let Some(savepoint) = guard.take_savepoint() {
            collector.savepoint(savepoint, alterations).map_err(|SchemaChangedSince| {
                let message = "the schema was changed since the savepoint was set";
                let hint = "change the schema in a request of its own";
                wrong("sql_refused", message, hint.to_owned())
            })?;
        }
        if guard.take_alters() {
            alterations += 1;
            let followed = followed.get_or_insert_with(|| schema::Followed::new(watched));
            followed.follow(transaction).map_err(broken("look at the schema"))?;
            collector.watch(&followed.watched());
        }
        Ok(())
    };
    let armed = Armed::new(guard, statements);
    let listener = |touched: &preupdate::Touched<'_>| collector.touched(touched, now_ms);
    let answer = preupdate::listening(transaction, &listener, || {
        run::run(transaction, guard, statements, after_each)
    });
    drop(armed);
    let answer = answer.map_err(|_| incomplete("the listener panicked".to_owned()))??;
    Ok((answer, followed))
}

/// Puts a transaction's steps into the log. Gives the place that it reached.
pub(super) fn log(
    transaction: &Transaction<'_>,
    streams: &mut StreamCache,
    steps: Vec<Step>,
    now_ms: i64,
) -> Result<(Plan, Position), SqlError> {
    let world = load::world(transaction, streams, &commands_of(&steps), now_ms)?;
    let tip = world.tip;
    let plan = decide_transaction(world, steps).map_err(unpublished)?;
    save::plan(transaction, &plan, now_ms)?;
    watched::count(transaction, &plan.events).map_err(broken("count a table's changes"))?;
    let reached = plan.events.last().map_or(tip, |event| event.position);
    Ok((plan, reached))
}

fn unpublished(Unpublished { stream, refusal }: Unpublished) -> SqlError {
    use crate::command::Refusal;
    let why = match refusal {
        Refusal::Closed { .. } => "it is closed".to_owned(),
        Refusal::ContentTypeDiffers { expected } => {
            format!("its content type is {expected}, and what is published from SQL is JSON")
        }
        Refusal::Gone | Refusal::NameHeldByForks => "it was deleted and has forks".to_owned(),
        other => format!("it was refused: {other:?}"),
    };
    let hint = "nothing of the transaction was kept; publish to another stream";
    wrong("sql_failed", format!("nothing can be published to {stream}: {why}"), hint.to_owned())
}
