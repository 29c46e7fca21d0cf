//! Connecting to the groups of a database that a server has prepared.

use std::sync::Arc;

use tokio::sync::watch;
use tokio_postgres::Notification;
use tokio_util::sync::CancellationToken;

use super::super::connect::Connector;
use super::super::listener::{self, NotificationHandler};
use super::super::open::{epoch, version};
use super::super::pool::Pool;
use super::super::statements::UserSessions;
use super::PostgresGroups;
use super::sessions::WorkSessions;
use super::step::failed;
use crate::options::PostgresOptions;
use tidewire_store::groups::GroupError;
use tidewire_store::migration::SCHEMA_VERSION;

/// Sessions for all that is not a batch: pages, members, failures.
const OTHER_CONNECTIONS: usize = 3;

/// Sessions that run the statements of acks.
const USER_SESSIONS: usize = 2;

/// What a worker hears of.
struct Signals {
    grown: watch::Sender<u64>,
    groups: watch::Sender<u64>,
}

impl NotificationHandler for Signals {
    fn channels(&self) -> &'static str {
        "LISTEN tidewire_log; LISTEN tidewire_groups"
    }

    fn begun(&self) {
        self.groups.send_modify(|count| *count += 1);
    }

    fn tip_is(&self, position: u64) {
        self.grown.send_replace(position);
    }

    fn heard(&self, notification: &Notification) {
        match notification.channel() {
            "tidewire_groups" => self.begun(),
            _ => {
                if let Ok(position) = notification.payload().parse() {
                    self.grown.send_replace(position);
                }
            }
        }
    }
}

/// Connects. The schema is looked at and never changed: a worker's role may not be allowed to.
pub(super) async fn connect(
    url: &str,
    connections: usize,
) -> Result<Arc<PostgresGroups>, GroupError> {
    let options = PostgresOptions::new(url);
    let connector = Arc::new(Connector::new(&options)?);
    let session = connector.session_in_time("").await?;
    let present = "SELECT to_regclass('tidewire.migrations') IS NOT NULL";
    let look = async {
        let there = session.client.query_one(present, &[]).await?.try_get::<_, bool>(0)?;
        if there { version(&session.client).await } else { Ok(0) }
    };
    let found = look.await.map_err(|error| failed("look at the database", &error))?;
    if found < SCHEMA_VERSION {
        return Err(GroupError::Invalid(format!(
            "the database has version {found} of tidewire's schema and this needs {SCHEMA_VERSION}; \
             run `tidewire migrate`, or start a server of this version on it"
        )));
    }
    connector.fence.follow(epoch(&session.client).await?);
    drop(session);
    let pool = Pool::new(&connector, OTHER_CONNECTIONS)?;
    let signals = Signals { grown: watch::Sender::new(0), groups: watch::Sender::new(0) };
    let (grown, groups) = (signals.grown.subscribe(), signals.groups.subscribe());
    let stop = CancellationToken::new();
    let listener = listener::run(Arc::clone(&connector), Arc::new(signals), stop.clone());
    connector.tasks().spawn(listener);
    Ok(Arc::new(PostgresGroups {
        fence: Arc::clone(&connector.fence),
        pool,
        user_sessions: UserSessions::new(&connector, USER_SESSIONS),
        sessions: Arc::new(WorkSessions::new(&connector, connections)),
        grown,
        signals: groups,
        _stop: Some(stop.drop_guard()),
    }))
}
