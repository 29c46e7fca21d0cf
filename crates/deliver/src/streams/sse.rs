//! `live=sse`: a stream as Server-Sent Events.
//!
//! Here a reader is let in and told from where it reads, with the stream's first page; what it gets
//! from then on is the hub's business. `hub::reader_frame` is what goes over the wire.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Response;
use axum::http::request::Parts;

use super::headers;
use super::live::first_page;
use super::read::{From, Query};
use crate::carrier::connection_id;
use crate::hub_body::written_by_hub;
use crate::node::Node;
use tidewire_access::auth::Identity;
use tidewire_access::problem::Problem;
use tidewire_access::stream_name::StreamName;
use tidewire_hub::lookup::beyond_tip;
use tidewire_hub::reader_frame::ReaderFormat;
use tidewire_hub::{Arrival, ConnectionInfo, PASSAGE_LIMIT};
use tidewire_hub::{encode, lookup};
use tidewire_wire::peer::Peer;

/// The response, which stays open.
pub(super) async fn stream(
    node: &Arc<Node>,
    name: &StreamName,
    from: From,
    query: &Query,
    request: &Parts,
    identity: &Identity,
) -> Result<Response<Body>, Problem> {
    let kept = (node.live_readers.seat()?, node.access.place(identity)?);
    // From here on the node remembers what is appended, so nothing falls between this page and what
    // the hub sees after it.
    let topic_guard = node.hub.tail.attend(name.as_str());
    let reach = node.hub.reach(identity, name.as_str());
    let (mut page, after) = first_page(node, name, &reach, from, PASSAGE_LIMIT).await?;
    beyond_tip(&node.hub, after, &page)?;
    let row_filter = node.hub.see(query.view.as_ref(), &mut page).await?;
    let patterns = match &row_filter {
        Some(row_filter) => {
            node.hub.pattern_seat(identity, row_filter.table(), row_filter.patterns())?
        }
        None => None,
    };
    let kept = (kept, patterns);
    lookup::renew(&node.hub, &page.view.state).await;
    let client_cursor = query.cursor.as_deref();
    let reader_format =
        ReaderFormat::new(node.store.epoch(), &page.view.state.content_type, client_cursor);
    let (id, batch) = (connection_id(), (query.view.clone(), row_filter));
    let connection_info =
        ConnectionInfo::new(Arc::clone(&id), Peer::address(&request.extensions), &request.headers);
    let connection_info = Arc::new(connection_info.of(identity.clone()));
    let arrival = Box::new(Arrival::new(
        connection_info,
        topic_guard,
        reach,
        batch,
        &page,
        after,
        reader_format,
    ));
    let shard = node.hub.shards.shard_of(identity.tenant(), &id).clone();
    let enter = async move |transport| Ok((shard.admit(transport, arrival).await?, kept));
    let mut response = written_by_hub(node, request, identity, enter).await?;
    if reader_format.is_base64() {
        encode::insert(response.headers_mut(), headers::SSE_DATA_ENCODING, "base64");
    }
    Ok(response)
}
