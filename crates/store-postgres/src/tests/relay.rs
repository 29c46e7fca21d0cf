//! Stands between a client and the server, hears what the client says, and can make it wait for answers.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A relay to the server of a URL. Ends with the test's runtime.
pub(super) struct Relay {
    /// What to connect to instead.
    pub(super) url: String,
    shared: Arc<Shared>,
}

struct Shared {
    /// What was said, by kind: `Q` with its text, `B` for the parameters of a prepared statement.
    said: Mutex<Vec<String>>,
    /// Answers are held back from the first of these on until the second is said.
    rule: Mutex<Option<(&'static str, &'static str)>>,
    holding: watch::Sender<bool>,
}

impl Shared {
    fn hear(&self, kind: u8, body: &[u8]) {
        let said = match kind {
            b'Q' => format!("Q {}", String::from_utf8_lossy(body).trim_end_matches('\0')),
            kind => char::from(kind).to_string(),
        };
        if let Some((from, until)) = *self.rule.lock().unwrap_or_else(PoisonError::into_inner) {
            if said.starts_with(until) {
                self.holding.send_replace(false);
            } else if said.starts_with(from) {
                self.holding.send_replace(true);
            }
        }
        self.said.lock().unwrap_or_else(PoisonError::into_inner).push(said);
    }
}

impl Relay {
    pub(super) async fn to(url: &str) -> Relay {
        let authority = url.split("//").nth(1).and_then(|rest| rest.split('/').next());
        let server = authority.and_then(|text| text.rsplit('@').next()).expect("a host").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let here = listener.local_addr().expect("an address").to_string();
        let shared = Arc::new(Shared {
            said: Mutex::default(),
            rule: Mutex::default(),
            holding: watch::Sender::new(false),
        });
        let (url, heard) = (url.replace(&server, &here), Arc::clone(&shared));
        let separator = if url.contains('?') { '&' } else { '?' };
        let url = format!("{url}{separator}sslmode=disable");
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&server).await.expect("the server");
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                tokio::spawn(asks(from_client, to_server, Arc::clone(&heard)));
                tokio::spawn(answers(from_server, to_client, heard.holding.subscribe()));
            }
        });
        Relay { url, shared }
    }

    /// From now on answers are held back from when one thing is said until another is.
    pub(super) fn hold(&self, from: &'static str, until: &'static str) {
        *self.shared.rule.lock().unwrap_or_else(PoisonError::into_inner) = Some((from, until));
    }

    /// From now on none is.
    pub(super) fn let_go(&self) {
        *self.shared.rule.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// What was said since this was asked last.
    pub(super) fn said(&self) -> Vec<String> {
        std::mem::take(&mut *self.shared.said.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn asks(mut client: OwnedReadHalf, mut server: OwnedWriteHalf, shared: Arc<Shared>) {
    let mut buffer: Vec<u8> = Vec::new();
    let mut started = false;
    let mut chunk = [0; 8_192];
    while let Ok(count @ 1..) = client.read(&mut chunk).await {
        buffer.extend(&chunk[..count]);
        // The first message has no kind; all others have one, and then their length.
        loop {
            let header = usize::from(started);
            let Some(length) = buffer.get(header..header + 4) else { break };
            let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
            if buffer.len() < header + length {
                break;
            }
            if started {
                shared.hear(buffer[0], &buffer[5..header + length]);
            }
            buffer.drain(..header + length);
            started = true;
        }
        if server.write_all(&chunk[..count]).await.is_err() {
            return;
        }
    }
}

async fn answers(
    mut server: OwnedReadHalf,
    mut client: OwnedWriteHalf,
    mut holding: watch::Receiver<bool>,
) {
    let mut chunk = [0; 8_192];
    while let Ok(count @ 1..) = server.read(&mut chunk).await {
        if holding.wait_for(|holding| !holding).await.is_err() {
            return;
        }
        if client.write_all(&chunk[..count]).await.is_err() {
            return;
        }
    }
}
