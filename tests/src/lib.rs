//! What the stories are told with: real processes, real databases, real faults.
//!
//! - [`launch`]: starting the binary; [`process`]: owning what was started; [`port`]: where it listens
//! - [`store`]: the two stores, each test with one of its own; [`rows`]: what they have written;
//!   [`postgres`]: fresh databases;
//!   [`cluster`]: whole PostgreSQL clusters, to be restarted; [`disk`]: a disk small enough to fill
//! - [`certificate`]: an authority, and what it issues; [`socket`]: plain or encrypted
//! - [`http`]: one request each; [`http2`]: the other version; [`raw`]: bytes on a socket, for what no
//!   HTTP client would send; [`api_key`]: keys, as administrators make them; [`issuer`]: end users'
//!   tokens; [`secrets`]: looking for what must not be seen
//! - [`websocket`]: frames made by hand; [`server_sent`]: events with their ids; [`tab`]: a session as a
//!   page uses it; [`metrics`]: what the server counts; [`examples`]: what PROTOCOL.md promises
//! - [`producers`]: clients that append through every fault; [`account`]: what each was promised
//! - [`readers`]: clients that follow a stream through every fault; [`transcript`]: what a stream holds
//! - [`flood`]: a producer of large messages
//! - [`follower`]: the client library at work, through every fault; [`wire`]: a WebSocket byte by byte;
//!   [`event_source`]: a session's SSE response; [`stream_source`]: a stream's; [`witness`]: either,
//!   read to its end;
//!   [`presence`]: someone who is connected in every way; [`nodes`]: several servers of one system
//! - [`traffic`]: both kinds together, with all that must hold for them
//! - [`ledger`]: what members of a group did, to be compared with the log
//! - [`complaint`]: everything but success; [`receiver`]: the far end of a webhook; [`worker`]: one that
//!   waits to be woken; [`jobs`]: a consumer group over HTTP
//! - [`wait`]: the only way to wait here; [`faults`]: how many, and when
//!
//! Everything panics with a sentence: a story that cannot go on has failed.

pub mod account;
pub mod api_key;
pub mod certificate;
pub mod cluster;
pub mod complaint;
pub mod disk;
pub mod event_source;
pub mod examples;
pub mod faults;
pub mod flood;
pub mod follower;
pub mod http;
pub mod http2;
pub mod issuer;
pub mod jobs;
pub mod launch;
pub mod ledger;
pub mod manual;
pub mod metrics;
pub mod nodes;
pub mod port;
pub mod postgres;
pub mod presence;
pub mod process;
pub mod producers;
pub mod query_tab;
pub mod raw;
pub mod readers;
pub mod receiver;
pub mod rows;
pub mod secrets;
pub mod server_sent;
pub mod socket;
pub mod store;
pub mod stream_source;
pub mod tab;
pub mod traffic;
pub mod transcript;
pub mod wait;
pub mod websocket;
pub mod wire;
pub mod witness;
pub mod worker;

pub use account::Account;
pub use api_key::ApiKey;
pub use certificate::{Authority, Files};
pub use cluster::{Cluster, Shutdown};
pub use complaint::Complaint;
pub use disk::Disk;
pub use event_source::EventSource;
pub use faults::rounds;
pub use flood::Flood;
pub use follower::Follower;
pub use http::{Answer, Http};
pub use http2::Http2;
pub use issuer::Issuer;
pub use jobs::Jobs;
pub use launch::{Launch, Server};
pub use ledger::{Abort, Keeper, Ledger};
pub use metrics::Metrics;
pub use nodes::Nodes;
pub use presence::Presence;
pub use process::{Ended, Process, Resources};
pub use producers::{Plan, Producers};
pub use query_tab::QueryTab;
pub use raw::Raw;
pub use readers::Reader;
pub use receiver::Receiver;
pub use secrets::Secrets;
pub use server_sent::ServerSent;
pub use store::Store;
pub use stream_source::{Batch, StreamSource};
pub use tab::Tab;
pub use traffic::Traffic;
pub use transcript::{Event, Transcript};
pub use wait::eventually;
pub use websocket::WebSocket;
pub use wire::Wire;
pub use witness::Witness;
