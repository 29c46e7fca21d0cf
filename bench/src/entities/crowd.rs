//! Many pages that subscribe to entities, and what each is told.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tidewire_client::{Client, Live, LiveOptions, ReadFrom, Update};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::fixture::{CODE, uuid};

/// Pages that come in at once.
const AT_ONCE: usize = 50;
const TOO_LATE: Duration = Duration::from_secs(30);

/// A change as a page was told of it.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) entity: String,
    pub(crate) at: Instant,
}

/// The pages; gone when dropped.
#[derive(Debug)]
pub(crate) struct Crowd {
    pages: JoinSet<()>,
    pub(crate) told: mpsc::UnboundedReceiver<Received>,
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
                coming.spawn(stands(live));
            }
            while let Some(live) = coming.join_next().await {
                let (mut live, tell) = (live??, tell.clone());
                crowd.pages.spawn(async move {
                    while let Ok(Some(update)) = live.next().await {
                        let Update::Invalidated { changes, .. } = update else { continue };
                        let at = Instant::now();
                        for change in changes {
                            let _ = tell.send(Received { entity: change.entity_id, at });
                        }
                    }
                });
            }
        }
        Ok(crowd)
    }
}

/// Waits until a page's subscription stands.
async fn stands(mut live: Live) -> Result<Live> {
    loop {
        match tokio::time::timeout(TOO_LATE, live.next()).await?? {
            Some(Update::Created { .. }) => return Ok(live),
            Some(Update::Problem { problem, .. }) => bail!("refused: {problem:?}"),
            Some(_) => {}
            None => bail!("the live connection ended"),
        }
    }
}
