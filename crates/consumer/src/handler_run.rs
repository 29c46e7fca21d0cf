//! One run of the handler: its timeout, its panics, and the errors of its statements.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tidewire_store::groups::{GroupEvent, Verdict, Work};
use tidewire_store::{Position, SqlError};

use crate::context::{Context, StatementErrors, limits};
use crate::error::HandlerError;
use crate::handler::{Group, Handler};
use crate::policy::sql_is_transient;

/// Why a run failed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HandlerFailure {
    /// What to do about it; none: it is transient, and the attempt does not count.
    pub verdict: Option<Verdict>,
    /// What happened.
    pub text: String,
    /// The event that the handler named.
    pub named: Option<Position>,
    /// How long the handler wants to wait.
    pub after: Option<Duration>,
    /// Whether the session may still be busy with a statement that nobody waits for: then the
    /// transaction is given up rather than gone on with.
    pub busy: bool,
    /// Whether it was the batch that took too long, with all that came before in it.
    pub overran: bool,
}

impl HandlerFailure {
    fn of(verdict: Verdict, text: String) -> HandlerFailure {
        HandlerFailure {
            verdict: Some(verdict),
            text,
            named: None,
            after: None,
            busy: false,
            overran: false,
        }
    }

    /// A statement that the library ran for the handler's sake.
    pub(crate) fn of_statement(error: &SqlError) -> HandlerFailure {
        match sql_is_transient(error) {
            true => HandlerFailure::transient(error.to_string()),
            false => HandlerFailure::of(Verdict::Retry, error.to_string()),
        }
    }

    pub(crate) fn transient(text: String) -> HandlerFailure {
        HandlerFailure { verdict: None, ..HandlerFailure::of(Verdict::Retry, text) }
    }

    fn overran(text: String) -> HandlerFailure {
        HandlerFailure { overran: true, ..HandlerFailure::of(Verdict::Retry, text) }
    }
}

/// Runs the handler once over events of one key.
pub(crate) async fn run_handler(
    handler: &dyn Handler,
    work: &mut dyn Work,
    group: &Group<'_>,
    timeout: Duration,
    savepoint: bool,
) -> Result<(), HandlerFailure> {
    work.enter(savepoint);
    let mut errors = StatementErrors::default();
    let mut context = Context::new(work, &mut errors, timeout);
    // Made inside of the future that is watched: a handler may panic before its first await.
    let handling = async { handler.handle(group, &mut context).await };
    let handled = tokio::time::timeout(timeout, AssertUnwindSafe(handling).catch_unwind()).await;
    match handled {
        Err(_) => {
            let text = format!("the handler took longer than {timeout:?} and was cut off");
            Err(HandlerFailure { busy: true, ..HandlerFailure::of(Verdict::Retry, text) })
        }
        Ok(Err(panic)) => Err(HandlerFailure::of(Verdict::Retry, panicked(panic.as_ref()))),
        Ok(Ok(Err(error))) => Err(judged(error, errors)),
        Ok(Ok(Ok(()))) => settled(work, errors, timeout).await,
    }
}

/// What a handler's error means, with what is known of its statements.
fn judged(error: HandlerError, errors: StatementErrors) -> HandlerFailure {
    match (error.verdict, errors.overran, errors.transient) {
        (Verdict::Stop, ..) | (_, None, None) => HandlerFailure {
            named: error.offset.map(Position::new),
            after: error.after,
            ..HandlerFailure::of(error.verdict, error.text)
        },
        (_, Some(overran), _) => HandlerFailure::overran(overran),
        (_, _, Some(transient)) => HandlerFailure::transient(transient),
    }
}

/// A failed statement ends the transaction, on both stores. A handler that went on all the same fails in its
/// own run, not when the batch commits and not in the run of the next key.
async fn settled(
    work: &mut dyn Work,
    errors: StatementErrors,
    timeout: Duration,
) -> Result<(), HandlerFailure> {
    let Some(failed) = errors.failed else { return Ok(()) };
    match work.sql("SELECT 1", &[], limits(timeout)).await {
        Ok(_) => Ok(()),
        Err(_) if errors.overran.is_some() => Err(HandlerFailure::overran(failed)),
        Err(_) if errors.transient.is_some() => Err(HandlerFailure::transient(failed)),
        Err(_) => Err(HandlerFailure::of(
            Verdict::Retry,
            format!(
                "a statement failed, and the handler went on: the database has given up the \
                 transaction (use a savepoint where a statement may fail): {failed}"
            ),
        )),
    }
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    format!("the handler panicked: {}", text.as_deref().unwrap_or("without a text"))
}

/// The place of the first of events, of which there is at least one.
pub(crate) fn first(events: &[Arc<GroupEvent>]) -> Position {
    events.first().map_or(Position::START, |event| event.position)
}
