//! Ports to listen on.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Mutex, PoisonError};

use rand::Rng as _;

/// Below the range from which the system takes the ports of outgoing connections, so that none of
/// those sits on a server's port while the server is down.
const RANGE: std::ops::Range<u16> = 20_000..32_000;

/// A port that nobody listens on, for a server that comes back to it after every restart. While that is down
/// no other test takes the port: it is theirs who hold the lock on a file of its name, until they end.
pub fn free_port() -> u16 {
    let mut random = rand::rng();
    let mut candidates = std::iter::repeat_with(|| random.random_range(RANGE)).take(1_000);
    let free =
        |port: &u16| is_reserved(*port) && TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    candidates.find(free).expect("no port between 20000 and 32000 is free")
}

/// Whether a port is this process's from now on.
fn is_reserved(port: u16) -> bool {
    static HELD: Mutex<Vec<File>> = Mutex::new(Vec::new());
    let file = std::env::temp_dir().join(format!("tidewire-test-port-{port}"));
    let Ok(file) = File::options().create(true).append(true).open(file) else { return false };
    let is_ours = file.try_lock().is_ok();
    if is_ours {
        HELD.lock().unwrap_or_else(PoisonError::into_inner).push(file);
    }
    is_ours
}
