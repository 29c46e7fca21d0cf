//! A page that asks and waits for the answer, over a WebSocket of its own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::load::websocket::{self, Frames, Piece};

const TOO_LATE: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Page {
    stream: TcpStream,
    frames: Frames,
    /// What has come and was not looked at: messages follow each other without anything between.
    text: Vec<u8>,
}

impl Page {
    pub(crate) fn open(address: SocketAddr) -> Result<Page> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TOO_LATE))?;
        stream.write_all(&websocket::upgrade_request("/v1/ws"))?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).context("the answer to the upgrade")?;
            head.extend_from_slice(&byte);
        }
        let mut page = Page { stream, frames: Frames::default(), text: Vec::new() };
        page.hears("hello")?;
        Ok(page)
    }

    /// `SUBSCRIBE` or `UNSUBSCRIBE`.
    pub(crate) fn say(&mut self, kind: &str, code: &str, ids: &[String]) -> Result<()> {
        let message = json!({ "type": kind, "payload": { "entityCode": code, "entityIds": ids } })
            .to_string();
        let frame = websocket::client_frame(websocket::TEXT, message.as_bytes());
        Ok(self.stream.write_all(&frame)?)
    }

    /// Waits for a message of a type.
    pub(crate) fn hears(&mut self, wanted: &str) -> Result<()> {
        loop {
            let mut messages =
                serde_json::Deserializer::from_slice(&self.text).into_iter::<Value>();
            let mut found = false;
            for message in messages.by_ref().map_while(Result::ok) {
                if message["type"] == "error" {
                    bail!("refused: {message}");
                }
                found |= message["type"] == wanted;
            }
            let read = messages.byte_offset();
            self.text.drain(..read);
            if found {
                return Ok(());
            }
            self.receive()?;
        }
    }

    fn receive(&mut self) -> Result<()> {
        let mut bytes = [0; 64 << 10];
        let count = self.stream.read(&mut bytes).context("an answer in time")?;
        if count == 0 {
            bail!("the server hung up");
        }
        let (text, mut pongs) = (&mut self.text, Vec::new());
        self.frames.scan(&bytes[..count], |piece| {
            match piece {
                Piece::Data(data) => text.extend_from_slice(data),
                Piece::Ping(ping) => pongs.extend_from_slice(&websocket::pong(ping)),
                Piece::Close(_) => bail!("the server closed the connection"),
            }
            Ok(())
        })?;
        Ok(self.stream.write_all(&pongs)?)
    }
}
