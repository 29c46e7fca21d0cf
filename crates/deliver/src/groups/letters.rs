//! Letters: what was set aside, to look at, to work off again, to give up.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, Method, Response, StatusCode, header};
use bytes::{BufMut, BytesMut};
use serde::Deserialize;
use serde_json::json;

use tidewire_store::groups::{
    Key, LETTERS_BYTES_MAX, LetterPage, LetterSelection, LetterState, LetterView,
};
use tidewire_store::{Epoch, PageLimit, Position};

use super::Answer;
use super::dispatchers::GroupDispatchers;
use super::event::{put_event, put_text};
use super::problem::{self, invalid};
use crate::body;
use crate::document::method_not_allowed;
use crate::document::{only, parse, uncached};
use crate::query_string;
use tidewire_access::auth::{Identity, audit};
use tidewire_access::budget::PrepaidBody;
use tidewire_access::problem::Problem;
use tidewire_hub::offset::parse_offset;
use tidewire_wire::clock::moment;

/// Letters of one answer, for who does not say how many, and at most.
const LIMIT: usize = 100;
const LIMIT_MAX: usize = 1_000;

/// What a query asks for.
#[derive(Debug, PartialEq, Eq)]
struct Query {
    after: Position,
    limit: usize,
    state: Option<LetterState>,
}

fn query(text: &str, epoch: Epoch) -> Result<Query, Problem> {
    let mut query = Query { after: Position::START, limit: LIMIT, state: None };
    for (name, value) in query_string::pairs(text) {
        match &*name {
            "after" => query.after = parse_offset(&value, epoch)?,
            "limit" => {
                let limit = value.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
                let wrong = || invalid(format!("limit is 1 to {LIMIT_MAX}"));
                query.limit = limit.ok_or_else(wrong)?;
            }
            "state" => {
                let wrong = || invalid("state is dead or parked".to_owned());
                query.state = Some(LetterState::parse(&value).ok_or_else(wrong)?);
            }
            _ => {}
        }
    }
    Ok(query)
}

/// `GET …/dead`.
pub(super) async fn list(dispatchers: &GroupDispatchers, group: &str, request: Request) -> Answer {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Err(method_not_allowed("GET, HEAD"));
    }
    let epoch = dispatchers.hub.store.epoch();
    let Query { after, limit, state } = query(request.uri().query().unwrap_or_default(), epoch)?;
    dispatchers.hub.access.memory.make_room()?;
    let bytes_max = dispatchers.hub.options.groups.batch_bytes.min(LETTERS_BYTES_MAX);
    let mut place = dispatchers.room.take(LETTERS_BYTES_MAX).await?;
    let store = &dispatchers.store;
    let limit = PageLimit { events: limit, bytes: LETTERS_BYTES_MAX };
    let page = store.letters(group, after, limit, state).await?;
    if page.letters.is_empty() && store.group(group).await?.is_none() {
        return Err(problem::not_found());
    }
    let (letters, more) = within(page, bytes_max);
    place.shrink_to(letters.iter().map(|view| view.letter.event.bytes()).sum());
    let mut out = BytesMut::new();
    out.put_slice(b"{\"letters\":[");
    for (index, letter) in letters.iter().enumerate() {
        if index > 0 {
            out.put_u8(b',');
        }
        put_letter(&mut out, letter, epoch);
    }
    out.put_slice(b"],\"next_after\":");
    let last = letters.last().filter(|_| more).map(|view| view.letter.event.position);
    put_text(&mut out, last.map(|last| dispatchers.hub.offset(last).to_string()).as_deref());
    out.put_u8(b'}');
    let mut response = Response::new(Body::from(place.until_sent(out.freeze())));
    response.extensions_mut().insert(PrepaidBody);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// As many letters as an answer holds, and whether there are more. One is always among them.
fn within(page: LetterPage, bytes_max: usize) -> (Vec<LetterView>, bool) {
    let LetterPage { mut letters, more } = page;
    let mut bytes = 0;
    let held = letters.iter().take_while(|view| {
        let first = bytes == 0;
        bytes += view.letter.event.bytes();
        first || bytes <= bytes_max
    });
    let held = held.count();
    let more = more || held < letters.len();
    letters.truncate(held);
    (letters, more)
}

fn put_letter(out: &mut BytesMut, view: &LetterView, epoch: Epoch) {
    let (partition, state) = (view.partition, view.state.as_str());
    out.put_slice(
        format!("{{\"partition\":{partition},\"state\":\"{state}\",\"error\":").as_bytes(),
    );
    let error = Some(view.letter.error.as_str()).filter(|_| view.state == LetterState::Dead);
    put_text(out, error);
    out.put_slice(format!(",\"attempts\":{},\"died_at\":", view.letter.attempts).as_bytes());
    put_text(out, Some(&moment(view.died_at_ms)));
    out.put_slice(format!(",\"redrive\":{},\"event\":", view.redrive).as_bytes());
    put_event(out, &view.letter.event, epoch);
    out.put_u8(b'}');
}

/// LetterSelection letters a request is about.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LettersJson {
    #[serde(default)]
    all: bool,
    host_id: Option<String>,
    user_id: Option<String>,
    offset: Option<String>,
    #[serde(default)]
    with_parked: bool,
}

