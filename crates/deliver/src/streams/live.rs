//! Waiting for a stream to grow, and the long-poll that does just that.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, Response, StatusCode};
use axum::response::IntoResponse;
use tokio::sync::watch;
use tokio::time::Instant;

use tidewire_store::{Event, Page, PageLimit, Position};

use super::headers;
use super::read::{Answer, From, Query, render};
use crate::node::Node;
use tidewire_access::auth::Identity;
use tidewire_access::problem::Problem;
use tidewire_access::stream_name::StreamName;
use tidewire_hub::cursor;
use tidewire_hub::lookup::{Reach, beyond_tip};
use tidewire_hub::row_filter::{RowFilter, SliceVisibility, View};
use tidewire_hub::tail::TopicGuard;
use tidewire_hub::{encode, lookup, refusal};
use tidewire_wire::clock::now_ms;

/// Answers with data as soon as there is some, or with 204 when the time is up.
pub(super) async fn long_poll(
    node: &Arc<Node>,
    name: &StreamName,
    from: From,
    query: &Query,
    request: &HeaderMap,
    identity: &Identity,
) -> Result<Response<Body>, Problem> {
    let _seat = node.live_readers.seat()?;
    let deadline = Instant::now() + node.options.streams.long_poll;
    let topic_guard = node.hub.tail.attend(name.as_str());
    let mut changes = topic_guard.changes();
    let reach = node.hub.reach(identity, name.as_str());
    let view = query.view.as_ref();
    let (mut page, after) =
        first_page(node, name, &reach, from, lookup::page_limit(&node.hub)).await?;
    beyond_tip(&node.hub, after, &page)?;
    // Kept while it waits, so that what happens meanwhile is seen through it.
    let mut row_filter = node.hub.see(view, &mut page).await?;
    lookup::renew(&node.hub, &page.view.state).await;
    let mut reached = LivePosition::by(&page, after, after);
    let mut closed = reached.is_end && page.view.state.closed.is_some();
    while page.events.is_empty() && !closed {
        changes.borrow_and_update();
        match next(node, &topic_guard, (&reach, view, &mut row_filter), reached).await? {
            Next::Page(found, position) => {
                reached.position = position;
                page.absorb(found);
            }
            Next::Nothing(so_far) => {
                reached = so_far;
                // Also between two pages of which nothing is seen: there may be any number of those.
                tokio::select! {
                    biased;
                    ended = identity.validity().over() => return Err(tidewire_access::auth::ended(ended)),
                    () = node.hub.draining.cancelled() => break,
                    () = tokio::time::sleep_until(deadline) => break,
                    // Timers are a little late, and pages may come faster.
                    () = reached.can_go_on(&mut changes), if Instant::now() < deadline => {}
                }
            }
            Next::Closed(at) => {
                reached = at;
                closed = true;
            }
            Next::Ended => return Err(refusal::not_found()),
        }
    }
    // The close may have come with the data; then the reader is told at once.
    if closed || topic_guard.closes_at(reached.position) {
        page.close();
        closed = true;
    }
    lookup::renew(&node.hub, &page.view.state).await;
    let mut response = if page.events.is_empty() {
        nothing_yet(node, reached, closed)
    } else {
        let rendered = render(node, &page, after, query.format);
        let mut response =
            Answer { node, query, identity, view: &page.view, rendered }.respond(request);
        identity.cache(response.headers_mut(), "max-age=20");
        response
    };
    let cursor = cursor::next(cursor::parse(query.cursor.as_deref()), now_ms(), &mut rand::rng());
    encode::insert(response.headers_mut(), headers::CURSOR, &cursor.to_string());
    Ok(response)
}

/// What is there when a live reader arrives. `now` starts at the tail that this very look saw.
pub(super) async fn first_page(
    node: &Node,
    name: &StreamName,
    reach: &Reach,
    from: From,
    limit: PageLimit,
) -> Result<(Page, Position), Problem> {
    let after = match from {
        From::After(after) => after,
        From::Now => lookup::view(&node.hub, name.as_str(), reach).await?.view.tail,
    };
    Ok((lookup::find(&node.hub, name.as_str(), reach, after, limit).await?, after))
}

