//! Everyone tries everything: `access_matrix.md`, row by row, with every credential there is.
//!
//! Of each attempt: it ends as the matrix says; one who is refused is told nothing, and nothing is
//! different afterwards; and a refusal about something that is there is the same, byte for byte, as
//! one about something that is not.
//!
//! That the matrix knows every route and every message is a test of those who add them: in the
//! modules `router` and `live::message` of `tidewire-deliver`.

mod attempt;
mod callers;
mod table;
mod things;

use reqwest::Method;
use tidewire_stories::{Answer, Store, eventually, on_both_stores};

use attempt::{Outcome, attempt};
use callers::{Caller, Callers};
use table::{Cell, Row, Verb};
use things::Things;

on_both_stores!(everyone_gets_what_the_matrix_says);

/// I6: no event and no error text reaches someone who may not read it.
async fn everyone_gets_what_the_matrix_says(store: Store) {
    let callers = Callers::start(&store).await;
    for row in table::rows() {
        Box::pin(try_row(&callers, &row)).await;
    }
}

async fn try_row(callers: &Callers, row: &Row) {
    let things = Things::make(callers, row).await;
    let onlooker = callers.of("writer").next().expect("a writer");
    let before = things.look(callers, onlooker).await;
    for (column, cell) in &row.cells {
        assert!(callers.of(column).next().is_some(), "nobody is of the column {column}");
        for caller in callers.of(column) {
            let trial = Trial { callers, row, caller, cell: *cell };
            if cell.refused() || row.verb == Verb::Http(Method::GET) {
                trial.changes_nothing(&things).await;
            } else {
                // What may be done once may not be possible again.
                trial.succeeds(&Things::make(callers, row).await).await;
            }
        }
    }
    let after = things.look(callers, onlooker).await;
    assert_eq!(before, after, "{}: those who were refused have changed something", row.name);
}

/// One cell of the matrix, and one of those it is about.
struct Trial<'a> {
    callers: &'a Callers,
    row: &'a Row,
    caller: &'a Caller,
    cell: Cell,
}

impl Trial<'_> {
    fn about(&self) -> String {
        format!("{} by {} ({})", self.row.name, self.caller.column, self.caller.name)
    }

    /// Is refused, or looks and no more.
    async fn changes_nothing(&self, things: &Things) {
        let things = things.with_own(self.callers, self.row, self.caller).await;
        let outcome = self.attempt(&things).await;
        self.check(&things, &outcome);
        // That a name is taken must be told to those who want to have it; and that something was
        // there, to those who may know.
        let comparable = self.cell.refused() && ![409, 410].contains(&self.cell.status);
        if comparable && Things::exist_for(self.row) {
            let other = self.attempt(&things.absent()).await;
            assert_eq!(outcome, other, "{}: what is there, and what is not", self.about());
        }
    }

    async fn succeeds(&self, things: &Things) {
        let things = things.with_own(self.callers, self.row, self.caller).await;
        let look = async || things.look(self.callers, self.caller).await;
        let (about, before) = (self.about(), look().await);
        let outcome = self.attempt(&things).await;
        self.check(&things, &outcome);
        if self.cell.changes {
            eventually(&format!("{about}: it is done"), async || {
                (look().await != before).then_some(())
            })
            .await;
        } else {
            assert_eq!(look().await, before, "{about}: something is different");
        }
    }

    async fn attempt(&self, things: &Things) -> Outcome {
        let wakes = self.caller.column == "wake";
        let token = if wakes { &things.token } else { &self.caller.token };
        attempt(self.callers.admin(), self.row, token.as_deref(), things, self.cell).await
    }

    /// Checks that an attempt ended as the matrix says, and what was told.
    fn check(&self, things: &Things, outcome: &Outcome) {
        let (about, Trial { row, cell, .. }) = (self.about(), self);
        let told = outcome.said.contains(&things.content);
        assert_eq!(told, cell.shown, "{about}: whether the content is in {outcome:?}");
        // Another tenant is not told whatever else it may do; and one's own cookie is a credential.
        let foreign = ["foreign", "user"].contains(&self.caller.column);
        let private = things.private(self.caller).filter(|_| cell.refused() || foreign);
        let secrets = self.callers.secrets().iter().filter(|_| cell.refused());
        for secret in secrets.map(String::as_str).chain(private) {
            assert!(!outcome.said.contains(secret), "{about}: {secret} is in {outcome:?}");
        }
        if !cell.refused() {
            let status = if row.verb == Verb::WebSocket { 101 } else { cell.status };
            assert_eq!(outcome.status, Some(status), "{about}: {outcome:?}");
            return;
        }
        let code = row.code(self.caller.column, cell.status);
        if row.verb != Verb::Http(Method::HEAD) {
            assert_eq!(outcome.code.as_deref(), Some(code), "{about}: {outcome:?}");
        }
        match outcome.status {
            Some(status) => {
                assert_eq!(status, cell.status, "{about}: {outcome:?}");
                let asks = outcome.said.contains("www-authenticate: Bearer");
                assert_eq!(asks, status == 401, "{about}: {outcome:?}");
            }
            None => {
                let closed = Row::closes(code).then_some(1008);
                assert_eq!(outcome.closed, closed, "{about}: {outcome:?}");
            }
        }
    }
}

/// I6: methods that a route does not know are refused, so that one which is added, and not to the
/// matrix, is found here. A browser's question is answered to anyone, with nothing.
#[tokio::test(flavor = "multi_thread")]
async fn methods_that_the_matrix_does_not_know_are_refused() {
    let store = Store::sqlite();
    let callers = Callers::start(&store).await;
    let [admin, nobody] = ["admin", "none"].map(|column| callers.of(column).next().expect("one"));
    let rows = table::rows();
    for row in &rows {
        let things = Things::make(&callers, row).await.with_own(&callers, row, admin).await;
        let (route, path) = (row.route(), things.fill(&row.path));
        let known = |method: &Method| {
            let get = |other: &Row| other.verb == Verb::WebSocket && *method == Method::GET;
            let asked = |other: &Row| other.verb == Verb::Http(method.clone()) || get(other);
            rows.iter().any(|other| other.route() == route && asked(other))
        };
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "TRACE"] {
            let method: Method = method.parse().expect("a method");
            // HEAD is GET without a body, where a route knows it.
            if known(&method) || (method == Method::HEAD && known(&Method::GET)) {
                continue;
            }
            let status = async |caller: &Caller| {
                Answer::of(callers.http(caller).request(method.clone(), &path)).await.status
            };
            let (by_admin, by_nobody) = (status(admin).await, status(nobody).await);
            assert!([404, 405, 426].contains(&by_admin), "{method} {path}: {by_admin}");
            assert!([401, 405, 426].contains(&by_nobody), "{method} {path}: {by_nobody}");
        }
        let answer = Answer::of(callers.http(nobody).request(Method::OPTIONS, &path)).await;
        assert_eq!((answer.status, answer.text()), (204, String::new()), "OPTIONS {path}");
    }
}
