//! A hub for tests, here and in other crates, and those who come to it.

use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;

use tidewire_access::AccessControl;
use tidewire_access::auth::names::TableNames;
use tidewire_access::budget::NothingToSpare;
use tidewire_access::options::Options;
use tidewire_store::{Position, SharedStore};

use crate::lookup::{self, Reach};
use crate::reader_frame::ReaderFormat;
use crate::row_filter::dialect;
use crate::{Arrival, ConnectionInfo, Hub, PASSAGE_LIMIT, Unstarted};

/// The hub, of one shard, of a node that serves nobody, and what of it is yet to be started.
pub async fn hub(options: Options, store: SharedStore) -> (Arc<Hub>, Unstarted) {
    let tip = store.tip().await.expect("the log's end");
    let names = TableNames::new(dialect(&store));
    names.look(&store, Duration::ZERO).await.expect("the names of tables");
    let access = AccessControl::new(Arc::new(options), store, names, Arc::new(NothingToSpare));
    let access = Arc::new(access.expect("access control"));
    let (hub, unstarted) = Hub::assemble("node".to_owned(), access, tip, 1);
    (Arc::new(hub), unstarted)
}

/// A reader that comes to a stream, at its start or at its tail.
pub async fn arrival(hub: &Hub, stream: &str, at_tail: bool) -> Arrival {
    let topic_guard = hub.tail.attend(stream);
    let after = if at_tail { Position::new(u64::MAX) } else { Position::START };
    let reach = Reach::everything();
    let page = lookup::find(hub, stream, &reach, after, PASSAGE_LIMIT).await.expect("a page");
    let after = if at_tail { page.view.tail } else { after };
    let reader_format = ReaderFormat::new(hub.store.epoch(), "application/json", None);
    Arrival::new(
        connection_info("c"),
        topic_guard,
        reach,
        (None, None),
        &page,
        after,
        reader_format,
    )
}

/// A client of whom nothing else is known.
pub fn connection_info(id: &str) -> Arc<ConnectionInfo> {
    Arc::new(ConnectionInfo::new(id.into(), None, &HeaderMap::new()))
}
