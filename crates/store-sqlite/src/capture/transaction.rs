//! One transaction of the user's: its statements, and the events that come of them.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, Transaction};

use super::collect::NotUndone;
use super::guard::Savepoint;
use super::problem::{too_slow, wrong};
use super::table::Watched;
use super::{Capture, Guard, foreign, preupdate, run, schema, watched};
use crate::cache::StreamCache;
use crate::error::broken;
use crate::load::{self, LogSnapshot};
use crate::save;
use crate::writer::Writer;
use tidewire_store::command::Actor;
use tidewire_store::decide::{Plan, TransactionStep, Unpublished, commands_of, decide_transaction};
use tidewire_store::error::StoreError;
use tidewire_store::offset::Position;
use tidewire_store::source;
use tidewire_store::sql::{SqlAnswer, SqlError, Statements};

/// Disarms the guard, however the work ends.
struct GuardArmed<'a>(&'a Guard);

impl<'a> GuardArmed<'a> {
    fn new(guard: &'a Guard, statements: &Statements) -> GuardArmed<'a> {
        guard.arm(Duration::from_millis(statements.limits.timeout_ms));
        GuardArmed(guard)
    }
}

impl Drop for GuardArmed<'_> {
    fn drop(&mut self) {
        self.0.disarm();
    }
}

/// Bounds what is done for the user's statements, until it is dropped.
struct TimeLimit<'a>(&'a Guard);

impl<'a> TimeLimit<'a> {
    fn start(guard: &'a Guard, timeout_ms: u64) -> TimeLimit<'a> {
        guard.start_clock(Duration::from_millis(timeout_ms));
        TimeLimit(guard)
    }
}

impl Drop for TimeLimit<'_> {
    fn drop(&mut self) {
        self.0.stop_clock();
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
    let armed = GuardArmed::new(guard, statements);
    if !run::only_read(&snapshot, guard, statements)? {
        return Ok(None);
    }
    let answer = run::run(&snapshot, guard, statements, || Ok(()))?;
    drop(armed);
    Ok(Some(SqlAnswer { offset: Some(tip), ..answer }))
}

/// Runs statements on the writer's connection, in a transaction of their own.
pub(crate) fn write(writer: &mut Writer, statements: &Statements) -> Result<SqlAnswer, SqlError> {
    let timeout_ms = Some(statements.limits.timeout_ms);
    let done =
        transact(writer, &statements.actor, timeout_ms, |capturing| capturing.run(statements));
    let (answer, reached) = done.map_err(|error| match error {
        SqlError::Store(error) => deferred(error),
        wrong => wrong,
    })?;
    Ok(SqlAnswer { offset: Some(reached), ..answer })
}

/// Does work in a transaction in which the user's statements run. What they change in watched tables is in
/// the log by its commit, at the place that is given back. The work is done anew if another process wrote
/// before it began.
///
/// All of it, up to the commit, takes `timeout_ms` at most, where that is given: nobody else can write
/// meanwhile, whether statements run or what they did is brought into the log.
pub(crate) fn transact<T, E: From<StoreError> + From<SqlError>>(
    writer: &mut Writer,
    actor: &Actor,
    timeout_ms: Option<u64>,
    mut work: impl FnMut(&mut Capturing<'_>) -> Result<T, E>,
) -> Result<(T, Position), E> {
    foreign::undisturbed(writer, |writer| {
        let capture = writer.capture();
        let result = writer.commit(|transaction, streams, now_ms| {
            let _clock = timeout_ms.map(|timeout_ms| TimeLimit::start(&capture.guard, timeout_ms));
            // Statements of our own are interrupted too, and must not be taken for a fault of the file.
            let in_time = || match timeout_ms.filter(|_| capture.guard.time_is_up()) {
                Some(timeout_ms) => Err(E::from(too_slow(timeout_ms))),
                None => Ok(()),
            };
            let begun = Capturing::begin(&capture, transaction, actor, now_ms);
            in_time()?;
            let mut capturing = begun?;
            let value = work(&mut capturing)?;
            let ended = capturing.end(streams);
            in_time()?;
            let (plan, reached) = ended?;
            Ok(((value, reached), plan))
        });
        if result.is_err() {
            // What was watched before is watched again, but what is known of it may be of what was
            // undone.
            capture.forget();
        }
        result.map(|(value, _)| value)
    })
}

/// Rules that are checked only at the end are broken by the statements all the same.
pub(crate) fn deferred(error: StoreError) -> SqlError {
    match error {
        StoreError::Broken { reason, .. } if reason.contains("FOREIGN KEY") => {
            let hint = "a row refers to one that is not there at the end of the transaction";
            wrong("sql_constraint", reason, hint.to_owned())
        }
        other => other.into(),
    }
}

impl From<NotUndone> for SqlError {
    fn from(why: NotUndone) -> SqlError {
        match why {
            NotUndone::SchemaChanged => {
                let message = "the schema was changed since the savepoint was set";
                let hint = "change the schema in a request of its own";
                wrong("sql_refused", message, hint.to_owned())
            }
            NotUndone::Incomplete(reason) => incomplete(reason).into(),
        }
    }
}

fn incomplete(reason: String) -> StoreError {
    StoreError::Broken { operation: "capture a change", reason }
}

/// A transaction of the user's while it runs: what its statements change is gathered.
pub(crate) struct Capturing<'a> {
    capture: &'a Capture,
    transaction: &'a Transaction<'a>,
    watched: Vec<Arc<Watched>>,
    /// What became of the watched tables, once a statement has changed the schema.
    followed: Option<schema::TrackedTables>,
    /// How many times one has.
    alterations: usize,
    now_ms: i64,
}

impl<'a> Capturing<'a> {
    fn begin(
        capture: &'a Capture,
        transaction: &'a Transaction<'a>,
        actor: &Actor,
        now_ms: i64,
    ) -> Result<Capturing<'a>, StoreError> {
        foreign::check(capture, transaction)?;
        let watched = capture.watched(transaction).map_err(broken("read what is watched"))?;
        let actor = Actor { reach: tidewire_store::Reach::All, ..actor.clone() };
        capture.collector.begin(actor, &watched);
        let (followed, alterations) = (None, 0);
        Ok(Capturing { capture, transaction, watched, followed, alterations, now_ms })
    }

