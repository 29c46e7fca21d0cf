//! HTTP, SSE and everything else that knows the wire.
//!
//! Four layers, each of which imports those above it in this list only (`tests/tidy` sees to it):
//!
//! - `wire`: sockets, TLS and WebSocket frames
//! - `access`: who someone is and what they may do; `access::options`: how the server is set up
//! - `hub`: how this node follows the log, who is connected, what each follows, and how it reaches them
//! - all else: routes and requests
//!     - [`server`]: starting and stopping; `connection`: one of them, from accept to its end
//!     - `router`: every route; `door`: who comes in; `browser`: what concerns browsers; `body`: what is
//!       sent along
//!     - `administration`: keys, watched tables, and what is said to all nodes; `control`: hearing that
//!     - `streams`: the Durable Streams protocol; `subscriptions`: its webhooks and pull-wakes
//!     - `live`: how clients come into the hub; `sessions`: their durable identities; `nodes`: the others
//!     - `groups`: consumer groups; `sql`: users' own SQL; `entities`: counts of who is told
//!     - `retention`: what is not kept in the log for ever
//!     - `metrics`, `scrape`, `operations`: for those who run it; `page`: for those who look
//!     - `readers`: places of those who wait; `signer`: of webhooks and tokens; `sql_problem`: what is wrong with SQL
//!     - `document`: JSON documents of requests and answers
//!     - `node`: what all request handlers of a node share
//!     - `readiness`: whether the node can serve, as it looked a moment ago

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
