//! Bytes on a socket: for requests that no HTTP client would send, or not all at once.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::certificate::Authority;
use crate::socket::{Socket, connect};
use crate::wait::within_patience;
use crate::websocket::SMALL_WINDOW_BYTES;

/// A connection to a server.
#[derive(Debug)]
pub struct Raw {
    socket: Box<dyn Socket>,
    received: Vec<u8>,
}

impl Raw {
    /// Connects to a port of the loopback interface.
    pub async fn connect(port: u16) -> Raw {
        Raw { socket: connect(port, None, None).await, received: Vec::new() }
    }

    /// The same, as someone who has room for next to nothing, so that not reading shows.
    pub async fn connect_narrow(port: u16) -> Raw {
        let socket = connect(port, None, Some(SMALL_WINDOW_BYTES)).await;
        Raw { socket, received: Vec::new() }
    }

    /// The same, and agrees on keys with a server that has a certificate of this authority.
    pub async fn connect_secure(port: u16, authority: &Authority) -> Raw {
        Raw { socket: connect(port, Some(authority), None).await, received: Vec::new() }
    }

    /// Sends bytes. Returns whether the other side still takes them.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        let bytes = bytes.as_ref();
        self.socket.write_all(bytes).await.is_ok() && self.socket.flush().await.is_ok()
    }

    /// Waits until the server has said something that contains `what`, and returns all it has said.
    pub async fn hears(&mut self, what: &str) -> String {
        self.hears_times(what, 1).await
    }

    /// The same, for something that it says several times.
    pub async fn hears_times(&mut self, what: &str, times: usize) -> String {
        loop {
            let text = String::from_utf8_lossy(&self.received).into_owned();
            if text.matches(what).count() >= times {
                return text;
            }
            let goes_on = within_patience(what, self.receive()).await;
            assert!(goes_on, "the server hung up after {text:?}, without {what:?}");
        }
    }

    /// Waits until the server has said something that contains `what`, or hangs up without it.
    pub async fn hears_or_hung_up(&mut self, what: &str) -> String {
        within_patience(what, async {
            while !String::from_utf8_lossy(&self.received).contains(what) && self.receive().await {}
        })
        .await;
        String::from_utf8_lossy(&self.received).into_owned()
    }

    /// Waits until the server hangs up, and returns all it has said.
    pub async fn hung_up(&mut self, what: &str) -> String {
        within_patience(what, async { while self.receive().await {} }).await;
        String::from_utf8_lossy(&self.received).into_owned()
    }

    /// Takes what has arrived. `false`: the connection is over, one way or the other.
    async fn receive(&mut self) -> bool {
        let read = self.socket.read_buf(&mut self.received).await;
        matches!(read, Ok(1..))
    }
}