impl LettersJson {
    fn which(&self, epoch: Epoch) -> Result<LetterSelection, Problem> {
        let key = self.host_id.is_some() || self.user_id.is_some();
        match (self.all, key, &self.offset) {
            (true, false, None) => Ok(LetterSelection::All),
            (false, true, None) => {
                Ok(LetterSelection::Key(Key::of(self.host_id.as_deref(), self.user_id.as_deref())))
            }
            (false, false, Some(offset)) => {
                Ok(LetterSelection::Offset(parse_offset(offset, epoch)?))
            }
            _ => Err(invalid(
                "say which letters: {\"all\": true}, {\"host_id\", \"user_id\"} or {\"offset\"}"
                    .to_owned(),
            )),
        }
    }
}

async fn read(
    dispatchers: &GroupDispatchers,
    group: &str,
    request: Request,
) -> Result<(LettersJson, LetterSelection), Problem> {
    only(&request, &[Method::POST])?;
    let bytes = body::read(request, &dispatchers.hub.access).await?;
    let document: LettersJson = parse(&bytes, invalid)?;
    let which = document.which(dispatchers.hub.store.epoch())?;
    if dispatchers.store.group(group).await?.is_none() {
        return Err(problem::not_found());
    }
    Ok((document, which))
}

fn some(count: u64, which: &LetterSelection) -> Result<u64, Problem> {
    if count > 0 || *which == LetterSelection::All {
        return Ok(count);
    }
    Err(Problem::new(
        StatusCode::NOT_FOUND,
        "letter_not_found",
        "the group has no such letter",
        "GET /v1/groups/{group}/dead lists those that it has",
    ))
}

/// `POST …/dead/redrive`.
pub(super) async fn redrive(
    dispatchers: &GroupDispatchers,
    group: &str,
    request: Request,
    identity: &Identity,
) -> Answer {
    let (_, which) = read(dispatchers, group, request).await?;
    let keys = dispatchers.store.redrive(group, &which).await.map_err(problem::of)?;
    let keys = some(keys, &which)?;
    audit::administered(identity, "redrive letters", group);
    dispatchers.look_again(group);
    Ok(uncached(StatusCode::OK, json!({ "keys": keys })))
}

/// `POST …/dead/drop`.
pub(super) async fn drop(
    dispatchers: &GroupDispatchers,
    group: &str,
    request: Request,
    identity: &Identity,
) -> Answer {
    let (document, which) = read(dispatchers, group, request).await?;
    let store = &dispatchers.store;
    let dropped = store.drop_letters(group, &which, document.with_parked).await;
    let letters = some(dropped.map_err(problem::of)?, &which)?;
    audit::administered(identity, "drop letters", group);
    dispatchers.look_again(group);
    Ok(uncached(StatusCode::OK, json!({ "letters": letters })))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidewire_store::groups::Letter;

    use super::super::event::tests::event;
    use super::*;

    fn letters(count: usize) -> Vec<LetterView> {
        let view = |_| LetterView {
            letter: Letter { event: Arc::new(event()), error: String::new(), attempts: 1 },
            partition: 0,
            state: LetterState::Dead,
            died_at_ms: 0,
            redrive: false,
        };
        (1..=count).map(view).collect()
    }

    /// Who lists letters goes on for as long as there are more, whoever has cut the list: the store, which measures
    /// otherwise, or the answer.
    #[test]
    fn a_list_goes_on_while_there_are_more() {
        let size = event().bytes();
        for (more, bytes_max, held, goes_on) in [
            (false, 3 * size, 3, false),
            (true, 3 * size, 3, true),
            (false, 2 * size, 2, true),
            (true, 2 * size, 2, true),
            (false, 0, 1, true),
        ] {
            let page = LetterPage { letters: letters(3), more };
            let (letters, says_more) = within(page, bytes_max);
            assert_eq!((letters.len(), says_more), (held, goes_on), "{more}, {bytes_max} bytes");
        }
    }

    #[test]
    fn letters_are_named_one_way() {
        let which = |text: &str| {
            let document: LettersJson = serde_json::from_str(text).expect(text);
            document.which(Epoch::FIRST).map_err(|problem| problem.code())
        };
        assert_eq!(which(r#"{"all": true}"#), Ok(LetterSelection::All));
        let key = Key::of(Some("h"), None);
        assert_eq!(which(r#"{"host_id": "h"}"#), Ok(LetterSelection::Key(key)));
        assert_eq!(
            which(r#"{"offset": "0001_0000000000000007"}"#),
            Ok(LetterSelection::Offset(Position::new(7)))
        );
        for text in ["{}", r#"{"all": true, "host_id": "h"}"#, r#"{"offset": "", "all": true}"#] {
            assert_eq!(which(text), Err("invalid_group"), "{text}");
        }
    }

    #[test]
    fn a_query_is_read() {
        let read = |text: &str| query(text, Epoch::FIRST).map_err(|problem| problem.code());
        let all = Query { after: Position::START, limit: LIMIT, state: None };
        assert_eq!(read(""), Ok(all));
        let some = read("after=0001_0000000000000007&limit=5&state=dead");
        let dead = Some(LetterState::Dead);
        assert_eq!(some, Ok(Query { after: Position::new(7), limit: 5, state: dead }));
        assert_eq!(read("limit=0"), Err("invalid_group"));
        assert_eq!(read("state=lost"), Err("invalid_group"));
        assert_eq!(read("after=x"), Err("malformed_offset"));
    }
}
