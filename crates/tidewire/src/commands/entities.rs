//! `tidewire entities`: the number of subscriptions to entities, as a table or as lines of JSON.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context as _;
use tidewire_client::EntityCount;

use super::table::{self, Column};
use crate::cli::EntitiesFlags;

/// Asks once and prints what is answered.
pub(crate) async fn run(flags: EntitiesFlags) -> anyhow::Result<ExitCode> {
    let client = super::client(&flags.client)?;
    let counts = client.entity_counts(flags.user.as_deref()).await;
    let counts = counts.context("cannot count the subscriptions to entities")?;
    let mut out = io::stdout().lock();
    if flags.json {
        for count in &counts {
            serde_json::to_writer(&mut out, count).map_err(io::Error::from)?;
            out.write_all(b"\n")?;
        }
    } else {
        print(&mut out, &counts)?;
    }
    Ok(ExitCode::SUCCESS)
}

const COLUMNS: usize = 4;

const HEAD: [Column; COLUMNS] = [
    Column::left("entity code"),
    Column::right("subscriptions"),
    Column::right("entities"),
    Column::right("users"),
];

fn print(out: &mut impl Write, counts: &[EntityCount]) -> io::Result<()> {
    let row = |count: &EntityCount| {
        [
            count.entity_code.clone(),
            count.subscriptions.to_string(),
            count.entities.to_string(),
            count.users.to_string(),
        ]
    };
    let rows: Vec<[String; COLUMNS]> = counts.iter().map(row).collect();
    table::print(out, &HEAD, &rows)
}
