//! `/v1/doctor`: what stands in the way of what, and what to do about it. `tidewire doctor` prints it.
//!
//! Nothing is changed by looking. A check that cannot be made is itself a finding, so that one database that does not
//! answer hides nothing else.

use axum::extract::Request;
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use tidewire_query::nearest;
use tidewire_store::{CaptureMode, CaptureView, StoreError, WatchView};

use super::Answer;
use crate::document::{only, uncached};
use crate::node::Node;

/// Changes that wait longer for their place in the log are worth a word: it takes milliseconds.
const WAITING_MS_MAX: u64 = 10_000;

/// Names that are written out, at most; a database may have thousands of tables.
const NAMES_SHOWN_MAX: usize = 20;

/// How something was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
            let missing = node.rules.without_table();
            let missing: Vec<&str> = missing.iter().map(|name| &**name).collect();
            checks.push(rules(node.options.tables.len(), &missing, watches));
        }
        Err(error) => checks.push(Check::unknown("tables", error)),
    }
    let checks: Value = checks.iter().map(Check::shown).collect();
    let time_ms = jiff::Timestamp::now().as_millisecond();
    let version = env!("CARGO_PKG_VERSION");
    let document =
        json!({ "version": version, "node": node.id, "time_ms": time_ms, "checks": checks });
    Ok(uncached(StatusCode::OK, document))
}

async fn store(node: &Node) -> Check {
    let backend = node.store.backend();
    match node.store.tip().await {
        Ok(tip) => {
            let tip = node.offset(tip);
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

/// The configured row rules, and those without a table that they are about.
fn rules(configured: usize, missing: &[&str], watches: &[WatchView]) -> Check {
    if missing.is_empty() {
        let text = match configured {
            0 => "none is configured".to_owned(),
            count => format!("{count} configured, each for a watched table"),
        };
        return Check::new("rules", Status::Good, text);
    }
    let text = format!("{} of {configured} name no watched table", missing.len());
    let mut check = Check::new("rules", Status::Bad, text);
    for name in missing.iter().take(NAMES_SHOWN_MAX) {
        let near = nearest(name, watches.iter().map(|watch| watch.table.as_str()));
        let meant = near.map_or_else(String::new, |near| format!("did you mean {near}? "));
        check = check
            .todo(format!("[tables.{name}]: {meant}Correct the name, or: tidewire watch {name}"));
    }
    check
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
    fn a_rule_without_its_table_is_bad_and_names_the_nearest() {
        let watches = [watch("orders", &["id"]), watch("customers", &["id"])];
        let found = rules(3, &["Orders", "custmers"], &watches);
        assert_eq!(found.status, Status::Bad);
        let todo = found.todo.join("\n");
        assert!(todo.contains("[tables.Orders]: did you mean orders?"), "{todo}");
        assert!(todo.contains("[tables.custmers]: did you mean customers?"), "{todo}");
        assert_eq!(found.todo.len(), 2, "{todo}");
        assert_eq!(rules(1, &[], &watches).status, Status::Good);
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
