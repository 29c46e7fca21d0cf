//! The ways a message reaches an audience: a server, what it speaks, and what is followed.

use anyhow::{Context, Result};
use serde::Serialize;

use crate::Options;
use crate::bare_loop::LoopMode;
use crate::load::client::Client;
use crate::load::crowd::{Door, Lane};
use crate::report::Report;
use crate::servers::{Kind, Server};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Way {
    pub(crate) server: Kind,
    pub(crate) transport: Transport,
    pub(crate) followed: Followed,
    /// Of the bare loop.
    pub(crate) habit: LoopMode,
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

/// What the audience follows. A message is one event of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Followed {
    Stream,
    /// The same live query for everybody, over a table that a row is inserted into for each message.
    LiveQuery,
}

/// The table that the live query is about.
const TABLE: &str = "hot";

impl Way {
    const fn new(server: Kind, transport: Transport) -> Self {
        Self { server, transport, followed: Followed::Stream, habit: LoopMode::Plain }
    }

    const fn of_live_query(server: Kind) -> Self {
        Self { followed: Followed::LiveQuery, ..Self::new(server, Transport::WebSocket) }
    }

    pub(crate) const ALL: [Self; 10] = [
        Self::new(Kind::TidewireSqlite, Transport::WebSocket),
        Self::new(Kind::Nats, Transport::WebSocket),
        Self::new(Kind::BareLoop, Transport::WebSocket),
        Self { habit: LoopMode::Synced, ..Self::new(Kind::BareLoop, Transport::WebSocket) },
        Self { habit: LoopMode::Joined, ..Self::new(Kind::BareLoop, Transport::WebSocket) },
        Self::new(Kind::TidewireSqlite, Transport::Sse),
        Self::new(Kind::TidewireSqlite, Transport::StreamSse),
        Self::new(Kind::BareLoop, Transport::Sse),
        Self { habit: LoopMode::Synced, ..Self::new(Kind::BareLoop, Transport::Sse) },
        Self { habit: LoopMode::Joined, ..Self::new(Kind::BareLoop, Transport::Sse) },
    ];

    /// A stream and a live query, for those that have both.
    pub(crate) const STREAM_AND_QUERY: [Self; 6] = [
        Self::new(Kind::TidewireSqlite, Transport::WebSocket),
        Self::of_live_query(Kind::TidewireSqlite),
        Self::new(Kind::TidewirePostgres, Transport::WebSocket),
        Self::of_live_query(Kind::TidewirePostgres),
        Self::new(Kind::Nats, Transport::WebSocket),
        Self::of_live_query(Kind::Nats),
    ];

    /// Those that can be measured here. What a server does not have is noted in the report.
    pub(crate) fn present(ways: &[Self], options: &Options, report: &mut Report) -> Vec<Self> {
        let kinds = report.present();
        let mut present = Vec::new();
        println!();
        for &way in ways.iter().filter(|way| kinds.contains(&way.server)) {
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
            LoopMode::Plain => "",
            LoopMode::Joined => ", joined",
            LoopMode::Synced => ", synced",
        };
        let followed = match self.followed {
            Followed::Stream => "",
            Followed::LiveQuery => ", live query",
        };
        format!("{}, {transport}{followed}{habit}", self.server.name())
    }

    /// Why the server cannot be reached this way, if it cannot.
    fn absence(self, options: &Options) -> Result<Option<String>> {
        if self.followed == Followed::LiveQuery && !self.server.is_tidewire() {
            return Ok(Some("it has no live queries".to_owned()));
        }
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
            (_, Transport::WebSocket) if self.followed == Followed::LiveQuery => {
                Door::tidewire_query(TABLE)
            }
            (_, Transport::WebSocket) => Door::tidewire_websocket(stream),
            (_, Transport::Sse) => Door::SessionSse { stream: stream.to_owned() },
            (_, Transport::StreamSse) => Door::stream_sse(stream),
        }
    }

    pub(crate) fn lane(self, stream: &str) -> Lane {
        match self.server {
            Kind::Nats => Lane::Nats { subject: stream.to_owned() },
            Kind::BareLoop => Lane::Bare { habit: self.habit },
            _ if self.followed == Followed::LiveQuery => Lane::Insert { table: TABLE },
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
        if self.followed == Followed::LiveQuery {
            let columns = "id INTEGER PRIMARY KEY, number TEXT, text TEXT";
            let create = format!(r#"{{"sql": "CREATE TABLE {TABLE} ({columns})"}}"#);
            let mut client = Client::connect(server.address())?;
            client.command("/v1/sql", &create)?;
            client.command("/v1/watch", &format!(r#"{{"table": "{TABLE}"}}"#))?;
        }
        Ok(server)
    }
}
