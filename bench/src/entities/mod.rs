//! `entities`: what it costs to subscribe to entities among a million subscriptions, and how soon
//! those who do are told of a change.
//!
//! - `crowd`: many pages that subscribe to entities, and what each is told
//! - `fixture`: a store with many subscriptions in it, and a server on it
//! - `invalidations`: from a change of a row to everyone who subscribes to it, one change at a time
//! - `operations`: subscribing to entities among a million subscriptions
//! - `page`: a page that asks and waits for the answer, over a WebSocket of its own

mod crowd;
mod fixture;
mod invalidations;
mod operations;
mod page;

use anyhow::Result;

use crate::aims::Aims;
use crate::scale::Scale;
use crate::servers::Kind;
use crate::{Options, Part};

pub(crate) fn run(options: &Options, scale: &Scale) -> Result<()> {
    let kinds = [Kind::TidewireSqlite, Kind::TidewirePostgres];
    let mut report = options.open_report("entities", scale, &kinds)?;
    let mut aims = Aims::default();
    if options.runs(Part::Operations) {
        let rows = operations::run(options, scale, &mut report)?;
        operations::judge(&rows, &mut aims);
    }
    if options.runs(Part::Invalidations) {
        let rows = invalidations::run(options, scale, &mut report)?;
        invalidations::judge(&rows, &mut aims);
    }
    aims.print();
    report.section("aims", &aims)?;
    report.close(&options.results)
}
