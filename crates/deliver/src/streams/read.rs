//! GET and HEAD: reading what is there. Live reading is in [`live`](super::live) and
//! [`sse`](super::sse).

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Response, StatusCode, header};
use axum::response::IntoResponse;

use tidewire_store::{Lifetime, Page, Position, StreamState, StreamView};

use super::{headers, live, sse};
use crate::node::Node;
use crate::pages::{Format, Rendered};
use crate::query_string;
use tidewire_access::auth::Identity;
use tidewire_access::budget::PrepaidBody;
use tidewire_access::problem::Problem;
use tidewire_access::stream_name::StreamName;
use tidewire_hub::min_offset::MinOffset;
use tidewire_hub::offset::parse_offset;
use tidewire_hub::row_filter::View;
use tidewire_hub::{encode, lookup};

/// Where a read starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    /// After a position; the start of the stream is after position 0.
    After(Position),
    /// At the tail.
    Now,
}

/// What a read asks for in its query string.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) from: Option<From>,
    pub(super) live: Option<Live>,
    pub(super) cursor: Option<String>,
    pub(super) format: Format,
    /// What is wanted of a table's rows.
    filter: Option<String>,
    /// What is seen of the stream, if not all.
    pub(super) view: Option<View>,
    /// How far the log must have come before.
    min_offset: MinOffset,
    /// The offset as it was written, for the ETag.
    offset_text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Live {
    LongPoll,
    Sse,
}

pub(super) async fn get(
    node: &std::sync::Arc<Node>,
    name: StreamName,
    request: &Parts,
    identity: &Identity,
) -> Result<Response<Body>, Problem> {
    let mut query = Query::parse(node, request.uri.query().unwrap_or_default())?;
    query.view = node.hub.view(identity, name.as_str(), query.filter.as_deref()).await?;
    query.min_offset.reached(&node.hub).await?;
    if query.filter.is_some() && query.view.is_none() {
        return Err(where_without_table());
    }
    match (query.live, query.from) {
        (None, Some(From::Now)) => now(node, &name, &query, identity).await,
        (None, from) => {
            let after = match from {
                Some(From::After(position)) => position,
                _ => Position::START,
            };
            let (view, rendered) = catch_up(node, &name, after, &query, identity).await?;
            lookup::renew(&node.hub, &view.state).await;
            let answer = Answer { node, query: &query, identity, view: &view, rendered };
            let mut response = answer.respond(&request.headers);
            response.extensions_mut().insert(PrepaidBody);
            Ok(response)
        }
        (Some(_), None) => Err(Problem::bad_request(
            "live_without_offset",
            "live reading needs an offset to start after",
            "add offset=-1 for the start, offset=now for the tail, or a Stream-Next-Offset",
        )),
        (Some(Live::LongPoll), Some(from)) => {
            live::long_poll(node, &name, from, &query, &request.headers, identity).await
        }
        (Some(Live::Sse), Some(_)) if query.format == Format::Events => Err(Problem::bad_request(
            "format_not_live",
            "format=events does not go with live=sse",
            "leave format out: every data event is followed by a control event with its offset",
        )),
        (Some(Live::Sse), Some(from)) => {
            sse::stream(node, &name, from, &query, request, identity).await
        }
    }
}

/// A page after a position: one that was sent before, if it is still right, or else from the store.
async fn catch_up(
    node: &Node,
    name: &StreamName,
    after: Position,
    query: &Query,
    identity: &Identity,
) -> Result<(StreamView, Rendered), Problem> {
    let (reach, format) = (node.hub.reach(identity, name.as_str()), query.format);
    let kept = node.pages.find(name.as_str(), after, format).filter(|_| query.view.is_none());
    if let Some(kept) = kept {
        let view = lookup::view(&node.hub, name.as_str(), &reach).await?.view;
        lookup::not_lost(&node.hub, &view, after)?;
        if let Some(rendered) = kept.as_of(&view) {
            return Ok((view, rendered));
        }
    }
    let mut page = lookup::page(&node.hub, name.as_str(), &reach, after).await?;
    lookup::beyond_tip(&node.hub, after, &page)?;
    let next = page.next(after);
    node.hub.see(query.view.as_ref(), &mut page).await?;
    let mut rendered = Rendered { next, ..render(node, &page, after, format) };
    // Held once, however many readers get it, and for as long as one of them does.
    rendered.body = node.access.hold_bytes(rendered.body, identity.account())?;
    if query.view.is_none() {
        node.pages.keep(&page, after, format, &rendered, identity.account());
    }
    Ok((page.view, rendered))
}

