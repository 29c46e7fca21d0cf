//! Readers of a shard whose sockets, appends and batches come in any order: what each gets is exactly
//! what its stream holds after its start, whatever it was live for, caught up on, or read again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use tokio::sync::mpsc;
use tokio::time::Interval;

use tidewire_store::memory::{Delay, MemoryData, MemoryStore};
use tidewire_store::{Actor, Append, Clock, Command as LogCommand, Create, PageLimit, SharedStore};

use super::shard::Shard;
use super::shard_loop::Incoming;
use super::transport::ServerSent;
use super::{Arrival, Key, Transport};
use crate::tail::BatchSenders;
use crate::testing;
use crate::{Hub, Unstarted};
use tidewire_access::options::{Access, Options};

const STREAMS: [&str; 2] = ["left", "right"];
/// How many times others run before the store answers, call by call: pages come early and late.
const LATE: [u32; 11] = [0, 2, 0, 7, 1, 0, 12, 3, 0, 1, 5];
/// Everything comes to rest within this, or never.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone)]
enum SimulationStep {
    /// Some messages of so many bytes.
    Append { stream: usize, messages: usize, bytes: usize },
    /// The tail follows the log; or does so blindly, as when nobody attended while it read.
    Follow { blindly: bool },
    /// The shard does some of its work.
    Turn,
    /// A reader comes and is told its first page.
    Arrive { stream: usize, at_tail: bool },
    /// Those who have come get to the shard.
    Admit,
    /// A client reads some pieces.
    Read { reader: usize, pieces: usize },
}

fn steps() -> impl Strategy<Value = Vec<SimulationStep>> {
    let stream = 0..STREAMS.len();
    // Few and small, as live; or more than the tail remembers, or gives at a time.
    let append = |messages: std::ops::Range<usize>| {
        (stream.clone(), messages, prop_oneof![3 => Just(10), 1 => Just(3_000)]).prop_map(
            |(stream, messages, bytes)| SimulationStep::Append { stream, messages, bytes },
        )
    };
    let step = prop_oneof![
        8 => append(1..4),
        2 => append(100..300),
        10 => prop::bool::weighted(0.1).prop_map(|blindly| SimulationStep::Follow { blindly }),
        12 => Just(SimulationStep::Turn),
        2 => (stream.clone(), any::<bool>())
            .prop_map(|(stream, at_tail)| SimulationStep::Arrive { stream, at_tail }),
        2 => Just(SimulationStep::Admit),
        12 => (0usize..16, 1usize..6).prop_map(|(reader, pieces)| SimulationStep::Read { reader, pieces }),
    ];
    proptest::collection::vec(step, 1..250)
}

/// The far end of a reader's response.
struct Client {
    stream: usize,
    /// Messages that were there before its start.
    start: usize,
    key: Option<Key>,
    arrival: Option<Arrival>,
    body: mpsc::Receiver<Bytes>,
    transport: Option<Transport>,
    got: String,
    ended: bool,
}

struct World {
    hub: Arc<Hub>,
    shard: Shard,
    incoming: Incoming,
    sinks: BatchSenders,
    tick: Interval,
    clients: Vec<Client>,
    /// Messages of each stream.
    appended: [usize; STREAMS.len()],
}

impl World {
    async fn new(fan_out_threshold: usize) -> World {
        let data = MemoryData::new(Clock::new(|| 0));
        let calls = AtomicUsize::new(0);
        let late = move || LATE[calls.fetch_add(1, Ordering::Relaxed) % LATE.len()];
        let store: SharedStore = MemoryStore::open_delayed(&data, Delay::new(late));
        for stream in STREAMS {
            let create = Create {
                stream: stream.to_owned(),
                content_type: Some("application/json".to_owned()),
                lifetime: None,
                messages: Vec::new(),
                closed: false,
                fork: None,
                actor: Actor::default(),
            };
            store.submit(LogCommand::Create(Box::new(create))).await.expect("a stream");
        }
        let mut options = Options::new(Access::OpenOnLoopback);
        options.live.fan_out_threshold = fan_out_threshold;
        options.streams.page_cache_bytes_max = 0;
        let (hub, Unstarted { mut shards, sinks, .. }) = testing::hub(options, store).await;
        let dormant = shards.pop().expect("a shard");
        World {
            shard: Shard::new(Arc::clone(&hub), dormant.handle, dormant.position, 0),
            incoming: dormant.incoming,
            hub,
            sinks,
            tick: tokio::time::interval(Duration::from_secs(1)),
            clients: Vec::new(),
            appended: [0; STREAMS.len()],
        }
    }

    /// Some are live before anything happens.
    async fn begin(&mut self) {
        for reader in 0..8 {
            self.arrive(reader % STREAMS.len(), false).await;
        }
        self.admit();
        for _ in 0..3 {
            self.turn().await;
        }
    }

    async fn take(&mut self, step: &SimulationStep) {
        match *step {
            SimulationStep::Append { stream, messages, bytes } => {
                self.append(stream, messages, bytes, false).await;
            }
            SimulationStep::Follow { blindly } => self.follow(blindly).await,
            SimulationStep::Turn => self.turn().await,
            SimulationStep::Arrive { stream, at_tail } => self.arrive(stream, at_tail).await,
            SimulationStep::Admit => self.admit(),
            SimulationStep::Read { reader, pieces } => self.read(reader, pieces),
        }
    }

