//! Waiting for a stream to grow, and the long-poll that does just that.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, Response, StatusCode};
use axum::response::IntoResponse;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use tidewire_store::{Event, Page, PageLimit, Position, Reach};

use super::name::StreamName;
use super::read::{Answer, From, Query, beyond_tip, render};
use super::{cursor, encode, headers, lookup, refusal};
use crate::auth::Identity;
use crate::lens::{Lens, Sees, View};
use crate::node::{Node, now_ms};
use crate::problem::Problem;
use crate::tail::Attendance;

/// A place among the readers that wait. Given back when dropped.
pub(super) fn seat(node: &Node) -> Result<OwnedSemaphorePermit, Problem> {
    Arc::clone(&node.live_readers).try_acquire_owned().map_err(|_| {
        Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too_many_live_readers",
            format!("{} readers are waiting already", node.options.limits.live_readers_max),
            "try again later, or raise limits.live_readers_max",
        )
        .retry_after_s(2)
    })
}

/// Answers with data as soon as there is some, or with 204 when the time is up.
pub(super) async fn long_poll(
    node: &Arc<Node>,
    name: &StreamName,
    from: From,
    query: &Query,
    request: &HeaderMap,
    identity: &Identity,
) -> Result<Response<Body>, Problem> {
    let _seat = seat(node)?;
    let deadline = Instant::now() + node.options.streams.long_poll;
    let attendance = node.tail.attend(name.as_str());
    let mut changes = attendance.changes();
    let reach = node.reach(identity, name.as_str());
    let view = query.view.as_ref();
    let (mut page, after) = first_page(node, name, &reach, from, lookup::page_limit(node)).await?;
    beyond_tip(node, after, &page)?;
    // Kept while it waits, so that what happens meanwhile is seen through it.
    let mut lens = node.see(view, &mut page).await?;
    lookup::renew(node, &page.view.state).await;
    let mut position = page.scanned_to.max(after);
    while page.events.is_empty() && page.view.state.closed.is_none() {
        changes.borrow_and_update();
        match next(node, &attendance, (&reach, view, &mut lens), position).await? {
            Next::Page(found, reached) => {
                position = reached;
                page.absorb(found);
            }
            Next::Nothing(reached) => {
                position = reached;
                tokio::select! {
                    _ = changes.changed() => {}
                    () = tokio::time::sleep_until(deadline) => break,
                    ended = identity.standing().over() => return Err(crate::auth::ended(ended)),
                    () = node.draining.cancelled() => break,
                }
            }
            Next::Closed => page.close(),
            Next::Ended => return Err(refusal::not_found()),
        }
    }
    // The close may have come with the data; then the reader is told at once.
    if attendance.closes_at(position) {
        page.close();
    }
    lookup::renew(node, &page.view.state).await;
    let mut response = if page.events.is_empty() {
        nothing_yet(node, &page, after)
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
        From::Now => lookup::view(node, name.as_str(), reach).await?.view.tail,
    };
    Ok((lookup::find(node, name.as_str(), reach, after, limit).await?, after))
}

fn nothing_yet(node: &Node, page: &Page, after: Position) -> Response<Body> {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    let next = node.offset(page.next(after)).to_string();
    encode::insert(headers, headers::NEXT_OFFSET, &next);
    encode::insert(headers, headers::UP_TO_DATE, "true");
    encode::insert(headers, "cache-control", "no-store");
    if page.view.state.closed.is_some() {
        encode::insert(headers, headers::CLOSED, "true");
    }
    if node.draining.is_cancelled() {
        // The reader is to come back, and not over this connection.
        encode::insert(headers, "connection", "close");
    }
    response
}

/// What a live reader at some position does next.
#[derive(Debug)]
enum Next {
    /// There are events; after them the reader is at the position.
    Page(Found, Position),
    /// Nothing up to the position: wait.
    Nothing(Position),
    /// The stream is closed and the reader has all of it.
    Closed,
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

/// Finds what there is after a position: in memory, or if that does not reach back, in the store.
async fn next(
    node: &Node,
    attendance: &Attendance,
    sight: (&Reach, Option<&View>, &mut Option<Arc<Lens>>),
    position: Position,
) -> Result<Next, Problem> {
    let (reach, view, lens) = sight;
    let (look, reached) = attendance.look(position, usize::MAX);
    Ok(match look.seen(node, view, position) {
        Sees::Events { events, .. } if events.is_empty() => Next::Nothing(reached),
        Sees::Events { events, .. } => Next::Page(Found::Events(events), reached),
        Sees::Nothing => Next::Nothing(reached),
        Sees::Closed => Next::Closed,
        Sees::Ended => Next::Ended,
        Sees::Behind => {
            let mut position = position;
            loop {
                let mut page = lookup::page(node, attendance.stream(), reach, position).await?;
                *lens = node.see(view, &mut page).await?;
                position = page.scanned_to.max(position);
                if !page.events.is_empty() {
                    return Ok(Next::Page(Found::Stored(Box::new(page)), position));
                } else if !page.up_to_date() {
                    // There was nothing in it that is seen; there may be in the next.
                    continue;
                } else if page.view.state.closed.is_some() {
                    return Ok(Next::Closed);
                }
                return Ok(Next::Nothing(position));
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
