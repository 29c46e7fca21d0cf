//! Connecting many sockets to one address: from further loopback addresses when the first has no
//! ports left, and within the limit of open files.

use std::io::{Error, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};

/// Loopback connects at once unless the server's accept queue is full; beyond this it is stuck.
const CONNECT_WAIT: Duration = Duration::from_secs(10);
/// What a process needs besides its connections: a server's database, logs and publisher.
const OTHER_FILES: usize = 500;
/// The receive buffer and segment size of a connection over a network that is slow: the server's
/// kernel then takes in some ten kilobytes for a client that does not read. On loopback it takes
/// megabytes, and hides from the server that its client stands still.
const NARROW_RECEIVE_BYTES: usize = 4096;
const NARROW_SEGMENT_BYTES: u32 = 1460;

/// Raises this process's limit of open files, which the servers it starts inherit, as far as it may
/// and returns how many connections a process can hold.
pub(crate) fn connections_max() -> Result<usize> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
        .context("raise the limit of open files")?;
    let files =
        limit.maximum.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
    Ok(files.saturating_sub(OTHER_FILES))
}

/// Where connections come from: 127.0.0.1 until it has no ports left, then 127.0.0.2, and so on.
#[derive(Debug)]
pub(crate) struct Sources {
    last_byte: u8,
}

impl Sources {
    pub(crate) fn new() -> Self {
        Self { last_byte: 1 }
    }

    /// A non-blocking connection to `address`.
    pub(crate) fn connect(&mut self, address: SocketAddr, is_narrow: bool) -> Result<TcpStream> {
        loop {
            match self.try_connect(address, is_narrow) {
                Err(error) if lacks_ports(&error) && self.last_byte < u8::MAX => {
                    self.last_byte += 1;
                }
                connected => {
                    return connected.with_context(|| format!("connect to {address}"));
                }
            }
        }
    }

    fn try_connect(&self, address: SocketAddr, is_narrow: bool) -> Result<TcpStream, Error> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        if self.last_byte > 1 {
            let source = SocketAddr::from((Ipv4Addr::new(127, 0, 0, self.last_byte), 0));
            socket.bind(&source.into())?;
        }
        if is_narrow {
            socket.set_recv_buffer_size(NARROW_RECEIVE_BYTES)?;
            socket.set_tcp_mss(NARROW_SEGMENT_BYTES)?;
        }
        socket.connect_timeout(&address.into(), CONNECT_WAIT)?;
        socket.set_tcp_nodelay(true)?;
        socket.set_nonblocking(true)?;
        Ok(socket.into())
    }
}

fn lacks_ports(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::AddrNotAvailable | ErrorKind::AddrInUse)
}