    async fn append(&mut self, stream: usize, messages: usize, bytes: usize, close: bool) {
        let padding = "x".repeat(bytes);
        let first = self.appended[stream];
        let message = |n: usize| Bytes::from(format!("[{n},\"{padding}\"]"));
        let append = Append {
            stream: STREAMS[stream].to_owned(),
            content_type: Some("application/json".to_owned()),
            messages: (first..first + messages).map(message).collect(),
            close,
            seq: None,
            producer: None,
            actor: Actor::default(),
            trace_context: None,
        };
        self.hub.store.submit(LogCommand::Append(append)).await.expect("an append");
        self.appended[stream] += messages;
    }

    async fn follow(&mut self, blindly: bool) {
        let Hub { tail, store, .. } = &*self.hub;
        // A shard that is asked for too much would make the tail wait for it.
        if self.sinks[0].capacity() <= 2 {
            return;
        }
        if blindly {
            let limit = PageLimit { events: 1_000, bytes: usize::MAX };
            let headers = store.follow(tail.position(), limit, Arc::new(|_: &str| false)).await;
            if let Some(batch) = tail.hand_out(&headers.expect("a log")) {
                self.sinks[0].try_send(Arc::new(batch)).expect("room");
            }
        }
        tail.catch_up(store, &self.sinks).await.expect("a log");
    }

    async fn turn(&mut self) {
        // Pages that were read for readers come in between.
        tokio::task::yield_now().await;
        self.shard.turn(&mut self.incoming, &mut self.tick);
    }

    async fn arrive(&mut self, stream: usize, at_tail: bool) {
        let hub = &self.hub;
        let arrival = crate::testing::arrival(hub, STREAMS[stream], at_tail).await;
        let (sender, body) = mpsc::channel(1);
        self.clients.push(Client {
            stream,
            start: if at_tail { self.appended[stream] } else { 0 },
            key: None,
            arrival: Some(arrival),
            body,
            transport: Some(Transport::ServerSent(ServerSent { body: sender })),
            got: String::new(),
            ended: false,
        });
    }

    fn admit(&mut self) {
        for client in &mut self.clients {
            if let (Some(transport), Some(arrival)) =
                (client.transport.take(), client.arrival.take())
            {
                client.key = Some(self.shard.admit_reader(transport, arrival));
            }
        }
    }

    fn read(&mut self, reader: usize, pieces: usize) {
        let Some(client) = self.clients.get_mut(reader) else { return };
        for _ in 0..pieces {
            match client.body.try_recv() {
                Ok(piece) => client.got.push_str(std::str::from_utf8(&piece).expect("text")),
                Err(mpsc::error::TryRecvError::Empty) => return,
                Err(mpsc::error::TryRecvError::Disconnected) => {
                    client.ended = true;
                    return;
                }
            }
        }
    }

    /// Closes the streams and lets everyone get to the end.
    async fn come_to_rest(&mut self) {
        self.admit();
        for stream in 0..STREAMS.len() {
            self.append(stream, 3, 10, true).await;
        }
        while !self.clients.iter().all(|client| client.ended) {
            self.follow(false).await;
            self.turn().await;
            for reader in 0..self.clients.len() {
                self.read(reader, usize::MAX);
            }
        }
    }
}

impl Client {
    /// Checks that it was told everything after its start, each message once and in order, and that
    /// offsets rise with them.
    fn has_exactly(&self, appended: usize) {
        let mut expected = self.start;
        let mut offset = String::new();
        let mut events = self.got.split("\n\n").filter(|event| !event.is_empty()).peekable();
        while let Some(event) = events.next() {
            let (name, data) = event.split_once("\ndata:").expect("an event with data");
            let data: serde_json::Value = serde_json::from_str(data).expect("JSON");
            if name == "event: data" {
                for message in data.as_array().expect("messages") {
                    assert_eq!(message[0], expected, "of {}", STREAMS[self.stream]);
                    expected += 1;
                }
                assert!(events.peek().is_some_and(|next| next.starts_with("event: control")));
                continue;
            }
            assert_eq!(name, "event: control");
            let next = data["streamNextOffset"].as_str().expect("an offset").to_owned();
            assert!(offset <= next, "{offset} before {next}");
            offset = next;
            let is_last = events.peek().is_none();
            assert_eq!(data["streamClosed"] == true, is_last, "{data}");
        }
        assert_eq!(expected, appended, "all of {}", STREAMS[self.stream]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Invariant 3, for readers of one shard.
    #[test]
    fn every_reader_gets_exactly_what_its_stream_holds(
        steps in steps(),
        // All are served at once, or two are a crowd, which is served in slices of one.
        fan_out_threshold in prop_oneof![1 => Just(200), 3 => Just(1)],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let mut world = World::new(fan_out_threshold).await;
            world.begin().await;
            for step in &steps {
                world.take(step).await;
            }
            let rest = tokio::time::timeout(PATIENCE, world.come_to_rest()).await;
            let stuck: Vec<_> = world.clients.iter().filter(|c| !c.ended).map(|c| c.key).collect();
            assert!(rest.is_ok(), "these did not get to the end: {stuck:?}");
            for client in &world.clients {
                client.has_exactly(world.appended[client.stream]);
            }
            // Nobody is left behind in the shard.
            assert_eq!((world.shard.connections.len(), world.shard.audiences.len()), (0, 0));
        });
    }
}
