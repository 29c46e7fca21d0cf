//! Many pages that subscribe to entities, and what each is told.

use std::time::Instant;

use anyhow::Result;
use tidewire_client::{Client, LiveOptions, ReadFrom, Update};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::ground::{CODE, uuid};
use super::operations::hear;

/// Pages that come in at once.
const AT_ONCE: usize = 50;

/// A change as a page was told of it.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) entity: String,
    pub(crate) at: Instant,
}

/// The pages; gone when dropped.
#[derive(Debug)]
pub(crate) struct Crowd {
    pages: JoinSet<()>,
    pub(crate) told: mpsc::UnboundedReceiver<Told>,
}

impl Crowd {
    /// Page `n` subscribes to `interests` entities of `all`, from `n` on.
    pub(crate) async fn gather(
        client: &Client,
        connections: usize,
        interests: usize,
        all: usize,
    ) -> Result<Crowd> {
        let (tell, told) = mpsc::unbounded_channel();
        let mut crowd = Crowd { pages: JoinSet::new(), told };
        for first in (0..connections).step_by(AT_ONCE) {
            let mut coming = JoinSet::new();
            for page in first..connections.min(first + AT_ONCE) {
                let options = LiveOptions { compression: false, ..LiveOptions::default() };
                let mut live = client.live(options)?;
                let ids = (0..interests).map(|n| uuid((page + n) % all));
                live.subscribe_entities("q", CODE, ids, ReadFrom::Now)?;
                coming.spawn(async move {
                    let stands = |update: &Update| matches!(update, Update::Created { .. });
                    hear(&mut live, stands).await.map(|_| live)
                });
            }
            while let Some(live) = coming.join_next().await {
                let (mut live, tell) = (live??, tell.clone());
                crowd.pages.spawn(async move {
                    while let Ok(Some(update)) = live.next().await {
                        let Update::Invalidated { changes, .. } = update else { continue };
                        let at = Instant::now();
                        for change in changes {
                            let _ = tell.send(Told { entity: change.entity_id, at });
                        }
                    }
                });
            }
        }
        Ok(crowd)
    }
}
