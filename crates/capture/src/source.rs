//! Chooses the source of changes: the configured one, or else the best that is possible. Also sets which
//! channels are notified of events.

use std::convert::Infallible;
use std::time::Duration;

use tidewire_store::{CaptureMode, StoreError};
use tidewire_store_postgres::wal::{self, Chooser, Obstacles};

use tidewire_store_postgres::captured::broken;

use crate::leader::Leadership;
use crate::options::{CaptureOptions, Source, Wake};
use crate::query::{query_one, sql};

/// How long to wait before a choice that could not be made is tried again, and how often to look for a
/// slot that nobody reads.
const PAUSE: Duration = Duration::from_secs(30);

/// Sees to it that changes come from the right source, for as long as it is let.
pub(crate) async fn run(leadership: &Leadership, options: &CaptureOptions) -> Infallible {
    let mut made = false;
    loop {
        let attempt = async {
            if !std::mem::replace(&mut made, true) {
                choose(leadership, options).await?;
                set_wake(leadership, options.wake).await?;
            }
            tidy(leadership).await
        };
        if let Err(error) = attempt.await {
            tracing::warn!(%error, "the source of changes could not be chosen; trying again");
            made = false;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn choose(leadership: &Leadership, options: &CaptureOptions) -> Result<(), StoreError> {
    let session = leadership.link.session(wal::SWITCH_SETTINGS).await?;
    let client = session.client();
    let (state, found) = (wal::state(client).await?, wal::obstacles(client).await?);
    let Some((mode, why)) = wanted(options.source, state.on, state.chosen, &found) else {
        return Ok(());
    };
    let chooser = match options.source {
        Source::Auto => Chooser::Node,
        Source::Wal | Source::Outbox => Chooser::Configuration,
    };
    wal::switch(client, mode, &why, chooser).await?;
    let advice = found.blocking.iter().chain(&found.advice).cloned().collect::<Vec<_>>().join("; ");
    tracing::info!(mode = mode.as_str(), why, advice, "the source of changes is chosen");
    Ok(())
}

/// Sets whether the channels that other systems listen to are notified of events.
async fn set_wake(leadership: &Leadership, wake: Wake) -> Result<(), StoreError> {
    let session = leadership.link.session(wal::SWITCH_SETTINGS).await?;
    let always = wake == Wake::Always;
    let set = query_one(session.client(), sql!("set_wake"), &[&always]).await;
    let changed = set.and_then(|row| row.try_get::<_, bool>(0));
    if changed.map_err(broken("choose which channels are notified of events"))? {
        tracing::info!(always, "set whether other systems' channels are notified of events");
    }
    Ok(())
}

/// The source, and why; none if it stays as a person chose it.
fn wanted(
    source: Source,
    reads_wal: bool,
    chosen: bool,
    found: &Obstacles,
) -> Option<(CaptureMode, String)> {
    // A slot of our own is not in our way.
    let possible = reads_wal || found.blocking.is_empty();
    let obstacles = || found.blocking.join("; ");
    match source {
        Source::Auto if chosen => None,
        Source::Outbox => Some((CaptureMode::Outbox, "the configuration says so".to_owned())),
        Source::Wal if possible => Some((CaptureMode::Wal, "the configuration says so".to_owned())),
        Source::Auto if possible => {
            let why = "wal_level is logical, and the role may replicate";
            Some((CaptureMode::Wal, why.to_owned()))
        }
        Source::Wal => {
            let why = format!("capture = \"wal\" is not possible: {}", obstacles());
            tracing::error!("{why}");
            Some((CaptureMode::Outbox, why))
        }
        Source::Auto => {
            let why = format!("the write-ahead log cannot be read: {}", obstacles());
            Some((CaptureMode::Outbox, why))
        }
    }
}

async fn tidy(leadership: &Leadership) -> Result<(), StoreError> {
    let session = leadership.link.session(wal::SWITCH_SETTINGS).await?;
    wal::drop_orphan(session.client()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(source: Source, chosen: bool, blocking: &[&str]) -> Option<CaptureMode> {
        let blocking = blocking.iter().map(ToString::to_string).collect();
        let found = Obstacles { blocking, advice: Vec::new() };
        wanted(source, false, chosen, &found).map(|(mode, _)| mode)
    }

    #[test]
    fn auto_takes_the_write_ahead_log_where_it_can() {
        assert_eq!(mode(Source::Auto, false, &[]), Some(CaptureMode::Wal));
        assert_eq!(mode(Source::Auto, false, &["no"]), Some(CaptureMode::Outbox));
    }

    #[test]
    fn auto_leaves_what_a_person_chose() {
        assert_eq!(mode(Source::Auto, true, &[]), None);
        assert_eq!(mode(Source::Outbox, true, &[]), Some(CaptureMode::Outbox));
    }

    #[test]
    fn what_is_asked_for_and_impossible_is_said() {
        let found = Obstacles { blocking: vec!["wal_level is replica".to_owned()], advice: vec![] };
        let (mode, why) = wanted(Source::Wal, false, false, &found).expect("a source");
        assert_eq!(mode, CaptureMode::Outbox);
        assert!(why.contains("wal_level is replica"), "{why}");
    }
}