/// A page as it is sent.
pub(super) fn render(node: &Node, page: &Page, after: Position, format: Format) -> Rendered {
    let state = &page.view.state;
    let body = match format {
        Format::Plain => encode::body(state.is_json(), &page.events),
        Format::Events => encode::events_body(&state.content_type, &page.events, |event| {
            node.hub.offset(event.position)
        }),
    };
    Rendered { next: page.next(after), up_to_date: page.up_to_date(), body }
}

pub(super) async fn head(
    node: &Node,
    name: StreamName,
    identity: &Identity,
) -> Result<Response<Body>, Problem> {
    let seen = node.hub.view(identity, name.as_str(), None).await?;
    let mut page =
        lookup::view(&node.hub, name.as_str(), &node.hub.reach(identity, name.as_str())).await?;
    node.hub.see(seen.as_ref(), &mut page).await?;
    let view = page.view;
    let mut response = StatusCode::OK.into_response();
    let headers = response.headers_mut();
    encode::insert(headers, "content-type", &view.state.content_type);
    encode::insert(headers, headers::NEXT_OFFSET, &node.hub.offset(view.tail).to_string());
    encode::insert(headers, "cache-control", "no-store");
    match view.state.lifetime {
        Lifetime::Forever => {}
        Lifetime::Sliding { ttl_s } => encode::insert(headers, headers::TTL, &ttl_s.to_string()),
        Lifetime::Until { at_ms } => {
            if let Ok(at) = jiff::Timestamp::from_millisecond(at_ms) {
                encode::insert(headers, headers::EXPIRES_AT, &at.to_string());
            }
        }
    }
    if view.state.closed.is_some() {
        encode::insert(headers, headers::CLOSED, "true");
    }
    Ok(response)
}

/// The tail and nothing else. Never cached, since the tail moves.
async fn now(
    node: &Node,
    name: &StreamName,
    query: &Query,
    identity: &Identity,
) -> Result<Response<Body>, Problem> {
    let format = query.format;
    let mut page =
        lookup::view(&node.hub, name.as_str(), &node.hub.reach(identity, name.as_str())).await?;
    // So that what cannot be seen is refused here as well.
    node.hub.see(query.view.as_ref(), &mut page).await?;
    let view = page.view;
    lookup::renew(&node.hub, &view.state).await;
    let json = view.state.is_json() || format == Format::Events;
    let mut response = Response::new(Body::from(if json { "[]" } else { "" }));
    let headers = response.headers_mut();
    encode::insert(headers, "content-type", content_type(&view.state, format));
    encode::insert(headers, headers::NEXT_OFFSET, &node.hub.offset(view.tail).to_string());
    encode::insert(headers, headers::UP_TO_DATE, "true");
    encode::insert(headers, "cache-control", "no-store");
    identity.vary(headers);
    if view.state.closed.is_some() {
        encode::insert(headers, headers::CLOSED, "true");
    }
    Ok(response)
}

/// A page of a stream as an HTTP answer.
#[derive(Debug)]
pub(super) struct Answer<'a> {
    pub(super) node: &'a Node,
    pub(super) query: &'a Query,
    pub(super) identity: &'a Identity,
    pub(super) view: &'a StreamView,
    pub(super) rendered: Rendered,
}

