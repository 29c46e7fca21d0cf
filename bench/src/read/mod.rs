//! `read`: how fast a stream is caught up with, and how fast a live audience is served.
//!
//! - `catch_up`: readers of whole streams
//! - `fan_out`: many readers of one stream

mod catch_up;
mod fan_out;

use anyhow::Result;

use crate::scale::Scale;
use crate::servers::Kind;
use crate::{Options, Part};

pub(crate) fn run(options: &Options, scale: &Scale) -> Result<()> {
    let mut report = options.open_report("read", scale, &Kind::STREAMS)?;
    if options.runs(Part::CatchUp) {
        catch_up::run(options, scale, &mut report)?;
    }
    if options.runs(Part::FanOut) {
        fan_out::run(options, scale, &mut report)?;
    }
    report.close(&options.results)
}
