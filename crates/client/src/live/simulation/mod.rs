//! The client's rules against a server that does everything a server may do, in any order: it repeats events, drops
//! them and says so, announces large ones, loses connections, refuses for a while, closes streams. Each subscription
//! must give out the log's events once and in order (invariant 3), and a progress must not pass what was given out.
//!
//! - `caller`: the simulated caller
//! - `server`: the simulated server

mod caller;
mod server;

use proptest::collection::vec;
use proptest::prelude::*;

use self::caller::Caller;
use self::server::Server;

/// Streams of the log; the first two are followed from the beginning, and the second holds text.
pub(super) const STREAMS: usize = 3;

/// One thing that happens. Numbers are taken modulo what there is.
#[derive(Debug, Clone)]
enum SimulationStep {
    Append {
        stream: usize,
        large: bool,
    },
    Close {
        stream: usize,
    },
    /// The server puts events on their way.
    Push {
        count: usize,
    },
    /// The server sends an event that it sent before.
    Repeat {
        stream: usize,
        back: usize,
    },
    /// The queue of the connection overflows.
    Overflow {
        stream: usize,
    },
    Progress,
    /// What is under way reaches the client.
    Deliver {
        count: usize,
    },
    /// What the client has to say goes on its way; the server takes it up.
    Send,
    Handle,
    /// The next request that the server takes up is refused for a while.
    Refuse,
    Wake,
    Cut,
    BeginRead,
    EndRead {
        events: usize,
    },
    FailRead,
    /// The caller begins anew, or leaves and comes back at once.
    Restart {
        stream: usize,
        leave: bool,
    },
    Ack,
}

fn step() -> impl Strategy<Value = SimulationStep> {
    let stream = 0..STREAMS;
    prop_oneof![
        6 => (stream.clone(), prop::bool::weighted(0.3))
            .prop_map(|(stream, large)| SimulationStep::Append { stream, large }),
        1 => stream.clone().prop_map(|stream| SimulationStep::Close { stream }),
        6 => (1..6usize).prop_map(|count| SimulationStep::Push { count }),
        2 => (stream.clone(), 0..4usize).prop_map(|(stream, back)| SimulationStep::Repeat { stream, back }),
        2 => stream.clone().prop_map(|stream| SimulationStep::Overflow { stream }),
        2 => Just(SimulationStep::Progress),
        6 => (1..6usize).prop_map(|count| SimulationStep::Deliver { count }),
        4 => Just(SimulationStep::Send),
        4 => Just(SimulationStep::Handle),
        1 => Just(SimulationStep::Refuse),
        1 => Just(SimulationStep::Wake),
        1 => Just(SimulationStep::Cut),
        2 => Just(SimulationStep::BeginRead),
        2 => (0..4usize).prop_map(|events| SimulationStep::EndRead { events }),
        1 => Just(SimulationStep::FailRead),
        2 => (stream, any::<bool>()).prop_map(|(stream, leave)| SimulationStep::Restart { stream, leave }),
        2 => Just(SimulationStep::Ack),
    ]
}

fn take(step: SimulationStep, caller: &mut Caller, server: &mut Server) {
    match step {
        SimulationStep::Append { stream, large } => server.append(stream, large),
        SimulationStep::Close { stream } => server.close(stream),
        SimulationStep::Push { count } => server.push(count),
        SimulationStep::Repeat { stream, back } => server.repeat(stream, back),
        SimulationStep::Overflow { stream } => server.overflow(stream),
        SimulationStep::Progress => server.progress(),
        SimulationStep::Deliver { count } => {
            for message in server.deliver(count) {
                caller.receive(message, server);
            }
        }
        SimulationStep::Send => server.hear(caller.requests()),
        SimulationStep::Handle => {
            server.handle();
        }
        SimulationStep::Refuse => server.refuse = true,
        SimulationStep::Wake => caller.state.wake(),
        SimulationStep::Cut => {
            caller.disconnected();
            server.cut();
        }
        SimulationStep::BeginRead => caller.begin_read(),
        SimulationStep::EndRead { events } => {
            caller.end_read(server, events);
        }
        SimulationStep::FailRead => caller.fail_read(),
        SimulationStep::Restart { stream, leave } => caller.restart(stream, leave),
        SimulationStep::Ack => caller.ack(),
    }
}

/// Lets everything come to rest.
fn settle(caller: &mut Caller, server: &mut Server) {
    let mut moving = true;
    while std::mem::take(&mut moving) {
        caller.state.wake();
        server.refuse = false;
        server.hear(caller.requests());
        while server.handle() {
            moving = true;
        }
        server.push(usize::MAX);
        for message in server.deliver(usize::MAX) {
            moving = true;
            caller.receive(message, server);
        }
        caller.begin_read();
        // In the smallest steps, so that no read covers up what was lost before it.
        moving |= caller.end_read(server, 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn each_subscription_gives_out_the_log_once_and_in_order(
        session in any::<bool>(),
        steps in vec(step(), 0..150),
    ) {
        let mut server = Server::new(session);
        let mut caller = Caller::new(session);
        for step in steps {
            take(step, &mut caller, &mut server);
        }
        settle(&mut caller, &mut server);
        caller.check_all(&server);
    }
}