    /// The transaction, for statements of our own: what they do is not gathered.
    pub(crate) fn transaction(&self) -> &Transaction<'a> {
        self.transaction
    }

    /// What follows is done by somebody.
    pub(crate) fn act_as(&self, actor: &Actor) {
        self.capture.collector.set_actor(actor.user_id.clone(), actor.host_id.clone());
    }

    /// Runs statements of the user's. If they fail, what they did until then is still there, and gathered
    /// in part: the transaction must be undone, or go back to a savepoint.
    pub(crate) fn run(&mut self, statements: &Statements) -> Result<SqlAnswer, SqlError> {
        let Capturing { capture, transaction, watched, followed, alterations, now_ms } = self;
        let (guard, collector) = (&*capture.guard, &*capture.collector);
        let after_each = || {
            if let Some(savepoint) = guard.take_savepoint() {
                collector.savepoint(savepoint, *alterations)?;
            }
            if guard.take_alters() {
                *alterations += 1;
                let followed = followed.get_or_insert_with(|| schema::TrackedTables::new(watched));
                followed.follow(transaction).map_err(broken("look at the schema"))?;
                collector.watch(&followed.watched());
            }
            Ok(())
        };
        let armed = GuardArmed::new(guard, statements);
        let listener =
            |touched: &preupdate::ChangingRow<'_>| collector.note_change(touched, *now_ms);
        let answer = preupdate::listening(transaction, &listener, || {
            run::run(transaction, guard, statements, after_each)
        });
        drop(armed);
        answer.map_err(|_| incomplete("the listener panicked".to_owned()))?
    }

    /// Sets, releases or goes back to a savepoint of our own.
    pub(crate) fn savepoint(&self, savepoint: Savepoint) -> Result<(), SqlError> {
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let sql = match &savepoint {
            Savepoint::Set(name) => format!("SAVEPOINT {}", quoted(name)),
            Savepoint::Release(name) => format!("RELEASE {}", quoted(name)),
            Savepoint::RollBackTo(name) => format!("ROLLBACK TO {}", quoted(name)),
        };
        let done = self.transaction.prepare_cached(&sql).and_then(|mut set| set.execute([]));
        done.map_err(broken("set a savepoint"))?;
        Ok(self.capture.collector.savepoint(savepoint, self.alterations)?)
    }

    /// Releases all savepoints that are set, so that nobody goes back past here.
    pub(crate) fn release_all(&self) -> Result<(), SqlError> {
        let outermost = self.capture.collector.outermost_savepoint();
        outermost.map_or(Ok(()), |name| self.savepoint(Savepoint::Release(name)))
    }

    /// Brings what was gathered into the log. Gives the place that it reached.
    fn end(mut self, streams: &mut StreamCache) -> Result<(Plan, Position), SqlError> {
        let mut steps = self.capture.collector.end().map_err(incomplete)?;
        let outcome = match self.followed.take() {
            None => schema::SchemaOutcome::default(),
            Some(followed) => {
                self.capture.forget();
                let own_names = self.capture.own_names();
                schema::settle(self.transaction, followed, own_names, &mut steps)?
            }
        };
        let (plan, reached) = log(self.transaction, streams, steps, self.now_ms)?;
        let kept = outcome.finish(self.transaction, reached);
        kept.map_err(broken("keep what is watched"))?;
        Ok((plan, reached))
    }
}

impl Drop for Capturing<'_> {
    fn drop(&mut self) {
        // Of a transaction that is undone nothing is kept.
        let _ = self.capture.collector.end();
    }
}

/// Puts a transaction's steps into the log. Gives the place that it reached.
pub(super) fn log(
    transaction: &Transaction<'_>,
    streams: &mut StreamCache,
    steps: Vec<TransactionStep>,
    now_ms: i64,
) -> Result<(Plan, Position), SqlError> {
    let mut rows = LogSnapshot::cached(transaction, streams, now_ms);
    let loaded = source::load(&mut rows, &commands_of(&steps))?;
    let tip = loaded.tip;
    let plan = decide_transaction(loaded, steps).map_err(unpublished)?;
    save::plan(transaction, &plan, now_ms)?;
    watched::count(transaction, &plan.events).map_err(broken("count a table's changes"))?;
    let reached = plan.events.last().map_or(tip, |event| event.position);
    Ok((plan, reached))
}

fn unpublished(Unpublished { stream, refusal }: Unpublished) -> SqlError {
    use tidewire_store::command::Refusal;
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
