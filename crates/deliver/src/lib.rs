//! HTTP, SSE and everything else that knows the wire.
//!
//! - [`options`]: how the server is set up; [`server`]: starting and stopping it
//! - `door`: who may come in; `problem`: what they are told when something is wrong
//! - `auth`: what callers present, and how it is checked
//! - `streams`: the Durable Streams protocol; `subscriptions`: its webhooks and pull-wakes
//! - `connection`: one of them, from accept to its end; `places`: how many; `idle`: for how long; `peer`:
//!   whose; `line`: its socket; `tls`: encryption on it
//! - `tail`: how this node follows the log and wakes its readers
//! - `hub`: who is connected, what each follows, and how events reach them; `live`: how they come in
//! - `websocket`: frames and handshake; `sessions`: durable identities of clients; `nodes`: the others
//! - `metrics`, `operations`: for those who run it; `page`: for those who look

mod auth;
mod connection;
mod door;
mod hub;
mod idle;
mod line;
mod live;
mod memory;
mod metrics;
mod node;
mod nodes;
mod operations;
pub mod options;
mod page;
mod peer;
mod places;
mod problem;
mod router;
mod secret;
pub mod server;
mod sessions;
mod streams;
mod subscriptions;
mod tail;
mod tls;
mod websocket;

pub use auth::jwt::{JwksSource, JwtOptions};
pub use options::{
    Access, Limits, LiveOptions, LogOptions, NodeOptions, Options, SessionOptions, StreamOptions,
    TlsOptions, WebhookOptions,
};
pub use peer::{Network, NoNetwork};
pub use server::{Server, StartError};
pub use tls::TlsError;
