//! The TLS handshake on an accepted socket. The caller says how long it may take.

use std::io;
use std::sync::Arc;

use rustls::{InvalidMessage, ServerConfig, ServerConnection};
use tokio::net::TcpStream;

use super::secure::{Ciphertext, Secure, push};

/// What someone who speaks HTTP to the TLS port gets to read.
const WRONG_PORT: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    content-type: text/plain\r\ncontent-length: 41\r\nconnection: close\r\n\r\n\
    This port speaks TLS: use https or wss.\r\n";

/// Why there is no secure connection.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    #[error("the client does not speak TLS")]
    NotTls,
    #[error("{0}")]
    Refused(rustls::Error),
    #[error("{0}")]
    Lost(#[from] io::Error),
}

/// Agrees with a client on keys.
pub async fn shake_hands(tcp: TcpStream, config: Arc<ServerConfig>) -> Result<Secure, Failed> {
    let mut tls = ServerConnection::new(config).map_err(Failed::Refused)?;
    loop {
        // Also what is left to say when all is agreed: the last flight brings the tickets.
        match push(&tcp, &mut tls) {
            Ok(()) if !tls.is_handshaking() => return Ok(Secure::new(tcp, tls)),
            Ok(()) => tcp.readable().await?,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                tcp.writable().await?;
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        match tls.read_tls(&mut Ciphertext(&tcp)) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error.into()),
        }
        match tls.process_new_packets() {
            Ok(_) => {}
            Err(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
                let _ = tcp.try_write(WRONG_PORT);
                return Err(Failed::NotTls);
            }
            Err(error) => {
                // The alert says why; one that cannot be sent at once is not worth waiting for.
                let _ = push(&tcp, &mut tls);
                return Err(Failed::Refused(error));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_plain_http_is_as_long_as_it_says() {
        let text = String::from_utf8_lossy(WRONG_PORT);
        let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{head}");
    }
}
