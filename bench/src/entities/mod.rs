//! `entities`: what it costs to subscribe to entities among a million subscriptions, and how soon
//! those who do are told of a change.

mod crowd;
mod ground;
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
