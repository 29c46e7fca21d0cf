//! `capture`: what it costs writers that their changes are caught, how soon a subscriber has them,
//! and how many a second come through. Beside no capture at all and the designs of others.
//!
//! - `aims`: what capture aims at
//! - `backlog`: how fast changes that piled up while no node ran come into the log
//! - `design`: the designs that are compared, each with a database of its own
//! - `discard`: whoever reads a slot and throws away what it gets
//! - `latency`: from the writer's commit to a subscriber, one change at a time
//! - `sustained`: how many changes a second go all the way, from commit to a WebSocket, while
//!   writers write as fast as they can
//! - `writers`: writers' throughput under each design, in turn, several times over in one run

mod aims;
mod backlog;
mod design;
mod discard;
mod latency;
mod sustained;
mod writers;

use anyhow::Result;

use crate::aims::Aims;
use crate::report::Report;
use crate::scale::Scale;
use crate::servers::Kind;
use crate::{Options, Part};

pub(crate) fn run(options: &Options, scale: &Scale) -> Result<()> {
    let mut report = options.open_report("capture", scale, &[Kind::TidewirePostgres])?;
    if report.present().is_empty() {
        report.note_absence("capture: needs tidewire and PostgreSQL".to_owned());
        return report.close(&options.results);
    }
    let designs = design::possible(options, &mut report)?;
    let mut aims = Aims::default();
    if options.runs(Part::Writers) {
        let rows = writers::run(options, scale, &designs, &mut report)?;
        aims.of_writers(&rows);
    }
    if options.runs(Part::Latency) {
        let rows = latency::run(options, scale, &designs, &mut report)?;
        aims.of_latency(&rows);
    }
    if options.runs(Part::Backlog) {
        let rows = backlog::run(options, scale, &designs, &mut report)?;
        aims.of_backlog(&rows);
    }
    if options.runs(Part::Sustained) {
        sustained::run(options, scale, &designs, &mut report)?;
    }
    finish(options, report, &aims)
}

fn finish(options: &Options, mut report: Report, aims: &Aims) -> Result<()> {
    aims.print();
    report.section("aims", aims)?;
    report.close(&options.results)
}