fn nothing_yet(node: &Node, reached: LivePosition, closed: bool) -> Response<Body> {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    let next = node.hub.offset(reached.offset).to_string();
    encode::insert(headers, headers::NEXT_OFFSET, &next);
    if reached.is_end {
        encode::insert(headers, headers::UP_TO_DATE, "true");
    }
    encode::insert(headers, "cache-control", "no-store");
    if closed {
        encode::insert(headers, headers::CLOSED, "true");
    }
    if node.hub.draining.is_cancelled() {
        // The reader is to come back, and not over this connection.
        encode::insert(headers, "connection", "close");
    }
    response
}

/// How far a live reader has got.
#[derive(Debug, Clone, Copy)]
struct LivePosition {
    /// There is nothing up to here that it has not got.
    position: Position,
    /// The same as it is told: no further than the stream's last event. `offset <= position`.
    offset: Position,
    /// Whether that was the stream's end.
    is_end: bool,
}

impl LivePosition {
    /// How far a page brings a reader that was at a position, and was told an offset.
    fn by(page: &Page, position: Position, offset: Position) -> LivePosition {
        LivePosition {
            position: page.scanned_to.max(position),
            offset: page.next(offset),
            is_end: page.up_to_date(),
        }
    }

    /// Waits for the stream to grow, unless there is more of it.
    async fn can_go_on(self, changes: &mut watch::Receiver<u64>) {
        if self.is_end {
            // The sender is the attended topic's, so it cannot be gone.
            let _ = changes.changed().await;
        }
    }
}

/// What a live reader at some position does next.
#[derive(Debug)]
enum Next {
    /// There are events; after them the reader is at the position.
    Page(Found, Position),
    /// Nothing that it sees. At the stream's end it waits, else it goes on.
    Nothing(LivePosition),
    /// The stream is closed and the reader has all of it.
    Closed(LivePosition),
    /// The stream is gone.
    Ended,
}

/// Where a live reader's events come from.
#[derive(Debug)]
enum Found {
    /// Remembered, up to the stream's end.
    Events(Vec<Event>),
    /// Read from the store, because memory did not reach back far enough.
    Stored(Box<Page>),
}

/// Finds what there is after a position: in memory, or if that does not reach back, a page of the store.
async fn next(
    node: &Node,
    topic_guard: &TopicGuard,
    batch: (&Reach, Option<&View>, &mut Option<Arc<RowFilter>>),
    at: LivePosition,
) -> Result<Next, Problem> {
    let (reach, view, row_filter) = batch;
    let (look, position) = topic_guard.look(at.position, usize::MAX);
    let end = LivePosition { position, is_end: true, ..at };
    Ok(match look.seen(&node.hub, view, at.position) {
        SliceVisibility::Events { events, last, .. } if events.is_empty() => {
            Next::Nothing(LivePosition { offset: last.max(at.offset), ..end })
        }
        SliceVisibility::Events { events, .. } => Next::Page(Found::Events(events), position),
        SliceVisibility::Nothing => Next::Nothing(end),
        SliceVisibility::Closed => Next::Closed(end),
        SliceVisibility::Ended => Next::Ended,
        SliceVisibility::Behind => {
            let mut page =
                lookup::page(&node.hub, topic_guard.stream(), reach, at.position).await?;
            *row_filter = node.hub.see(view, &mut page).await?;
            let reached = LivePosition::by(&page, at.position, at.offset);
            match page.events.is_empty() {
                false => Next::Page(Found::Stored(Box::new(page)), reached.position),
                true if reached.is_end && page.view.state.closed.is_some() => Next::Closed(reached),
                true => Next::Nothing(reached),
            }
        }
    })
}

/// Lets a page that was read before the wait take in what came during it.
trait Absorb {
    fn absorb(&mut self, found: Found);
    fn close(&mut self);
}

impl Absorb for Page {
    fn absorb(&mut self, found: Found) {
        let events = match found {
            Found::Stored(page) => {
                *self = *page;
                return;
            }
            Found::Events(events) => events,
        };
        if let Some(last) = events.last() {
            self.view.tail = last.position;
            self.scanned_to = self.scanned_to.max(last.position);
        }
        self.events = events;
    }

    fn close(&mut self) {
        let position = self.view.tail;
        self.view.state.closed = Some(tidewire_store::stream::Closed { position, by: None });
    }
}

#[cfg(test)]
mod tests;
