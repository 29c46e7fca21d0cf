//! A server with an audience in place, and what is read off it.

use anyhow::{Result, bail};
use serde::Serialize;

use super::way::Way;
use crate::Options;
use crate::cost::{Cost, Reading};
use crate::cpu;
use crate::latency::Percentiles;
use crate::load::Window;
use crate::load::crowd::{Audience, CrowdRun, Pace, Tally};
use crate::quiet::Disturbed;
use crate::scale::Scale;
use crate::servers::Server;

pub(crate) const STREAM: &str = "fan-out";
/// 64 messages under way, 16 in each append or write: enough for a server to work on some while
/// others are being read, far too few to fill any queue.
pub(crate) const FLAT_OUT: Pace = Pace::FlatOut { outstanding_max: 64, batch: 16 };

#[derive(Debug)]
pub(crate) struct FanOutRun {
    // Dropped in this order: the audience leaves before the server ends.
    pub(crate) stage: CrowdRun,
    pub(crate) server: Server,
    /// Resident memory of the server before the audience came, and when it was in.
    pub(crate) empty_kib: f64,
    pub(crate) full_kib: f64,
    members: usize,
}

/// How many come, and how many of them can stop reading.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) members: usize,
    pub(crate) stoppable: usize,
}

impl From<usize> for Size {
    fn from(members: usize) -> Self {
        Self { members, stoppable: 0 }
    }
}

/// One pace with one audience.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Delivery {
    pub(crate) deliveries_per_second: f64,
    pub(crate) published_per_second: f64,
    /// From the moment a message leaves to the moment a subscriber has read it; `None` if those that
    /// were under way when the window opened lasted until its end.
    pub(crate) latency: Option<Percentiles>,
    /// From an append to its answer, where it is answered.
    pub(crate) answer: Option<Percentiles>,
    pub(crate) cpu_per_delivery: Cost,
    /// Growth of the server's resident memory by the audience ÷ its size.
    pub(crate) connection_kib: f64,
}

impl FanOutRun {
    pub(crate) fn open(
        way: Way,
        options: &Options,
        scale: &Scale,
        streams: &[&str],
        size: Size,
    ) -> Result<Self> {
        let server = way.start(options, streams)?;
        let empty_kib = cpu::resident_kib(server.pid())?;
        let mut stage = open_stage(way, &server, STREAM, size)?;
        stage.idle(scale.fanout.settle)?;
        let full_kib = cpu::resident_kib(server.pid())?;
        Ok(Self { stage, server, empty_kib, full_kib, members: size.members })
    }

    pub(crate) fn connection_kib(&self) -> f64 {
        (self.full_kib - self.empty_kib) / self.members.max(1) as f64
    }

    pub(crate) fn measure(&mut self, pace: Pace, window: Window) -> Result<Delivery> {
        let (tally, [opened, closed]) = run(&mut self.stage, &self.server, pace, window)?;
        Ok(Delivery {
            deliveries_per_second: tally.deliveries as f64 / tally.seconds,
            published_per_second: tally.published as f64 / tally.seconds,
            latency: tally.latency,
            answer: tally.answer,
            cpu_per_delivery: Cost::between(opened, closed, tally.deliveries)?,
            connection_kib: self.connection_kib(),
        })
    }
}

/// An audience of one stream, in place.
pub(crate) fn open_stage(way: Way, server: &Server, stream: &str, size: Size) -> Result<CrowdRun> {
    let audience = Audience {
        address: server.addresses().websocket,
        door: way.door(stream),
        members: size.members,
        stoppable: size.stoppable,
    };
    CrowdRun::open(&audience, server.addresses().publish, way.lane(stream))
}

/// Runs a window, with the CPU read at both of its edges.
pub(crate) fn run(
    stage: &mut CrowdRun,
    server: &Server,
    pace: Pace,
    window: Window,
) -> Result<(Tally, [Reading; 2])> {
    let mut readings = Vec::with_capacity(2);
    let tally = stage.run(pace, window, &mut || {
        readings.push(Reading::take(server.processes())?);
        Ok(())
    })?;
    let [opened, closed] = readings[..] else {
        bail!("the window was not read at both edges");
    };
    Ok((tally, [opened, closed]))
}

impl Disturbed for Delivery {
    fn others_share(&self) -> f64 {
        self.cpu_per_delivery.others_share
    }
}
