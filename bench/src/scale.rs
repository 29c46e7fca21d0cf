//! How much a run measures. A smoke run takes seconds and proves only that nothing has rotted.

use std::time::Duration;

use crate::consume::Effect;
use crate::load::Window;

#[derive(Debug, Clone)]
pub(crate) struct Scale {
    pub(crate) name: &'static str,
    pub(crate) window: Window,
    pub(crate) producers: &'static [usize],
    pub(crate) payload_bytes: &'static [usize],
    /// The largest audience of producers: of the shared stream, the idle snapshot and the flatness
    /// runs.
    pub(crate) producers_max: usize,
    /// Of the bare insert loop.
    pub(crate) raw_measure: Duration,
    /// Long enough for the bloat behind an idle snapshot to show.
    pub(crate) idle_snapshot: Window,
    pub(crate) log_events: &'static [u64],
    pub(crate) catch_up_events: &'static [usize],
    pub(crate) catch_up_readers: &'static [usize],
    pub(crate) subscribers: &'static [usize],
    pub(crate) fanout: Fanout,
    pub(crate) capture: Capture,
    pub(crate) consume: Consume,
    pub(crate) entities: Entities,
    pub(crate) live_queries: LiveQueries,
    pub(crate) matching: Matching,
}

/// Of `livequery`.
#[derive(Debug, Clone)]
pub(crate) struct LiveQueries {
    pub(crate) queries: usize,
    pub(crate) connections: usize,
    /// Of each plan, one at a time.
    pub(crate) inserts: usize,
    /// Of what is done flat out.
    pub(crate) measure: Duration,
}

/// Of `entities`.
#[derive(Debug, Clone)]
pub(crate) struct Entities {
    pub(crate) users: usize,
    /// Of each user, with one connection.
    pub(crate) subscriptions: usize,
    /// How often each operation is done.
    pub(crate) rounds: usize,
    /// Connections that changes are delivered to.
    pub(crate) connections: usize,
    /// Entities that each of them subscribes to.
    pub(crate) interests: usize,
    /// Changes, one at a time.
    pub(crate) changes: usize,
}

/// Of `match`.
#[derive(Debug, Clone)]
pub(crate) struct Matching {
    /// Registered at once; the least is more than the hundred that one event matches.
    pub(crate) queries: &'static [usize],
    /// Of the engine as a whole.
    pub(crate) whole_queries: &'static [usize],
    /// How long events are looked up, of each kind.
    pub(crate) event_ms: u64,
    /// Rows of the table that queries are run on again.
    pub(crate) table_rows: usize,
    /// How often one is.
    pub(crate) reruns: usize,
}

/// Of `capture`.
#[derive(Debug, Clone)]
pub(crate) struct Capture {
    pub(crate) window: Window,
    pub(crate) clients: &'static [usize],
    /// How often each design has its turn.
    pub(crate) rounds: usize,
    pub(crate) latency_changes: usize,
    pub(crate) backlog_events: u64,
}

/// Of `consume`.
#[derive(Debug, Clone)]
pub(crate) struct Consume {
    /// In the log. Who works off all of them before the time is over is done.
    pub(crate) events: u64,
    /// In a queue.
    pub(crate) jobs: u64,
    pub(crate) partitions: &'static [u32],
    /// What jobs of the queues from npm do: these take long to start.
    pub(crate) peer_effects: &'static [Effect],
    /// How often each has its turn.
    pub(crate) rounds: usize,
    pub(crate) measure: Duration,
}

/// Of `fanout`. Numbers of connections are cut to what a process may open.
#[derive(Debug, Clone)]
pub(crate) struct Fanout {
    pub(crate) window: Window,
    /// Time for a server to finish what it does after the last subscriber has come in.
    pub(crate) settle: Duration,
    pub(crate) subscribers: &'static [usize],
    pub(crate) idle_connections: usize,
    /// How long idle connections stay before their memory is read.
    pub(crate) idle: Duration,
    pub(crate) hot_subscribers: usize,
    /// Of what is followed as a stream and as a live query: one identity may have twice as many queries.
    pub(crate) hot_followers: usize,
    pub(crate) slow_audience: usize,
    /// Of the audience, how many stop reading.
    pub(crate) slow_stop: usize,
    /// Messages published flat out after some have stopped reading: more than what a server may
    /// keep for one connection.
    pub(crate) slow_burst: usize,
    /// Events that the Rust client is to receive.
    pub(crate) client_events: usize,
}

