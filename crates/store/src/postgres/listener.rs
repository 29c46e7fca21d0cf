//! Hears of all nodes' commits: a connection of its own that listens on `tidewire_log`, on
//! `tidewire_session` for sessions whose subscriptions changed, and on `tidewire_control` for what is
//! said in the control channel.
//!
//! Hints only, so nothing is lost when it breaks: it comes back by itself, looks where the log's tip
//! is by then, and followers poll besides; and it says that signals of sessions were missed, and
//! that something may have been said.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::{Either, select};
use futures_util::stream::poll_fn;
use tokio_postgres::{AsyncMessage, Client, Error, Notification};
use tokio_util::sync::CancellationToken;

use super::connect::{Connector, RawConnection, SETTINGS, backoff};
use super::error::text;
use super::query::{sql, unsigned};
use super::writer::Effects;
use crate::session::SessionSignal;

const LISTEN: &str = "LISTEN tidewire_log; LISTEN tidewire_session; LISTEN tidewire_control";

/// Listens until told to stop.
pub(crate) async fn run(connector: Arc<Connector>, effects: Arc<Effects>, stop: CancellationToken) {
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
                    let error = listen(&client, connection, &effects).await;
                    tracing::warn!(error = error.as_ref().map(text), "stopped listening");
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
    client: &Client,
    mut connection: RawConnection,
    effects: &Effects,
) -> Option<Error> {
    let mut messages = poll_fn(move |context| connection.poll_message(context));
    let hear = async {
        while let Some(message) = messages.next().await {
            match message {
                Ok(AsyncMessage::Notification(notification)) => heard(&notification, effects),
                Ok(_) => {}
                Err(error) => return Some(error),
            }
        }
        None
    };
    let start = async {
        client.batch_execute(SETTINGS).await?;
        client.batch_execute(LISTEN).await?;
        // What was committed before is not told; what is committed from here on is.
        effects.signal(SessionSignal::Missed);
        effects.signal_control();
        let tip: i64 = client.query_one(sql!("tip"), &[]).await?.try_get(0)?;
        effects.tip_is(unsigned(tip));
        Ok::<(), Error>(())
    };
    match select(Box::pin(hear), Box::pin(start)).await {
        Either::Left((ended, _)) => ended,
        Either::Right((Err(error), _)) => Some(error),
        Either::Right((Ok(()), hear)) => hear.await,
    }
}

fn heard(notification: &Notification, effects: &Effects) {
    let payload = notification.payload();
    match (notification.channel(), payload.parse()) {
        ("tidewire_session", _) => effects.signal(SessionSignal::Changed(payload.to_owned())),
        ("tidewire_control", _) => effects.signal_control(),
        (_, Ok(position)) => effects.announce(position),
        (_, Err(_)) => {}
    }
}
