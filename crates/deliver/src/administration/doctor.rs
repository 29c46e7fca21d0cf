//! `/v1/doctor`: which problems the server sees, and what to do about each. `tidewire doctor` prints it.
//!
//! Nothing is changed by looking. A check that cannot be made is itself a finding, so that one database that does not
//! answer hides nothing else.

use std::time::Duration;

use axum::extract::Request;
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use tidewire_store::{CaptureMode, CaptureView, RepairView, StoreError, WatchView};

use super::Answer;
use crate::document::{only, uncached};
use crate::node::Node;
use tidewire_hub::row_filter::WrongRules;

/// Changes that wait longer for their place in the log are worth a word: it takes milliseconds.
const WAITING_MS_MAX: u64 = 10_000;

/// Names that are written out, at most; a database may have thousands of tables.
const NAMES_SHOWN_MAX: usize = 20;

/// How something was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Status {
    Good,
    /// It may be meant so.
    Note,
    Bad,
}

#[derive(Debug)]
struct Check {
    name: &'static str,
    status: Status,
    text: String,
    /// What to do, in words.
    todo: Vec<String>,
    /// What to run in the database.
    run: Vec<String>,
}

impl Check {
    fn new(name: &'static str, status: Status, text: impl Into<String>) -> Check {
        Check { name, status, text: text.into(), todo: Vec::new(), run: Vec::new() }
    }

    fn todo(mut self, what: impl Into<String>) -> Check {
        self.todo.push(what.into());
        self
    }

    /// A check that the store did not let us make.
    fn unknown(name: &'static str, error: &StoreError) -> Check {
        Check::new(name, Status::Bad, format!("it cannot be looked at: {error}"))
    }

    fn shown(&self) -> Value {
        let status = match self.status {
            Status::Good => "good",
            Status::Note => "note",
            Status::Bad => "bad",
        };
        let Check { name, text, todo, run, .. } = self;
        json!({ "name": name, "status": status, "text": text, "todo": todo, "run": run })
    }
}

/// Looks at everything. The caller was found to be an administrator.
pub(crate) async fn handle(node: &Node, request: Request) -> Answer {
    only(&request, &[Method::GET])?;
    drop(request);
    let watches = node.store.watches().await;
    let mut checks = vec![store(node).await, capture(node, watches.as_deref()).await];
    checks.push(live_queries(node).await);
    match &watches {
        Ok(watches) => {
            checks.push(tables(watches));
            let looked = node.access.names.look(&node.store, Duration::ZERO).await;
            checks.push(match looked {
                Ok(()) => rules(node.options.tables.len(), &node.hub.wrong_rules().await),
                Err(error) => Check::unknown("rules", &error),
            });
        }
        Err(error) => checks.push(Check::unknown("tables", error)),
    }
    let checks: Value = checks.iter().map(Check::shown).collect();
    let time_ms = jiff::Timestamp::now().as_millisecond();
    let version = env!("CARGO_PKG_VERSION");
    let document =
        json!({ "version": version, "node": node.hub.id, "time_ms": time_ms, "checks": checks });
    Ok(uncached(StatusCode::OK, document))
}

async fn store(node: &Node) -> Check {
    let backend = node.store.backend();
    match node.store.tip().await {
        Ok(tip) => {
            let tip = node.hub.offset(tip);
            Check::new("store", Status::Good, format!("{backend}; the log ends at {tip}"))
        }
        Err(error) => Check::new("store", Status::Bad, format!("{backend}: {error}")).todo(
            "start the database, or correct the address that the server was given (--database)",
        ),
    }
}

async fn capture(node: &Node, watches: Result<&[WatchView], &StoreError>) -> Check {
    match node.store.capture().await {
        Ok(view) => captured(&view, watches.is_ok_and(|watches| !watches.is_empty())),
        Err(error) => Check::unknown("capture", &error),
    }
}

