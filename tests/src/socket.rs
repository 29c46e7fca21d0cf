//! A socket to a server, plain or encrypted, for those who speak over it byte by byte.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpSocket;

use crate::certificate::Authority;

/// Either kind.
pub trait Socket: AsyncRead + AsyncWrite + std::fmt::Debug + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + std::fmt::Debug + Send + Unpin> Socket for T {}

/// Connects to a port of the loopback interface; with TLS where there is an authority to trust.
/// `receive_bytes` bounds what the system takes for a client that does not read.
pub(crate) async fn connect(
    port: u16,
    authority: Option<&Authority>,
    receive_bytes: Option<u32>,
) -> Box<dyn Socket> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let socket = TcpSocket::new_v4().expect("a socket");
    if let Some(bytes) = receive_bytes {
        socket.set_recv_buffer_size(bytes).expect("a window of this size");
    }
    let socket = socket.connect(address).await;
    let socket = socket.unwrap_or_else(|error| panic!("cannot connect to {address}: {error}"));
    match authority {
        None => Box::new(socket),
        Some(authority) => {
            let secure = authority.secure(socket, rustls::ALL_VERSIONS, &["http/1.1"]).await;
            Box::new(secure.unwrap_or_else(|error| panic!("no TLS with {address}: {error}")))
        }
    }
}
