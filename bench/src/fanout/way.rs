//! The ways a message reaches an audience: a server and what it speaks.

use anyhow::{Context, Result};
use serde::Serialize;

use crate::Options;
use crate::bare_loop::Habit;
use crate::load::client::Client;
use crate::load::crowd::{Door, Lane};
use crate::report::Report;
use crate::servers::{Kind, Server};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Way {
    pub(crate) server: Kind,
    pub(crate) transport: Transport,
    /// Of the bare loop.
    pub(crate) habit: Habit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Transport {
    WebSocket,
    /// Of Tidewire: a session's live response.
    Sse,
    /// Of Tidewire: a live read of the stream itself.
    StreamSse,
}

impl Way {
    const fn new(server: Kind, transport: Transport) -> Self {
        Self { server, transport, habit: Habit::Plain }
    }

    const ALL: [Self; 10] = [
        Self::new(Kind::TidewireSqlite, Transport::WebSocket),
        Self::new(Kind::Nats, Transport::WebSocket),
        Self::new(Kind::BareLoop, Transport::WebSocket),
        Self { habit: Habit::Synced, ..Self::new(Kind::BareLoop, Transport::WebSocket) },
        Self { habit: Habit::Joined, ..Self::new(Kind::BareLoop, Transport::WebSocket) },
        Self::new(Kind::TidewireSqlite, Transport::Sse),
        Self::new(Kind::TidewireSqlite, Transport::StreamSse),
        Self::new(Kind::BareLoop, Transport::Sse),
        Self { habit: Habit::Synced, ..Self::new(Kind::BareLoop, Transport::Sse) },
        Self { habit: Habit::Joined, ..Self::new(Kind::BareLoop, Transport::Sse) },
    ];

    /// Those that can be measured here. What a server does not have yet is noted in the report.
    pub(crate) fn present(options: &Options, report: &mut Report) -> Vec<Self> {
        let kinds = report.present();
        let mut present = Vec::new();
        println!();
        for way in Self::ALL.into_iter().filter(|way| kinds.contains(&way.server)) {
            match way.absence(options) {
                Ok(None) => {
                    println!("{:<32}  takes part", way.name());
                    present.push(way);
                }
                Ok(Some(reason)) => {
                    report.note_absence(format!("{:<32}  absent: {reason}", way.name()));
                }
                Err(error) => report.note_failure(format!("{}: {error:#}", way.name())),
            }
        }
        present
    }

    pub(crate) fn name(self) -> String {
        let transport = match self.transport {
            Transport::WebSocket => "WebSocket",
            Transport::Sse => "SSE",
            Transport::StreamSse => "SSE of a stream",
        };
        let habit = match self.habit {
            Habit::Plain => "",
            Habit::Joined => ", joined",
            Habit::Synced => ", synced",
        };
        format!("{}, {transport}{habit}", self.server.name())
    }

    /// Why the server cannot be reached this way, if it cannot.
    fn absence(self, options: &Options) -> Result<Option<String>> {
        if !self.server.is_tidewire() || self.transport == Transport::StreamSse {
            return Ok(None);
        }
        let server = Server::start(self.server, &options.installed)?;
        let mut client = Client::connect(server.address())?;
        let (route, answer) = match self.transport {
            Transport::WebSocket => ("/v1/ws", client.get("/v1/ws")?),
            _ => ("/v1/sessions", client.post("/v1/sessions", "application/json", b"")?),
        };
        // Only GET is known of routes that are not there.
        let is_absent = matches!(answer.status, 404 | 405);
        Ok(is_absent.then(|| format!("this tidewire has no {route}")))
    }

    pub(crate) fn door(self, stream: &str) -> Door {
        match (self.server, self.transport) {
            (Kind::Nats, _) => Door::nats_websocket(stream),
            (Kind::BareLoop, Transport::WebSocket) => {
                Door::WebSocket { path: "/", greeting: Vec::new(), welcome: "" }
            }
            (Kind::BareLoop, _) => Door::Sse { path: "/".to_owned(), welcome: "" },
            (_, Transport::WebSocket) => Door::tidewire_websocket(stream),
            (_, Transport::Sse) => Door::SessionSse { stream: stream.to_owned() },
            (_, Transport::StreamSse) => Door::stream_sse(stream),
        }
    }

    pub(crate) fn lane(self, stream: &str) -> Lane {
        match self.server {
            Kind::Nats => Lane::Nats { subject: stream.to_owned() },
            Kind::BareLoop => Lane::Bare { habit: self.habit },
            _ => Lane::Append { stream: stream.to_owned() },
        }
    }

    /// The server on an empty store, with these streams if it has such things.
    pub(crate) fn start(self, options: &Options, streams: &[&str]) -> Result<Server> {
        let server = Server::start(self.server, &options.installed)?;
        if self.server.is_tidewire() {
            let streams: Vec<String> = streams.iter().map(|&stream| stream.to_owned()).collect();
            server.create_streams(&streams, "application/json").context("create the streams")?;
        }
        Ok(server)
    }
}