impl Answer<'_> {
    pub(super) fn respond(&self, request: &HeaderMap) -> Response<Body> {
        let state = &self.view.state;
        let up_to_date = self.rendered.up_to_date;
        let closed = up_to_date && state.closed.is_some();
        let next = self.node.hub.offset(self.rendered.next).to_string();
        let etag = self.etag(&next, closed);
        let mut response = if not_modified(request, &etag) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            let mut response = Response::new(Body::from(self.rendered.body.clone()));
            let content_type = content_type(state, self.query.format);
            encode::insert(response.headers_mut(), "content-type", content_type);
            response
        };
        let headers = response.headers_mut();
        encode::insert(headers, headers::NEXT_OFFSET, &next);
        encode::insert(headers, "etag", &etag);
        // A page before the end never changes; one at the end may be longer the next time. Where
        // events are given up, the first page begins elsewhere the next time, and whoever is told to
        // begin anew must not get the old one again.
        let lasts =
            self.view.lost == Position::START && !self.node.options.retention.concerns(&state.name);
        let freshness = if lasts && (closed || !up_to_date) {
            "max-age=60, stale-while-revalidate=300"
        } else {
            "no-cache"
        };
        self.identity.cache(headers, freshness);
        if up_to_date {
            encode::insert(headers, headers::UP_TO_DATE, "true");
        }
        if closed {
            encode::insert(headers, headers::CLOSED, "true");
        }
        response
    }

    /// Names the stream's incarnation, what it lost, the range, the format, the end and who may see it.
    fn etag(&self, next: &str, closed: bool) -> String {
        let created = self.view.state.created.number();
        let format = if self.query.format == Format::Events { "e" } else { "p" };
        let closed = if closed { "-c" } else { "" };
        let identity = self.identity.tag();
        let view = self.query.view.as_ref().map(View::tag).unwrap_or_default();
        let lost = match self.view.lost.number() {
            0 => String::new(),
            lost => format!(".{lost}"),
        };
        let offset = &self.query.offset_text;
        format!("\"{created}{lost}-{offset}-{next}-{format}{closed}{identity}{view}\"")
    }
}

fn content_type(state: &StreamState, format: Format) -> &str {
    match format {
        Format::Plain => &state.content_type,
        Format::Events => "application/json",
    }
}

fn not_modified(request: &HeaderMap, etag: &str) -> bool {
    let matches = |value: &str| {
        value.split(',').map(|tag| tag.trim().trim_start_matches("W/")).any(|tag| tag == etag)
    };
    request
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .any(|value| value.trim() == "*" || matches(value))
}

impl Query {
    fn parse(node: &Node, text: &str) -> Result<Query, Problem> {
        let mut query = Query {
            from: None,
            live: None,
            cursor: None,
            format: Format::Plain,
            filter: None,
            view: None,
            min_offset: MinOffset::default(),
            offset_text: "-1".to_owned(),
        };
        let (mut min_offset, mut min_txid) = (None, None);
        for (name, value) in query_string::pairs(text) {
            match &*name {
                "offset" if query.from.is_some() => {
                    return Err(Problem::bad_request(
                        "several_offsets",
                        "the query has more than one offset",
                        "send one",
                    ));
                }
                "offset" => {
                    query.from = Some(parse_from(node, &value)?);
                    query.offset_text = value.into_owned();
                }
                "live" => query.live = Some(parse_live(&value)?),
                "cursor" => query.cursor = Some(value.into_owned()),
                "min_offset" => min_offset = Some(value),
                "min_txid" => min_txid = Some(value),
                "format" => query.format = parse_format(&value)?,
                "where" => query.filter = Some(value.into_owned()),
                _ => {}
            }
        }
        query.min_offset = MinOffset::parse(&node.hub, min_offset.as_deref(), min_txid.as_deref())?;
        Ok(query)
    }
}

fn parse_from(node: &Node, text: &str) -> Result<From, Problem> {
    match text {
        "-1" => Ok(From::After(Position::START)),
        "now" => Ok(From::Now),
        text => parse_offset(text, node.store.epoch()).map(From::After),
    }
}

/// A condition on what has no rows.
pub(crate) fn where_without_table() -> Problem {
    Problem::bad_request(
        "where_without_table",
        "where is a condition on the rows of a table",
        "leave it out, or read the stream of a watched table: /v1/stream/table/NAME",
    )
}

/// Whether a query asks for the stream by SSE. The last `live` counts, as in `Query::parse`.
pub(crate) fn follows(query: &str) -> bool {
    query_string::last(query, "live").is_some_and(|live| matches!(parse_live(&live), Ok(Live::Sse)))
}

fn parse_live(text: &str) -> Result<Live, Problem> {
    match text {
        "long-poll" | "true" => Ok(Live::LongPoll),
        "sse" => Ok(Live::Sse),
        _ => Err(Problem::bad_request(
            "unknown_live_mode",
            format!("there is no live mode {text:?}"),
            "use live=long-poll or live=sse, or leave it out",
        )),
    }
}

fn parse_format(text: &str) -> Result<Format, Problem> {
    match text {
        "events" => Ok(Format::Events),
        _ => Err(Problem::bad_request(
            "unknown_format",
            format!("there is no format {text:?}"),
            "use format=events for offsets with each payload, or leave it out",
        )),
    }
}
