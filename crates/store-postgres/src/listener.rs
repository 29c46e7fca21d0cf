//! Receives notifications of all nodes' commits, on a connection of its own that listens on `tidewire_log`, on
//! `tidewire_session` for sessions whose subscriptions changed, on `tidewire_control` for what is
//! sent over the control channel, and on `tidewire_groups` for what happens in groups of consumers. A worker
//! listens on fewer channels.
//!
//! Notifications are hints, so nothing is lost when the connection breaks: the listener reconnects, reads
//! the log's tip, and signals that changes of sessions and control messages may have been missed. Followers
//! poll besides.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::{Either, select};
use futures_util::stream::poll_fn;
use tokio_postgres::{AsyncMessage, Client, Notification};
use tokio_util::sync::CancellationToken;

use super::connect::{Connector, RawConnection, SETTINGS, backoff};
use super::error::{broken, text};
use super::query::{sql, unsigned};
use super::writer::CommitEffects;
use tidewire_store::error::StoreError;
use tidewire_store::session::SessionSignal;

/// What receives notifications.
pub(crate) trait NotificationHandler: Send + Sync {
    /// What is listened on, as statements.
    fn channels(&self) -> &'static str;

    /// From here on it is heard what is committed. What was before is not told.
    fn begun(&self);

    /// Where the log's tip is. It may be further back than it was.
    fn tip_is(&self, position: u64);

    /// Something was said.
    fn heard(&self, notification: &Notification);
}

impl NotificationHandler for CommitEffects {
    fn channels(&self) -> &'static str {
        "LISTEN tidewire_log; LISTEN tidewire_session; LISTEN tidewire_control; \
         LISTEN tidewire_groups"
    }

    fn begun(&self) {
        self.signal(SessionSignal::Missed);
        self.signal_control();
        self.signal_groups();
    }

    fn tip_is(&self, position: u64) {
        self.grown.send_replace(position);
    }

    fn heard(&self, notification: &Notification) {
        let payload = notification.payload();
        match (notification.channel(), payload.parse()) {
            ("tidewire_session", _) => self.signal(SessionSignal::Changed(payload.to_owned())),
            ("tidewire_control", _) => self.signal_control(),
            ("tidewire_groups", _) => self.signal_groups(),
            (_, Ok(position)) => self.announce(position),
            (_, Err(_)) => {}
        }
    }
}

/// Listens until told to stop.
pub(crate) async fn run(
    connector: Arc<Connector>,
    handler: Arc<impl NotificationHandler>,
    stop: CancellationToken,
) {
    let listening = async {
        let mut attempt = 0;
        loop {
            match tokio::time::timeout(connector.timeout, connector.raw()).await {
                Err(_) => tracing::warn!(attempt, "no answer from PostgreSQL; not listening"),
                Ok(Err(error)) => {
                    tracing::warn!(error = text(&error), attempt, "cannot listen to PostgreSQL");
                }
                Ok(Ok((client, connection))) => {
                    attempt = 0;
                    let error = listen(&connector, &client, connection, &*handler).await;
                    let error = error.map(|error| error.to_string());
                    tracing::warn!(error, "stopped listening");
                }
            }
            tokio::time::sleep(backoff(attempt)).await;
            attempt += 1;
        }
    };
    tokio::select! {
        () = listening => {}
        () = stop.cancelled() => {}
    }
}

/// Listens until the connection ends, and returns why it did.
async fn listen(
    connector: &Connector,
    client: &Client,
    mut connection: RawConnection,
    handler: &impl NotificationHandler,
) -> Option<StoreError> {
    let failed = broken("listen");
    let mut messages = poll_fn(move |context| connection.poll_message(context));
    let hear = async {
        while let Some(message) = messages.next().await {
            match message {
                Ok(AsyncMessage::Notification(notification)) => handler.heard(&notification),
                Ok(_) => {}
                Err(error) => return Some(failed(error)),
            }
        }
        None
    };
    let start = async {
        client.batch_execute(SETTINGS).await.map_err(&failed)?;
        connector.fence.admit(client).await?;
        client.batch_execute(handler.channels()).await.map_err(&failed)?;
        handler.begun();
        let tip = client.query_one(sql!("tip"), &[]).await.and_then(|row| row.try_get(0));
        handler.tip_is(unsigned(tip.map_err(&failed)?));
        Ok::<(), StoreError>(())
    };
    match select(Box::pin(hear), Box::pin(start)).await {
        Either::Left((ended, _)) => ended,
        Either::Right((Err(error), _)) => Some(error),
        Either::Right((Ok(()), hear)) => hear.await,
    }
}
