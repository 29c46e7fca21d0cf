//! One live query: the request to the server, and what each answer does. Pure.

use super::result::{ChangePart, QueryBegun, QueryResult, ResultUpdate, RowText};
use super::wire::{Created, Sql};

#[derive(Debug)]
pub(super) struct Query {
    sql: Sql,
    pub(super) result: QueryResult,
}

impl Query {
    pub(super) fn new(sql: Sql) -> Query {
        Query { sql, result: QueryResult::default() }
    }

    /// What the server is asked for.
    pub(super) fn asked(&self) -> Sql {
        let etag = self.result.about().etag.clone().filter(|_| self.ask_from().is_some());
        Sql { etag, ..self.sql.clone() }
    }

    /// Where to go on; nothing: with all rows.
    pub(super) fn ask_from(&self) -> Option<String> {
        self.result.resumes_at().map(ToOwned::to_owned)
    }

    /// The server has begun. What was asked for from an offset goes on there, unless it says otherwise.
    pub(super) fn begin(&mut self, created: &Created<'_>) -> ResultUpdate {
        let about = QueryBegun {
            live_id: created.live_id.clone().unwrap_or_default(),
            columns: created.columns.clone().unwrap_or_default(),
            plan: created.plan.clone().unwrap_or_default(),
            etag: created.etag.clone(),
        };
        let goes_on = !created.reset && self.ask_from().is_some();
        let rows = created.initial_results.clone();
        self.result.begin(about, created.offset.as_deref(), goes_on, rows, created.more)
    }

    pub(super) fn batch(&mut self, rows: Vec<RowText>, more: bool) -> ResultUpdate {
        self.result.batch(rows, more)
    }

    pub(super) fn change(&mut self, part: ChangePart) -> ResultUpdate {
        self.result.change(part)
    }

    pub(super) fn settled(&mut self, offset: &str) -> ResultUpdate {
        self.result.settled(offset)
    }

    pub(super) fn interrupt(&mut self) {
        self.result.interrupt();
    }

    /// What is here is not to be gone on with.
    pub(super) fn begin_anew(&mut self) {
        self.result.forget_offset();
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::state::State;
    use super::super::update::Update;
    use super::super::wire::{Message, Request, Sql};

    fn state() -> State {
        let mut state = State::new(true);
        let sql = "SELECT n FROM t WHERE n > $1".to_owned();
        state.subscribe_to_query("q", Sql { sql, params: vec![1.into()], etag: None });
        state
    }

    fn asked(state: &mut State) -> String {
        let [request @ Request::Subscribe { .. }] = &state.take_requests()[..] else {
            panic!("one request");
        };
        serde_json::to_string(request).expect("JSON")
    }

    fn hear(state: &mut State, message: &str) -> Vec<String> {
        let frame = Bytes::from(message.to_owned());
        state.receive(Message::parse(&frame).expect("a message"));
        let mut told = Vec::new();
        while let Some(update) = state.next_update() {
            told.push(match update {
                Update::ResultBegan { offset, .. } => format!("began {offset:?}"),
                Update::ResultChanged { changes, offset, .. } => {
                    format!("{} changed {offset:?}", changes.len())
                }
                Update::ResultSettled { offset, .. } => format!("settled {offset:?}"),
                other => format!("{other:?}"),
            });
        }
        told
    }

    fn rows(state: &State) -> String {
        let result = state.result("q").expect("a result");
        result.rows().iter().map(|row| &**row).collect::<Vec<_>>().join(" ")
    }

    const CREATED: &str = r#"{"type":"subscription_created","subscriptions":[{"query_id":"q",
        "live_id":"l1","offset":"5","etag":"e","columns":[{"name":"n","type":"int4"}],"plan":"filter",
        "reset":false,"row_count":1,"more":false,"initial_results":[{"n":2}]}]}"#;
    const INSERTED: &str = r#"{"type":"change","query_id":"q","change_type":"INSERT","rows":[{"n":3}],
        "offset":"6","part":0,"more":false,"txid":9}"#;

    #[test]
    fn a_query_is_kept_and_goes_on_after_a_break() {
        let mut state = state();
        assert_eq!(
            asked(&mut state),
            r#"{"type":"subscribe","subscriptions":[{"query_id":"q","sql":"SELECT n FROM t WHERE n > $1","params":[1]}]}"#
        );
        assert_eq!(hear(&mut state, CREATED), ["began Some(\"5\")"]);
        assert_eq!(state.result("q").expect("a result").about().plan, "filter");
        assert_eq!(hear(&mut state, INSERTED), ["1 changed Some(\"6\")"]);
        assert_eq!(rows(&state), r#"{"n":2} {"n":3}"#);
        hear(&mut state, r#"{"type":"progress","offset":"7"}"#);
        state.disconnected();
        let again = asked(&mut state);
        assert!(again.contains(r#""etag":"e","offset":"7""#), "{again}");
        let on = CREATED.replace("\"5\"", "\"7\"").replace("{\"n\":2}", "");
        assert_eq!(hear(&mut state, &on), ["settled Some(\"7\")"]);
        assert_eq!(hear(&mut state, INSERTED), [""; 0]);
        assert_eq!(rows(&state), r#"{"n":2} {"n":3}"#);
    }

    #[test]
    fn fresh_rows_take_the_place_of_all_others() {
        let mut state = state();
        asked(&mut state);
        hear(&mut state, CREATED);
        hear(&mut state, INSERTED);
        let reset = CREATED.replace("\"reset\":false", "\"reset\":true").replace("\"5\"", "null");
        let reset = reset.replace("\"more\":false", "\"more\":true");
        assert_eq!(hear(&mut state, &reset), [""; 0]);
        let batch =
            r#"{"type":"initial_batch","query_id":"q","part":1,"more":false,"rows":[{"n":7}]}"#;
        assert_eq!(hear(&mut state, batch), ["began None"]);
        assert_eq!(rows(&state), r#"{"n":2} {"n":7}"#);
        let settled = r#"{"type":"progress","query_id":"q","offset":"8"}"#;
        assert_eq!(hear(&mut state, settled), ["settled Some(\"8\")"]);
    }

    #[test]
    fn a_result_that_is_out_of_step_is_had_anew() {
        let mut state = state();
        asked(&mut state);
        hear(&mut state, CREATED);
        let stray = INSERTED.replace("INSERT", "DELETE");
        assert_eq!(hear(&mut state, &stray), [""; 0]);
        let again = asked(&mut state);
        assert!(!again.contains("offset"), "{again}");
        assert_eq!(hear(&mut state, CREATED), ["began Some(\"5\")"]);
    }

    #[test]
    fn a_query_that_fails_ends_with_what_the_server_says_of_it() {
        let mut state = state();
        asked(&mut state);
        let refused = r#"{"type":"error","query_id":"q","code":"column_not_found","message":"no totl",
            "hint":"total","temporary":false,"position":8}"#;
        let told = hear(&mut state, refused);
        assert!(told[0].contains("position: Some(8)"), "{told:?}");
        assert!(state.result("q").is_none());
    }
}
