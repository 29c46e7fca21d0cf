//! What is known of a client besides what it follows, for those who run the server.
//!
//! Kept in memory by the node that serves it, and asked for now and then: nothing is written for a
//! connection that comes, stays or goes.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use axum::http::{HeaderMap, header};
use tokio::sync::oneshot;

use super::connection::Connection;
use super::shard::Shard;
use super::{Command, Hub, Transport};
use tidewire_access::auth::{Identity, Who};
use tidewire_wire::clock::now_ms;

use tidewire_store::TABLE_PREFIX;

/// Bytes of a user agent that are kept: some are endless, and there are many connections.
const USER_AGENT_BYTES_MAX: usize = 256;

/// Where a client came from, when, and who it is.
#[derive(Debug)]
pub struct ConnectionInfo {
    /// The connection's name, in which there is no `-`.
    pub id: Arc<str>,
    pub address: Option<IpAddr>,
    pub user_agent: Option<Box<str>>,
    pub connected_at_ms: i64,
    /// Known at once, or when the client presents its token.
    identity: OnceLock<Identity>,
}

impl ConnectionInfo {
    pub fn new(id: Arc<str>, address: Option<IpAddr>, headers: &HeaderMap) -> ConnectionInfo {
        let user_agent = headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok());
        ConnectionInfo {
            id,
            address,
            user_agent: user_agent.map(|agent| shortened(agent).into()),
            connected_at_ms: now_ms(),
            identity: OnceLock::new(),
        }
    }

    /// The same, of one who is known.
    pub fn of(self, identity: Identity) -> ConnectionInfo {
        self.admit(identity);
        self
    }

    /// The client has said who it is.
    pub fn admit(&self, identity: Identity) {
        // Whoever says it again says the same.
        let _ = self.identity.set(identity);
    }

    pub fn identity(&self) -> Option<&Identity> {
        self.identity.get()
    }
}

/// The beginning of a header's value, which is ASCII.
fn shortened(agent: &str) -> &str {
    agent.get(..USER_AGENT_BYTES_MAX).unwrap_or(agent)
}

/// Which connections are asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConnectionFilter {
    pub connection_id: Option<String>,
    pub user_id: Option<String>,
    pub key_id: Option<i64>,
    /// So many are told at most; all are counted.
    pub limit: usize,
}

impl ConnectionFilter {
    fn covers(&self, connection_info: &ConnectionInfo) -> bool {
        let who = connection_info.identity().map(Identity::who);
        let user = match who {
            Some(Who::User { name, .. }) => Some(&**name),
            _ => None,
        };
        let key = match who {
            Some(Who::Key(id)) => Some(*id),
            _ => None,
        };
        self.connection_id.as_deref().is_none_or(|id| *id == *connection_info.id)
            && self.user_id.as_deref().is_none_or(|wanted| user == Some(wanted))
            && self.key_id.is_none_or(|wanted| key == Some(wanted))
    }
}

/// A connection as it is told.
#[derive(Debug)]
pub struct ConnectionSummary {
    pub connection_info: Arc<ConnectionInfo>,
    pub transport: &'static str,
    pub has_session: bool,
    /// When the client was last heard, where it can be.
    pub heard_at_ms: Option<i64>,
    pub subscriptions: usize,
    /// The tables among what it follows, each once.
    pub tables: Vec<String>,
    pub queued_events: usize,
    pub queued_bytes: usize,
}

/// Connections that were asked for.
#[derive(Debug, Default)]
pub struct ConnectionList {
    pub total: usize,
    pub summaries: Vec<ConnectionSummary>,
}

impl Hub {
    /// This node's connections.
    pub async fn connections(&self, wanted: &ConnectionFilter) -> ConnectionList {
        let mut all = ConnectionList::default();
        for shard in self.shards.all() {
            let (reply, told) = oneshot::channel();
            shard.ask(Command::ListConnections { wanted: wanted.clone(), reply }).await;
            // A shard that is gone belongs to a server that stops.
            let Ok(told) = told.await else { continue };
            all.total += told.total;
            all.summaries.extend(told.summaries);
        }
        all.summaries.sort_by_key(|summary| summary.connection_info.connected_at_ms);
        all.summaries.truncate(wanted.limit);
        all
    }
}

impl Shard {
    /// Those of its connections that are asked for.
    pub(super) fn list_connections(&self, wanted: &ConnectionFilter) -> ConnectionList {
        let mut listed = ConnectionList::default();
        for (_, connection) in &self.connections {
            if !wanted.covers(&connection.connection_info) {
                continue;
            }
            listed.total += 1;
            if listed.summaries.len() < wanted.limit {
                let summary = connection.summary(self.now_ms, self.wall_ms);
                listed.summaries.push(summary);
            }
        }
        listed
    }
}

impl Connection {
    fn summary(&self, clock_ms: u64, wall_ms: i64) -> ConnectionSummary {
        let read = self.reader.as_ref().and_then(|r| r.stream().strip_prefix(TABLE_PREFIX));
        let followed = self.slots().flat_map(|(_, s)| s.kind.subject().tables());
        let mut tables: Vec<String> = followed.chain(read).map(ToOwned::to_owned).collect();
        tables.sort_unstable();
        tables.dedup();
        let ago = |heard_ms: u64| i64::try_from(clock_ms.saturating_sub(heard_ms)).unwrap_or(0);
        ConnectionSummary {
            connection_info: Arc::clone(&self.connection_info),
            transport: match self.transport {
                _ if self.reader.is_some() => "stream",
                Transport::WebSocket { .. } => "websocket",
                Transport::Chunks(_) | Transport::ServerSent(_) => "sse",
            },
            has_session: self.session.is_some(),
            heard_at_ms: self.transport.heard_ms().map(|heard_ms| wall_ms - ago(heard_ms)),
            subscriptions: self.slots().count() + usize::from(self.reader.is_some()),
            tables,
            queued_events: self.outbox.events,
            queued_bytes: self.outbox.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;
    use tidewire_access::auth::scopes::Scopes;

    fn connection_info(agent: &str) -> ConnectionInfo {
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, HeaderValue::from_str(agent).expect("a header"));
        ConnectionInfo::new("c1".into(), None, &headers)
    }

    #[test]
    fn an_endless_user_agent_is_cut_short() {
        assert_eq!(connection_info("a").user_agent.as_deref(), Some("a"));
        let endless = "a".repeat(10_000);
        let kept = connection_info(&endless).user_agent.map(|agent| agent.len());
        assert_eq!(kept, Some(USER_AGENT_BYTES_MAX));
    }

    #[test]
    fn connections_are_found_by_name_user_and_key() {
        let of = |who| connection_info("a").of(Identity::new(who, Scopes::none(), None));
        let ann = of(Who::User { name: "ann".into(), host: None });
        let key = of(Who::Key(7));
        let by = |edit: fn(&mut ConnectionFilter)| {
            let mut wanted = ConnectionFilter { limit: 1, ..ConnectionFilter::default() };
            edit(&mut wanted);
            (wanted.covers(&ann), wanted.covers(&key))
        };
        assert_eq!(by(|_| {}), (true, true));
        assert_eq!(by(|wanted| wanted.user_id = Some("ann".to_owned())), (true, false));
        assert_eq!(by(|wanted| wanted.key_id = Some(7)), (false, true));
        assert_eq!(by(|wanted| wanted.connection_id = Some("c2".to_owned())), (false, false));
        assert!(
            !ConnectionFilter { key_id: Some(7), ..ConnectionFilter::default() }
                .covers(&connection_info("a")),
            "unknown"
        );
    }
}