/// How changes come into the log. That nobody brings them is bad only where there are tables to watch.
fn captured(view: &CaptureView, has_tables: bool) -> Check {
    let mode = if view.decided { view.mode.as_str() } else { "undecided" };
    let text = match view.reason.as_str() {
        "" => mode.to_owned(),
        reason => format!("{mode}: {reason}"),
    };
    let mut check = Check::new("capture", Status::Good, text);
    if !view.advice.is_empty() {
        check.status = Status::Note;
        check.todo.clone_from(&view.advice);
    }
    if view.waiting_ms > WAITING_MS_MAX {
        check.status = Status::Note;
        let waits = format!("{} changes wait, the oldest for {} ms", view.waiting, view.waiting_ms);
        check = check.todo(format!("{waits}: look at the servers' logs"));
    }
    if view.failed > 0 {
        check.status = Status::Note;
        check = check
            .todo(format!("{} changes are tried again: the server's log says why", view.failed));
    }
    if view.dead > 0 {
        check.status = Status::Bad;
        check =
            check.todo(format!("{} changes were given up: the server's log says why", view.dead));
    }
    for repair in view.repairs.iter().take(NAMES_SHOWN_MAX) {
        check.status = check.status.max(Status::Note);
        let RepairView { table, why, .. } = repair;
        let told = match repair.events {
            Some(count) => format!("followers were told the difference ({count} events)"),
            None => "followers were told to read it again".to_owned(),
        };
        check = check.todo(format!("{table} was changed past capture: {why}; {told}"));
    }
    if view.mode != CaptureMode::Embedded && view.leader.is_none() && has_tables {
        check.status = Status::Bad;
        check = check.todo("no node brings changes into the log: look at the servers' logs");
    }
    check
}

async fn live_queries(node: &Node) -> Check {
    const NAME: &str = "live queries";
    if !node.options.queries.enabled {
        return Check::new(NAME, Status::Note, "switched off (queries.enabled)");
    }
    match node.store.live_query_needs(None).await {
        Ok(run) => needed(NAME, run),
        Err(error) => Check::unknown(NAME, &error),
    }
}

fn needed(name: &'static str, run: Vec<String>) -> Check {
    if run.is_empty() {
        return Check::new(name, Status::Good, "they can be read");
    }
    let text = "the database does not let the server read for them yet";
    let check = Check { run, ..Check::new(name, Status::Bad, text) };
    check.todo("let a superuser, or the owner of what is named, run this in the database")
}

fn tables(watches: &[WatchView]) -> Check {
    if watches.is_empty() {
        return Check::new("tables", Status::Note, "none is watched")
            .todo("to follow the changes of a table: tidewire watch TABLE");
    }
    let text = format!("{} watched: {}", watches.len(), named(watches.iter().map(|it| &*it.table)));
    let mut check = Check::new("tables", Status::Good, text);
    let keyless: Vec<&str> =
        watches.iter().filter(|it| it.key_columns.is_empty()).map(|it| &*it.table).collect();
    if !keyless.is_empty() {
        check.status = Status::Note;
        let names = named(keyless.iter().copied());
        check = check.todo(format!(
            "without a key the whole row tells rows apart, and entities cannot be followed: {names}. Give the table \
             a primary key and watch it again, or watch it with --key"
        ));
    }
    check
}

/// The row rules: those of the configuration, and those of keys and tokens.
fn rules(configured: usize, wrong: &WrongRules) -> Check {
    let text = match configured {
        0 => "none is configured".to_owned(),
        count => format!("{count} configured"),
    };
    let (status, text) = match (wrong.configured.is_empty(), wrong.others.is_empty()) {
        (true, true) if configured == 0 => (Status::Good, text),
        (true, true) => (Status::Good, format!("{text}, and each can be kept")),
        (true, false) => (Status::Note, text),
        (false, _) => (Status::Bad, format!("{text}, and not all can be kept")),
    };
    let mut todo: Vec<String> = wrong.configured.iter().chain(&wrong.others).cloned().collect();
    let more = todo.len().saturating_sub(NAMES_SHOWN_MAX);
    if more > 0 {
        todo.truncate(NAMES_SHOWN_MAX);
        todo.push(format!("and {more} more, which the server's log has"));
    }
    Check { todo, ..Check::new("rules", status, text) }
}

