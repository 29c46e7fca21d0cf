//! All that one can be connected with at a node, at once: a WebSocket, a session's live connection,
//! a stream by SSE, and a long-poll. What ends a credential ends each of them in its own way.

use reqwest::{Method, Response};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::http::{Answer, Http};
use crate::server_sent::ServerSent;
use crate::tab::Tab;
use crate::wait::{eventually, within_patience};
use crate::websocket::WebSocket;

/// The streams that are followed, all of JSON. Nothing is appended to them meanwhile.
pub const QUIET: [&str; 2] = ["quiet/1", "quiet/2"];

/// Someone who is connected in every way there is. Gone when dropped.
#[derive(Debug)]
pub struct Presence {
    /// By a header, and as a browser does it: by its first message.
    sockets: [WebSocket; 2],
    page: ServerSent,
    stream: Response,
    poll: JoinSet<Answer>,
}

impl Presence {
    /// Connects a holder to a node in every way, and waits until all of it stands. The streams are
    /// there. The administrator is asked how many readers wait.
    pub async fn open(admin: &Http, holder: &Http) -> Presence {
        let waiting = admin.metric("tidewire_live_readers").await;
        let mut by_header = WebSocket::connect(holder, "/v1/ws").await;
        let mut by_message = WebSocket::connect(&holder.as_someone(None), "/v1/ws").await;
        by_message.say(&json!({ "type": "auth", "token": holder.token() })).await;
        for socket in [&mut by_header, &mut by_message] {
            socket.hears("hello").await;
            for stream in QUIET {
                socket.subscribe(&json!({ "query_id": stream, "stream": stream })).await;
            }
        }
        let tab = Tab::open(holder).await;
        for stream in QUIET {
            tab.subscribe(stream).await;
        }
        let mut page = ServerSent::open(holder, &tab.session, None).await;
        let mut created = 0;
        while created < QUIET.len() {
            let message = page.hears("subscription_created").await.message;
            created += message["subscriptions"].as_array().expect("an array").len();
        }
        let path = format!("/v1/stream/{}?offset=now", QUIET[0]);
        let request = holder.request(Method::GET, &format!("{path}&live=sse"));
        let stream = request.send().await.expect("an answer");
        assert_eq!(stream.status(), 200, "live=sse");
        let request = holder.request(Method::GET, &format!("{path}&live=long-poll"));
        let mut poll = JoinSet::new();
        poll.spawn(Answer::of(request));
        eventually("the long-poll waits", async || {
            (admin.metric("tidewire_live_readers").await >= waiting + 2).then_some(())
        })
        .await;
        Presence { sockets: [by_header, by_message], page, stream, poll }
    }

    /// Waits until all of it has ended, as it must: where there are subscriptions, each with the
    /// reason; a long-poll with 401 and the reason; a stream by SSE just so.
    pub async fn ends(self, reason: &str) {
        let Presence { sockets, mut page, mut stream, mut poll } = self;
        for mut socket in sockets {
            let farewell = socket.closed().await;
            assert_eq!(farewell.code, 1008, "{farewell:?}");
            assert_eq!(farewell.reason, reason, "{farewell:?}");
            all_ended(farewell.messages, reason);
        }
        let mut messages = Vec::new();
        while let Some(sent) = page.next().await {
            messages.push(sent.message);
        }
        all_ended(messages, reason);
        let rest = async { while let Some(_piece) = stream.chunk().await.expect("a whole end") {} };
        within_patience("the stream's SSE response ends", rest).await;
        let answer = within_patience("the long-poll ends", poll.join_next()).await;
        let answer = answer.and_then(Result::ok).expect("an answer");
        answer.problem(401, reason);
    }
}

/// Checks that each subscription was ended for this reason, and that nothing else came.
fn all_ended(mut messages: Vec<Value>, reason: &str) {
    messages.retain(|message| message["type"] != "progress");
    let mut ended: Vec<&str> = messages
        .iter()
        .map(|message| {
            assert_eq!(message["type"], "subscription_ended", "{messages:?}");
            assert_eq!(message["reason"], reason, "{message}");
            assert_eq!(message["query_id"], message["streamId"], "{message}");
            message["streamId"].as_str().expect("a stream")
        })
        .collect();
    ended.sort_unstable();
    assert_eq!(ended, QUIET, "each subscription is ended once");
}
