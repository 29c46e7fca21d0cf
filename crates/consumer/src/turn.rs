//! One run of the handler: its timeout, its panic, and what its statements left behind.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tidewire_store::groups::{GroupEvent, Verdict, Work};
use tidewire_store::{Position, SqlError};

use crate::context::{Context, Seen, limits};
use crate::error::HandlerError;
use crate::handler::{Group, Handler};
use crate::policy::sql_is_weather;

/// Why a run failed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fault {
    /// What it means; none: it passes by itself and is not counted.
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

impl Fault {
    fn of(verdict: Verdict, text: String) -> Fault {
        Fault {
            verdict: Some(verdict),
            text,
            named: None,
            after: None,
            busy: false,
            overran: false,
        }
    }

    /// A statement that the library ran for the handler's sake.
    pub(crate) fn of_statement(error: &SqlError) -> Fault {
        match sql_is_weather(error) {
            true => Fault::weather(error.to_string()),
            false => Fault::of(Verdict::Retry, error.to_string()),
        }
    }

    pub(crate) fn weather(text: String) -> Fault {
        Fault { verdict: None, ..Fault::of(Verdict::Retry, text) }
    }

    fn overran(text: String) -> Fault {
        Fault { overran: true, ..Fault::of(Verdict::Retry, text) }
    }
}

/// Runs the handler once over events of one key.
pub(crate) async fn turn(
    handler: &dyn Handler,
    work: &mut dyn Work,
    group: &Group<'_>,
    timeout: Duration,
    savepoint: bool,
) -> Result<(), Fault> {
    work.enter(savepoint);
    let mut seen = Seen::default();
    let mut context = Context::new(work, &mut seen, timeout);
    // Made inside of the future that is watched: a handler may panic before its first await.
    let handling = async { handler.handle(group, &mut context).await };
    let handled = tokio::time::timeout(timeout, AssertUnwindSafe(handling).catch_unwind()).await;
    match handled {
        Err(_) => {
            let text = format!("the handler took longer than {timeout:?} and was cut off");
            Err(Fault { busy: true, ..Fault::of(Verdict::Retry, text) })
        }
        Ok(Err(panic)) => Err(Fault::of(Verdict::Retry, panicked(panic.as_ref()))),
        Ok(Ok(Err(error))) => Err(judged(error, seen)),
        Ok(Ok(Ok(()))) => settled(work, seen, timeout).await,
    }
}

/// What a handler's error means, with what is known of its statements.
fn judged(error: HandlerError, seen: Seen) -> Fault {
    match (error.verdict, seen.overran, seen.weather) {
        (Verdict::Stop, ..) | (_, None, None) => Fault {
            named: error.offset.map(Position::new),
            after: error.after,
            ..Fault::of(error.verdict, error.text)
        },
        (_, Some(overran), _) => Fault::overran(overran),
        (_, _, Some(weather)) => Fault::weather(weather),
    }
}

/// A transaction in which a statement failed is given up, on both stores. A handler that went on nevertheless is
/// told so in its own turn: not when the batch commits, and not in the turn of the next key.
async fn settled(work: &mut dyn Work, seen: Seen, timeout: Duration) -> Result<(), Fault> {
    let Some(failed) = seen.failed else { return Ok(()) };
    match work.sql("SELECT 1", &[], limits(timeout)).await {
        Ok(_) => Ok(()),
        Err(_) if seen.overran.is_some() => Err(Fault::overran(failed)),
        Err(_) if seen.weather.is_some() => Err(Fault::weather(failed)),
        Err(_) => Err(Fault::of(
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
