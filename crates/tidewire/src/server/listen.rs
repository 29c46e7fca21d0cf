//! Binds the server's address.

use std::io::ErrorKind;
use std::net::SocketAddr;

use anyhow::anyhow;
use tokio::net::{TcpListener, TcpSocket};

/// Connections that may wait to be accepted: enough for all clients of a node to come back at once.
/// The kernel lowers it to its own limit (`net.core.somaxconn`).
const BACKLOG: u32 = 4_096;

/// Listens. The message of a failure says what to do.
pub(crate) fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    listen(address).map_err(|error| {
        let advice = match error.kind() {
            ErrorKind::AddrInUse => {
                "another program listens there, perhaps a tidewire; stop it, or choose another \
                 port with --listen"
            }
            ErrorKind::PermissionDenied => {
                "ports below 1024 need a privilege; choose another with --listen"
            }
            ErrorKind::AddrNotAvailable => {
                "this machine does not have that address; choose one of its own with --listen"
            }
            _ => return anyhow!("cannot listen on {address}: {error}"),
        };
        anyhow!("cannot listen on {address}: {advice}")
    })
}

/// The same socket once more: whoever connects while one server ends and the next begins waits in the
/// kernel's queue.
pub(crate) fn again(listener: &std::net::TcpListener) -> std::io::Result<TcpListener> {
    TcpListener::from_std(listener.try_clone()?)
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restart must not wait for connections of the life before to fade away.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_in_use_comes_with_advice() {
        let first = bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
        let address = first.local_addr().expect("an address");
        let error = bind(address).expect_err("in use").to_string();
        assert!(error.contains("another program listens there"), "{error}");
    }
}
