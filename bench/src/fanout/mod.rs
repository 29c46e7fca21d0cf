//! `fanout`: one message to many subscribers over WebSocket and SSE, what a delivery costs, and who
//! else feels it. Beside NATS, and the bare loop that only writes.
//!
//! - `aims`: what fan-out is meant to reach, and whether it did
//! - `client`: what the Rust client makes of a live connection
//! - `deliver`: one message to N subscribers, paced and flat out
//! - `idle`: idle connections with one subscription each
//! - `prefetch`: what looking at followers ahead of writing to them saves
//! - `mixed`: a small stream beside a hot one
//! - `show`: a server with an audience in place, and what is read off it
//! - `slow_readers`: some subscribers stop reading
//! - `way`: the ways a message reaches an audience

mod aims;
mod client;
mod deliver;
mod idle;
mod mixed;
mod prefetch;
mod show;
mod slow_readers;
mod way;

use anyhow::Result;

use crate::load::crowd::connections_max;
use crate::scale::Scale;
use crate::servers::Kind;
use crate::{Options, Part};
use way::Way;

pub(crate) fn run(options: &Options, scale: &Scale) -> Result<()> {
    let mut report = options.open_report("fanout", scale, &Kind::FAN_OUT)?;
    let connections_max = connections_max()?;
    println!("{:<18}  {connections_max} at most, by the limit of open files", "connections");
    let ways = Way::present(&Way::ALL, options, &mut report);
    let (mut rows, mut idle_rows) = (Vec::new(), Vec::new());
    if options.runs(Part::Deliver) {
        rows = deliver::run(options, scale, &ways, connections_max, &mut report)?;
    }
    if options.runs(Part::Idle) {
        idle_rows = idle::run(options, scale, &ways, connections_max, &mut report)?;
    }
    if options.runs(Part::Mixed) {
        mixed::run(options, scale, &ways, connections_max, &mut report)?;
    }
    if options.runs(Part::SlowReaders) {
        slow_readers::run(options, scale, &ways, connections_max, &mut report)?;
    }
    if options.runs(Part::Client) {
        client::run(options, scale, &ways, &mut report)?;
    }
    if options.runs(Part::LookAhead) {
        prefetch::run(options, scale, &ways, connections_max, &mut report)?;
    }
    let aims = aims::judge(&rows, &idle_rows);
    aims::print(&aims, &rows);
    report.section("aims", &aims)?;
    report.close(&options.results)
}
