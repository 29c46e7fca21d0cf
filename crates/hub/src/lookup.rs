//! Finding a stream and reading pages of it, with the answers that follow when it is not there.
//!
//! All reading passes here. A stream of a tenant that the reader cannot reach is not there, nor is for who is
//! bound to a tenant a fork of a stream of entities, which has what all tenants are told. A fork of a table's
//! stream, which shows rows, is only for those who see all of the table: whatever rules it has, or is given
//! after the fork was made.

use axum::http::StatusCode;

use tidewire_store::{
    Command, Found, Page, PageLimit, Position, StoreError, StreamState, StreamView,
};

use super::refusal;
use crate::Hub;
use crate::changes;
use tidewire_access::auth::Identity;
use tidewire_access::problem::Problem;
use tidewire_access::stream_name::is_of_entities;
use tidewire_wire::clock::now_ms;

/// Which streams someone can read.
#[derive(Debug, Clone)]
pub struct Reach {
    tenants: tidewire_store::Reach,
    /// Who it is, for forks of tables. Nobody in particular may read all of those.
    identity: Option<Identity>,
}

impl Reach {
    /// Of someone, whose streams are those of some tenants.
    pub(super) fn of(identity: &Identity, tenants: tidewire_store::Reach) -> Reach {
        Reach { tenants, identity: Some(identity.clone()) }
    }

    /// For tests: all streams.
    pub fn everything() -> Reach {
        Reach { tenants: tidewire_store::Reach::All, identity: None }
    }

    fn covers(&self, host: Option<&str>) -> bool {
        self.tenants.covers(host)
    }

    /// Refuses a fork of a stream to those who see a part of that, or nothing.
    async fn covers_root(&self, hub: &Hub, root: &str) -> Result<(), Problem> {
        let Some(identity) = &self.identity else { return Ok(()) };
        let everyone = tidewire_store::Reach::All;
        if is_of_entities(root) && identity.reach_of(root) != everyone {
            return Err(refusal::not_found());
        }
        hub.sees_all(identity, root).await
    }
}

/// What one answer to a read holds at most.
pub fn page_limit(hub: &Hub) -> PageLimit {
    PageLimit {
        events: hub.options.streams.read_events_max,
        bytes: hub.options.streams.read_bytes_max,
    }
}

/// A page of a stream, or the problem that says why there is none.
pub async fn page(
    hub: &Hub,
    stream: &str,
    reach: &Reach,
    after: Position,
) -> Result<Page, Problem> {
    find(hub, stream, reach, after, page_limit(hub)).await
}

/// A stream without its events.
pub async fn view(hub: &Hub, stream: &str, reach: &Reach) -> Result<Page, Problem> {
    page_of(hub, reach, Position::START, look(hub, stream).await?).await
}

/// What a stream is, whoever asks.
async fn look(hub: &Hub, stream: &str) -> Result<Found, StoreError> {
    let nothing = PageLimit { events: 0, bytes: 0 };
    hub.views.find(stream, || hub.store.read(stream, Position::START, nothing)).await
}

/// Refuses to those who cannot read a stream for what it is a fork of; not for its not being there.
pub async fn may_fork(hub: &Hub, stream: &str, reach: &Reach) -> Result<(), Problem> {
    match look(hub, stream).await? {
        Found::Stream(page) if reach.covers(page.view.state.host_id.as_deref()) => {
            match &page.view.root {
                Some(root) => reach.covers_root(hub, root).await,
                None => Ok(()),
            }
        }
        Found::Stream(_) | Found::Gone { .. } | Found::NotFound => Ok(()),
    }
}

/// A stream's content type, if the stream is there.
pub async fn content_type(
    hub: &Hub,
    stream: &str,
    reach: &Reach,
) -> Result<Option<String>, Problem> {
    Ok(match look(hub, stream).await? {
        Found::Stream(page) if reach.covers(page.view.state.host_id.as_deref()) => {
            Some(page.view.state.content_type)
        }
        Found::Stream(_) | Found::NotFound | Found::Gone { .. } => None,
    })
}

/// A page of a stream within a limit, or the problem that says why there is none.
pub async fn find(
    hub: &Hub,
    stream: &str,
    reach: &Reach,
    after: Position,
    limit: PageLimit,
) -> Result<Page, Problem> {
    page_of(hub, reach, after, hub.store.read(stream, after, limit).await?).await
}

/// What was found, if it is there for whoever can reach so much.
async fn page_of(hub: &Hub, reach: &Reach, after: Position, found: Found) -> Result<Page, Problem> {
    match found {
        Found::Stream(mut page) if reach.covers(page.view.state.host_id.as_deref()) => {
            if let Some(root) = &page.view.root {
                reach.covers_root(hub, root).await?;
            }
            not_lost(hub, &page.view, after)?;
            let epoch = hub.store.epoch();
            page.events.iter_mut().for_each(|event| changes::render_event(event, epoch));
            Ok(*page)
        }
        Found::Gone { host_id } if reach.covers(host_id.as_deref()) => Err(refusal::gone()),
        Found::Stream(_) | Found::Gone { .. } | Found::NotFound => Err(refusal::not_found()),
    }
}

/// Refuses a cursor whose stream lost events after it: going on from there would hide that.
pub fn not_lost(hub: &Hub, view: &StreamView, after: Position) -> Result<(), Problem> {
    if view.has_lost(after) { Err(refusal::trimmed(hub, view.lost)) } else { Ok(()) }
}

/// Renews a sliding lifetime, if this read moves its end enough to be worth a write. The read is
/// answered all the same if that fails: the stream is there now.
pub async fn renew(hub: &Hub, state: &StreamState) {
    if state.renewal_due(now_ms()) {
        let touch = Command::Touch { stream: state.name.clone() };
        if let Err(error) = hub.store.submit(touch).await {
            tracing::debug!(%error, stream = state.name, "a read did not renew the stream");
        }
    }
}

/// A cursor past the log's end belongs to a history that this log does not have.
pub fn beyond_tip(hub: &Hub, after: Position, page: &Page) -> Result<(), Problem> {
    if page.events.is_empty() && after > page.scanned_to && after > hub.tail.position() {
        return Err(past_the_end());
    }
    Ok(())
}

/// Refuses a position past the log's end.
pub async fn within_log(hub: &Hub, position: Position) -> Result<(), Problem> {
    if position > hub.tail.position() && position > hub.store.tip().await? {
        return Err(past_the_end());
    }
    Ok(())
}

fn past_the_end() -> Problem {
    Problem::new(
        StatusCode::GONE,
        "offset_beyond_tip",
        "the offset lies past the end of the log",
        "the log was replaced by an older one; read from the start (offset=-1)",
    )
}
