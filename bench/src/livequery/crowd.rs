//! The clients that follow the queries.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tidewire_client::{Client, Live, LiveOptions, Update};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::queries;
use crate::scale::LiveQueries;

/// Connections that come in at once.
const AT_ONCE: usize = 20;
const TOO_LATE: Duration = Duration::from_secs(60);

/// A change that a client was told.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) query: usize,
    pub(crate) at: Instant,
}

/// The clients; gone when dropped.
#[derive(Debug)]
pub(crate) struct Crowd {
    clients: JoinSet<()>,
    pub(crate) told: mpsc::UnboundedReceiver<Received>,
}

impl Crowd {
    /// Everybody has all first rows when this returns.
    pub(crate) async fn gather(client: &Client, scale: &LiveQueries) -> Result<Crowd> {
        let (tell, told) = mpsc::unbounded_channel();
        let mut crowd = Crowd { clients: JoinSet::new(), told };
        for first in (0..scale.connections).step_by(AT_ONCE) {
            let mut coming = JoinSet::new();
            for connection in first..scale.connections.min(first + AT_ONCE) {
                let options = LiveOptions { compression: false, ..LiveOptions::default() };
                let mut live = client.live(options)?;
                let numbers = (connection..scale.queries).step_by(scale.connections);
                let mut count = 0;
                for number in numbers {
                    live.query(&number.to_string(), &queries::sql(number), &[])?;
                    count += 1;
                }
                coming.spawn(stands(live, count));
            }
            while let Some(live) = coming.join_next().await {
                let (mut live, tell) = (live??, tell.clone());
                crowd.clients.spawn(async move {
                    while let Ok(Some(update)) = live.next().await {
                        let Update::ResultChanged { query_id, .. } = update else { continue };
                        let at = Instant::now();
                        if let Ok(query) = query_id.parse() {
                            let _ = tell.send(Received { query, at });
                        }
                    }
                });
            }
        }
        Ok(crowd)
    }
}

/// Waits until all queries of a client have their rows.
async fn stands(mut live: Live, count: usize) -> Result<Live> {
    let mut begun = 0;
    while begun < count {
        match tokio::time::timeout(TOO_LATE, live.next()).await?? {
            Some(Update::ResultBegan { .. }) => begun += 1,
            Some(Update::Problem { problem, .. }) => bail!("refused: {problem:?}"),
            Some(Update::Ended { reason, .. }) => bail!("ended: {reason}"),
            Some(_) => {}
            None => bail!("the live connection ended"),
        }
    }
    Ok(live)
}
