//! One measurement of appends against one running server.

use anyhow::{Result, bail};
use serde::Serialize;

use crate::cost::{Cost, Reading};
use crate::latency::Percentiles;
use crate::load::Window;
use crate::load::producers::{self, Load};
use crate::metrics::AppendCounters;
use crate::quiet::Disturbed;
use crate::servers::Server;

/// Documents are opaque bytes to the log, so the servers spend nothing on looking into them.
pub(crate) const CONTENT_TYPE: &str = "application/octet-stream";
/// Several messages are one request as the elements of a JSON array.
const CONTENT_TYPE_OF_MANY: &str = "application/json";

/// What is appended, and by how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Shape {
    pub(crate) producers: usize,
    pub(crate) payload_bytes: usize,
    /// All producers append to one stream, instead of each to its own.
    pub(crate) is_shared_stream: bool,
    /// Of one request, each of so many bytes and an event of its own.
    pub(crate) messages: usize,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Measured {
    pub(crate) events_per_second: f64,
    pub(crate) megabytes_per_second: f64,
    #[serde(flatten)]
    pub(crate) latency: Percentiles,
    pub(crate) cpu_per_event: Cost,
    /// Events per commit, where the server tells.
    pub(crate) batch_events: Option<f64>,
    pub(crate) first_half_events_per_second: f64,
    pub(crate) second_half_events_per_second: f64,
}

impl Disturbed for Measured {
    fn others_share(&self) -> f64 {
        self.cpu_per_event.others_share
    }
}

impl Shape {
    pub(crate) fn label(self) -> String {
        let stream = if self.is_shared_stream { ", one stream" } else { "" };
        let each = match self.messages {
            1 => String::new(),
            many => format!("{many} x "),
        };
        format!("{} x {each}{}{stream}", self.producers, bytes_label(self.payload_bytes))
    }

    pub(crate) fn content_type(self) -> &'static str {
        if self.messages == 1 { CONTENT_TYPE } else { CONTENT_TYPE_OF_MANY }
    }

    /// The stream of each producer.
    pub(crate) fn streams(self) -> Vec<String> {
        let number = |producer| if self.is_shared_stream { 0 } else { producer };
        (0..self.producers).map(|producer| format!("bench-{}", number(producer))).collect()
    }

    pub(crate) fn distinct_streams(self) -> Vec<String> {
        let mut streams = self.streams();
        streams.dedup();
        streams
    }

    /// The payload of one event.
    pub(crate) fn message(self) -> Vec<u8> {
        let mut message = vec![b'x'; self.payload_bytes];
        if let (2.., [first, .., last]) = (self.messages, &mut message[..]) {
            (*first, *last) = (b'"', b'"');
        }
        message
    }

    /// The body of one request.
    fn body(self) -> Vec<u8> {
        if self.messages == 1 {
            return self.message();
        }
        let body = vec![self.message(); self.messages].join(&b',');
        [b"[", &body[..], b"]"].concat()
    }
}

fn bytes_label(bytes: usize) -> String {
    if bytes.is_multiple_of(1024) { format!("{} KiB", bytes / 1024) } else { format!("{bytes} B") }
}

/// What is read when the window opens and again when it closes.
#[derive(Debug, Clone, Copy)]
struct Counters {
    cpu: Reading,
    appends: Option<AppendCounters>,
}

impl Counters {
    fn read(server: &Server) -> Result<Self> {
        let appends = server.kind.is_tidewire().then(|| AppendCounters::scrape(server.address()));
        Ok(Self { cpu: Reading::take(server.processes())?, appends: appends.transpose()? })
    }
}

pub(crate) fn measure(server: &Server, shape: Shape, window: Window) -> Result<Measured> {
    server.create_streams(&shape.distinct_streams(), shape.content_type())?;
    measure_appends(server, shape, window)
}

/// The same, of a server whose streams are there.
pub(crate) fn measure_appends(server: &Server, shape: Shape, window: Window) -> Result<Measured> {
    let load = Load {
        address: server.address(),
        streams: &shape.streams(),
        content_type: shape.content_type(),
        payload: &shape.body(),
        window,
    };
    let mut counters = Vec::with_capacity(2);
    let outcome = producers::run(&load, &mut || {
        counters.push(Counters::read(server)?);
        Ok(())
    })?;
    let [opened, closed] = counters[..] else {
        bail!("the window was not read at both edges");
    };
    let events = outcome.requests * shape.messages as u64;
    let events_per_second = events as f64 / outcome.seconds;
    let half = |requests: u64| {
        (requests * shape.messages as u64) as f64 * 2.0 / window.measure.as_secs_f64()
    };
    Ok(Measured {
        events_per_second,
        megabytes_per_second: events_per_second * shape.payload_bytes as f64 / 1e6,
        latency: outcome.latencies.percentiles(),
        cpu_per_event: Cost::between(opened.cpu, closed.cpu, events)?,
        batch_events: opened.appends.zip(closed.appends).and_then(|(a, b)| b.batch_since(a)),
        first_half_events_per_second: half(outcome.halves[0]),
        second_half_events_per_second: half(outcome.halves[1]),
    })
}
