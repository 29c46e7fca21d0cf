//! HTTP, SSE and everything else that knows the wire.
//!
//! Four layers, each of which imports those above it in this list only (`tests/tidy` sees to it):
//!
//! - `wire`: sockets, TLS and WebSocket frames
//! - `access`: who someone is and what they may do; `access::options`: how the server is set up
//! - `hub`: how this node follows the log, who is connected, what each follows, and how it reaches them
//! - all else: routes and requests, in an order in which each imports those before it only
//!     - `bearer`, `body`, `document`: tokens, bodies and JSON documents of requests; `sql_problem`: what is wrong with
//!       SQL; `carrier`: what a live connection comes over
//!     - `readers`: places of those who wait; `pages`: pages of streams that were read lately; `signer`: of webhooks and
//!       tokens; `metrics`: what is counted; `page`: for those who look
//!     - `readiness`: whether the node can serve, as it looked a moment ago; `retention`: what is not kept for ever
//!     - `groups`: consumer groups; `sessions`: durable identities of clients
//!     - `node`: these parts together
//!     - `browser`: what concerns browsers; `door`: who comes in; `control`: hearing what is said to all nodes
//!     - `entities`: counts of who is told; `hub_body`: responses that the hub writes; `nodes`: the others; `scrape`,
//!       `operations`: for those who run it
//!     - `administration`: keys, watched tables, and what is said to all nodes; `sql`: users' own SQL
//!     - `streams`: the Durable Streams protocol; `subscriptions`: its webhooks and pull-wakes
//!     - `live`: how clients come into the hub; `session_requests`: sessions over HTTP
//!     - `router`: every route; `connection`: one of them, from accept to its end; [`server`]: starting and stopping

mod access;
#[cfg(test)]
mod access_matrix;
mod administration;
mod bearer;
mod body;
mod browser;
mod carrier;
mod connection;
mod control;
mod document;
mod door;
mod entities;
mod groups;
mod hub;
mod hub_body;
mod live;
mod metrics;
mod node;
mod nodes;
mod operations;
mod page;
mod pages;
mod readers;
mod readiness;
mod retention;
mod router;
mod scrape;
pub mod server;
mod session_requests;
mod sessions;
mod signer;
mod sql;
mod sql_problem;
mod streams;
mod subscriptions;
#[cfg(test)]
mod testing;
mod wire;

pub use access::options::{
    Access, AuthOptions, GroupOptions, JwksSource, JwtOptions, Limits, LiveOptions, LogOptions,
    NodeOptions, Options, QueryOptions, Rate, RateOptions, Reload, SameSite, SessionOptions,
    SqlOptions, StreamOptions, TableRule, TlsOptions, Tunable, WebhookOptions,
};
pub use access::start_error::StartError;
pub use server::Server;
pub use wire::peer::{Network, NoNetwork};
pub use wire::tls::{TlsError, Trust};
