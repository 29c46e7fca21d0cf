//! The election of the node that brings changes into the log: its session holds an advisory lock.
//!
//! The session is a direct one (no transaction pooler: the lock belongs to it), and the server ends
//! it when it is silent for three seconds, whether its node is dead, stopped or cut off. Others try
//! for the lock twice a second, so that one of them works within five seconds. (They ask rather than
//! wait, because a statement that waits holds back the removal of dead rows everywhere.)

use std::time::Duration;

use tidewire_store::StoreError;
use tidewire_store_postgres::captured::{CaptureLink, CaptureSession, broken};
use tokio_util::sync::CancellationToken;

use crate::leader::{self, Leadership};
use crate::options::CaptureOptions;
use crate::query::{query_one, sql};

/// Held by the session of the node that works: `tide` and 5.
const LEADER_LOCK: i64 = 0x7469_6465_0000_0005;

/// A leader's session is never silent for so long unless its node is in trouble, and then it must end
/// soon. Range scans are joined by hash, because a plan made for no rows would loop over all.
const SETTINGS: &str = "
    SET idle_session_timeout = '3s';
    SET idle_in_transaction_session_timeout = '3s';
    SET tcp_keepalives_idle = 1;
    SET tcp_keepalives_interval = 1;
    SET tcp_keepalives_count = 2;
    SET tcp_user_timeout = '3s';
    SET lock_timeout = '30s';
    SET statement_timeout = '60s';
    SET enable_hashjoin = on;
    SET enable_nestloop = off;
    LISTEN tidewire_staging;
";

/// How long to wait after something failed.
const PAUSE: Duration = Duration::from_millis(500);

/// Stands for election and works when elected, until told to stop.
pub(crate) async fn run(options: CaptureOptions, link: CaptureLink, stop: CancellationToken) {
    let mut complained = false;
    while !stop.is_cancelled() {
        match Box::pin(candidate(&options, &link, &stop)).await {
            Ok(()) => complained = false,
            Err(error) => {
                // While the database is away everyone says so; once is enough here.
                if !complained {
                    tracing::warn!(%error, "capture was interrupted; trying again");
                }
                complained = error.temporary();
            }
        }
        link.counters().leads(false);
        let pause = PAUSE.mul_f64(rand::random_range(0.5..1.0));
        let _ = stop.run_until_cancelled(tokio::time::sleep(pause)).await;
    }
}

/// Opens a session, waits to be elected, and works for as long as that lasts.
async fn candidate(
    options: &CaptureOptions,
    link: &CaptureLink,
    stop: &CancellationToken,
) -> Result<(), StoreError> {
    let session = match stop.run_until_cancelled(Box::pin(link.session(SETTINGS))).await {
        Some(session) => session?,
        None => return Ok(()),
    };
    while !elected(&session).await? {
        let wait = tokio::time::sleep(options.election_poll);
        if stop.run_until_cancelled(wait).await.is_none() {
            return Ok(());
        }
    }
    let leadership = Leadership::take(options, link, session).await?;
    link.counters().leads(true);
    leader::work(&leadership, options, stop).await
}

async fn elected(session: &CaptureSession) -> Result<bool, StoreError> {
    let asked = query_one(session.client(), sql!("elect"), &[&LEADER_LOCK]).await;
    asked.and_then(|row| row.try_get(0)).map_err(broken("stand for election"))
}
