//! What a live connection comes over, from HTTP to the hub.

use std::sync::Arc;

use prometheus_client::metrics::gauge::Gauge;

use tidewire_wire::connection_slots::ConnectionSlot;
use tidewire_wire::line::Line;

/// What a request for a live connection comes over.
#[derive(Debug, Clone)]
pub(crate) struct Carrier {
    pub(crate) line: Arc<Line>,
    /// A place among the connections there may be, and in their count. Whoever leaves HTTP takes it
    /// along.
    _place: Arc<(ConnectionSlot, Open)>,
}

impl Carrier {
    pub(crate) fn new(line: Arc<Line>, slot: ConnectionSlot, open: Open) -> Carrier {
        Carrier { line, _place: Arc::new((slot, open)) }
    }
}

/// An open connection, as it is counted.
#[derive(Debug)]
pub(crate) struct Open(Gauge);

impl Open {
    pub(crate) fn count(gauge: &Gauge) -> Open {
        gauge.inc();
        Open(gauge.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// A name for a connection: no other has it, and there is no `-` in it.
pub(crate) fn connection_id() -> Arc<str> {
    let bytes = rand::random::<u64>();
    format!("{bytes:016x}").into()
}