/// Names, as many as are read with pleasure.
fn named<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = names.len().saturating_sub(NAMES_SHOWN_MAX);
    let shown: Vec<&str> = names.take(NAMES_SHOWN_MAX).collect();
    match more {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(table: &str, key_columns: &[&str]) -> WatchView {
        WatchView {
            table: table.to_owned(),
            stream: format!("table/{table}"),
            key_columns: key_columns.iter().map(|&name| name.to_owned()).collect(),
            entity_code: None,
            host_column: None,
            user_column: None,
            created_at_ms: 0,
            events: 0,
            last: None,
            waiting: 0,
            waiting_ms: 0,
            notes: Vec::new(),
        }
    }

    fn view(mode: CaptureMode) -> CaptureView {
        CaptureView {
            mode,
            decided: true,
            reason: String::new(),
            advice: Vec::new(),
            leader: Some("node".to_owned()),
            waiting: 0,
            waiting_ms: 0,
            failed: 0,
            dead: 0,
            retained_wal_bytes: None,
            repairs: Vec::new(),
        }
    }

    #[test]
    fn rules_that_cannot_be_kept_are_bad_and_those_of_others_are_noted() {
        let wrong = |configured: usize, others: usize| WrongRules {
            configured: vec!["[tables.a] read: no such column".to_owned(); configured],
            others: vec!["key 1: no such table".to_owned(); others],
        };
        assert_eq!(rules(1, &wrong(0, 0)).status, Status::Good);
        assert_eq!(rules(0, &wrong(0, 1)).status, Status::Note);
        let found = rules(2, &wrong(1, 1));
        assert_eq!((found.status, found.todo.len()), (Status::Bad, 2), "{found:?}");
        let found = rules(90, &wrong(90, 0));
        assert_eq!(found.todo.len(), NAMES_SHOWN_MAX + 1, "{found:?}");
        assert!(found.todo[NAMES_SHOWN_MAX].contains("70 more"), "{found:?}");
    }

    #[test]
    fn tables_without_a_key_are_noted() {
        assert_eq!(tables(&[]).status, Status::Note);
        assert_eq!(tables(&[watch("orders", &["id"])]).status, Status::Good);
        let found = tables(&[watch("orders", &["id"]), watch("notes", &[])]);
        assert_eq!(found.status, Status::Note);
        assert!(found.todo[0].contains("notes") && !found.todo[0].contains("orders"), "{found:?}");
    }

    #[test]
    fn capture_without_anyone_at_work_is_bad_where_there_is_work() {
        let orphaned = CaptureView { leader: None, ..view(CaptureMode::Outbox) };
        assert_eq!(captured(&orphaned, true).status, Status::Bad);
        assert_eq!(captured(&orphaned, false).status, Status::Good);
        let embedded = CaptureView { leader: None, ..view(CaptureMode::Embedded) };
        assert_eq!(captured(&embedded, true).status, Status::Good);
        let given_up = CaptureView { dead: 1, ..view(CaptureMode::Wal) };
        assert_eq!(captured(&given_up, true).status, Status::Bad);
        let advised =
            CaptureView { advice: vec!["wal_level".to_owned()], ..view(CaptureMode::Outbox) };
        assert_eq!(captured(&advised, true).status, Status::Note);
    }

    #[test]
    fn what_live_queries_need_is_to_be_run() {
        let found = needed("live queries", vec!["GRANT a TO b".to_owned()]);
        assert_eq!((found.status, &found.run[..]), (Status::Bad, &["GRANT a TO b".to_owned()][..]));
        assert_eq!(needed("live queries", Vec::new()).status, Status::Good);
    }
}