impl Scale {
    pub(crate) fn smoke() -> Self {
        let window =
            Window { warm_up: Duration::from_millis(100), measure: Duration::from_millis(500) };
        Self {
            name: "smoke",
            window,
            producers: &[1, 16],
            payload_bytes: &[100],
            producers_max: 16,
            raw_measure: Duration::from_millis(300),
            idle_snapshot: window,
            log_events: &[1_000, 10_000],
            catch_up_events: &[1_000],
            catch_up_readers: &[1, 2],
            subscribers: &[20],
            fanout: Fanout {
                window: Window {
                    warm_up: Duration::from_millis(50),
                    measure: Duration::from_millis(100),
                },
                settle: Duration::from_millis(50),
                subscribers: &[20],
                idle_connections: 50,
                idle: Duration::from_millis(200),
                hot_subscribers: 50,
                hot_followers: 50,
                slow_audience: 40,
                slow_stop: 4,
                slow_burst: 320,
                client_events: 2_000,
            },
            capture: Capture {
                window,
                clients: &[2],
                rounds: 1,
                latency_changes: 20,
                backlog_events: 2_000,
            },
            consume: Consume {
                events: 6_000,
                jobs: 300,
                partitions: &[1, 8],
                peer_effects: &[Effect::Insert],
                rounds: 1,
                measure: Duration::from_millis(250),
            },
            entities: Entities {
                users: 100,
                subscriptions: 100,
                rounds: 5,
                connections: 10,
                interests: 20,
                changes: 20,
            },
            live_queries: LiveQueries {
                queries: 100,
                connections: 10,
                inserts: 5,
                measure: Duration::from_millis(300),
            },
            matching: Matching {
                queries: &[300, 1_000],
                whole_queries: &[300],
                event_ms: 2,
                table_rows: 1_000,
                reruns: 5,
            },
        }
    }

    pub(crate) fn standard(measure: Duration) -> Self {
        let warm_up = Duration::from_secs(1);
        Self {
            name: "standard",
            window: Window { warm_up, measure },
            producers: &[1, 16, 256],
            payload_bytes: &[100, 1024, 16 * 1024],
            producers_max: 256,
            raw_measure: measure.min(Duration::from_secs(3)),
            idle_snapshot: Window { warm_up, measure: measure.max(Duration::from_secs(15)) },
            log_events: &[10_000, 1_000_000],
            catch_up_events: &[1_000, 100_000],
            catch_up_readers: &[1, 16],
            subscribers: &[100, 1000],
            fanout: Fanout {
                window: Window { warm_up, measure },
                settle: Duration::from_millis(500),
                subscribers: &[100, 1000, 5000],
                idle_connections: 19_000,
                idle: Duration::from_secs(10),
                hot_subscribers: 15_000,
                hot_followers: 5_000,
                slow_audience: 1000,
                slow_stop: 50,
                slow_burst: 16_000,
                client_events: 200_000,
            },
            capture: Capture {
                window: Window { warm_up, measure },
                clients: &[8, 32],
                rounds: 3,
                latency_changes: 300,
                backlog_events: 200_000,
            },
            consume: Consume {
                events: 600_000,
                jobs: 20_000,
                partitions: &[1, 2, 4, 8],
                peer_effects: &Effect::ALL,
                rounds: 3,
                measure,
            },
            entities: Entities {
                users: 10_000,
                subscriptions: 100,
                rounds: 200,
                connections: 1_000,
                interests: 100,
                changes: 300,
            },
            live_queries: LiveQueries {
                queries: 10_000,
                connections: 1_000,
                inserts: 200,
                measure: measure.max(Duration::from_secs(5)),
            },
            matching: Matching {
                queries: &[1_000, 10_000, 100_000, 1_000_000],
                whole_queries: &[1_000, 100_000],
                event_ms: 300,
                table_rows: 100_000,
                reruns: 300,
            },
        }
    }

    pub(crate) fn full(measure: Duration) -> Self {
        let log_events = &[10_000, 1_000_000, 10_000_000];
        let standard = Self::standard(measure);
        let fanout = Fanout {
            subscribers: &[100, 1000, 5000, 19_000],
            // Longer than the interval of a server's pings.
            idle: Duration::from_secs(30),
            ..standard.fanout
        };
        Self { name: "full", log_events, fanout, ..standard }
    }
}
