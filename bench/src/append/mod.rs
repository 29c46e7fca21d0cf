//! `append`: how fast events become durable, over HTTP.
//!
//! - `flatness`: what an append costs as the log grows
//! - `idle_snapshot`: appends while somebody elsewhere sits in a REPEATABLE READ transaction
//! - `matrix`: producers × payload sizes, every server in turn for each combination, so that a
//!   ratio compares neighbours in time
//! - `measure`: one measurement of appends against one running server

mod flatness;
mod idle_snapshot;
mod matrix;
pub(crate) mod measure;

use anyhow::Result;

use crate::scale::Scale;
use crate::servers::Kind;
use crate::{Options, Part};

pub(crate) fn run(options: &Options, scale: &Scale) -> Result<()> {
    let mut report = options.open_report("append", scale, &Kind::STREAMS)?;
    if options.runs(Part::Matrix) {
        matrix::run(options, scale, &mut report)?;
    }
    if options.runs(Part::IdleSnapshot) {
        idle_snapshot::run(options, scale, &mut report)?;
    }
    if options.runs(Part::Flatness) {
        flatness::run(options, scale, &mut report)?;
    }
    report.close(&options.results)
}
