//! The read over HTTP in progress, if there is one: events too large to push are fetched, one stream at a time.

use std::fmt;
use std::future::pending;

use futures_util::future::BoxFuture;
use tokio::time::sleep;

use super::receive::Read;
use crate::backoff::Backoff;
use crate::client::Client;
use crate::error::ClientError;
use crate::events::EventPage;
use crate::follow::ReadFrom;

pub(super) struct Reader {
    under_way: Option<(Read, BoxFuture<'static, Result<EventPage, ClientError>>)>,
    backoff: Backoff,
    /// The last read brought nothing, so the next one waits.
    in_vain: bool,
}

impl Reader {
    pub(super) fn new(backoff: Backoff) -> Reader {
        Reader { under_way: None, backoff, in_vain: false }
    }

    pub(super) fn is_free(&self) -> bool {
        self.under_way.is_none()
    }

    pub(super) fn start(&mut self, client: &Client, read: Read) {
        let wait = self.in_vain.then(|| self.backoff.next_wait(&mut rand::rng()));
        let client = client.clone();
        let (stream, from) = (read.stream.clone(), ReadFrom::Offset(read.offset.clone()));
        let filter = read.filter.clone();
        let page = async move {
            if let Some(wait) = wait {
                sleep(wait).await;
            }
            client.read_events_where(&stream, &from, filter.as_deref()).await
        };
        self.under_way = Some((read, Box::pin(page)));
    }

    pub(super) fn stop(&mut self) {
        self.under_way = None;
        self.in_vain = false;
    }

    /// What the read brought. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> (Read, Result<EventPage, ClientError>) {
        let page = match &mut self.under_way {
            Some((_, page)) => page.as_mut().await,
            None => pending().await,
        };
        let Some((read, _)) = self.under_way.take() else {
            return pending().await;
        };
        self.in_vain = !page.as_ref().is_ok_and(|page| !page.events.is_empty());
        if !self.in_vain {
            self.backoff.reset();
        }
        (read, page)
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let read = self.under_way.as_ref().map(|(read, _)| read);
        f.debug_struct("Reader").field("under_way", &read).finish_non_exhaustive()
    }
}
