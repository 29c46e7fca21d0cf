//! Ports to listen on.

use std::net::{Ipv4Addr, TcpListener};

use rand::Rng as _;

/// Below the range from which the system takes the ports of outgoing connections, so that none of
/// those sits on a server's port while the server is down.
const RANGE: std::ops::Range<u16> = 20_000..32_000;

/// A port that nobody listens on, for a server that comes back to it after every restart. Another
/// process may take it in between; then the server fails to start, and says so.
pub fn free_port() -> u16 {
    let mut random = rand::rng();
    let mut candidates = std::iter::repeat_with(|| random.random_range(RANGE)).take(1_000);
    let free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    candidates.find(free).expect("no port between 20000 and 32000 is free")
}
