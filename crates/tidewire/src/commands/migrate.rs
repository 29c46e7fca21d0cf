//! `tidewire migrate`: opens the store, which brings its schema up to date, and closes it.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use tidewire_store::SCHEMA_VERSION;

use crate::config::Settings;
use crate::server::store;

/// Says where the store is, and which version its schema has.
pub(crate) async fn run(settings: &Settings) -> anyhow::Result<ExitCode> {
    let options = settings.store();
    let store = store::open(&options, Duration::ZERO).await?.store;
    let backend = store.backend();
    store.close().await;
    let place = store::place(&options);
    writeln!(
        std::io::stdout().lock(),
        "{backend} {place}: the schema is at version {SCHEMA_VERSION}, the newest this binary knows"
    )?;
    Ok(ExitCode::SUCCESS)
}
