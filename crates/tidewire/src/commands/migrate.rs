//! `tidewire migrate`: opens the store, which brings its schema up to date, and closes it. With `--compat` it also
//! creates the names that SQL written for other systems uses.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use tidewire_store::SCHEMA_VERSION;
use tidewire_store_postgres::{self, CompatName, CompatSchemas};

use super::table::{self, Column};
use crate::config::{Settings, StoreOptions};
use crate::server::store;

/// Says where the store is, which version its schema has, and which names were made.
pub(crate) async fn run(
    settings: &Settings,
    compat: Option<CompatSchemas>,
) -> anyhow::Result<ExitCode> {
    let options = settings.store();
    if compat.is_some() && matches!(options, StoreOptions::Sqlite(_)) {
        bail!(
            "--compat is for PostgreSQL: the embedded store has one schema, and no functions that \
             SQL could define. Name a database with --database or TIDEWIRE_DATABASE"
        );
    }
    let store = store::open(&options, Duration::ZERO).await?.store;
    let backend = store.backend();
    store.close().await;
    let place = store::place(&options);
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{backend} {place}: the schema is at version {SCHEMA_VERSION}, the newest this binary knows"
    )?;
    if let (Some(schemas), StoreOptions::Postgres(options)) = (compat, &options) {
        report(&mut out, &tidewire_store_postgres::compat(options, &schemas).await?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn report(out: &mut impl Write, names: &[CompatName]) -> std::io::Result<()> {
    let head = [Column::left("name"), Column::left("kind"), Column::left("what was done")];
    let row = |name: &CompatName| {
        let done = if name.new { "made" } else { "brought up to date" };
        [name.name.clone(), name.kind.to_owned(), done.to_owned()]
    };
    table::print(out, &head, &names.iter().map(row).collect::<Vec<_>>())?;
    writeln!(
        out,
        "They are the migrating role's own until granted to others: see COMPAT.md. Run this again \
         after an upgrade."
    )
}
