//! What HTTP and WebSocket say: routes, sessions and requests.
//!
//! The layers below are crates of their own: `tidewire-wire` (sockets, TLS, frames), `tidewire-access` (who someone
//! is and what they may do) and `tidewire-hub` (who follows what, and how it reaches them). What the binary needs of
//! them comes from here. The modules, in an order in which each imports those before it only (`tests/tidy` sees to it):
//!
//! - `bearer`, `query_string`, `body`, `document`: tokens, query strings, bodies and JSON documents of requests;
//!   `bad_request`: the answer to what is none; `sql_problem`: what is wrong with SQL; `carrier`: what a live
//!   connection comes over
//! - `readers`: places of those who wait; `pages`: pages of streams that were read lately; `signer`: of webhooks and
//!   tokens; `metrics`: what is counted; `index_page`: for those who look
//! - `readiness`: whether the node can serve, as it looked a moment ago; `retention`: what is not kept for ever
//! - `groups`: consumer groups; `sessions`: durable identities of clients
//! - `node`: these parts together
//! - `origin`: what concerns browsers; `authenticate`: who comes in; `control`: hearing what is said to all nodes
//! - `entities`: counts of who is told; `hub_body`: responses that the hub writes; `nodes`: the others; `scrape`,
//!   `operations`: for those who run it
//! - `administration`: keys, watched tables, and what is said to all nodes; `sql`: users' own SQL
//! - `streams`: the Durable Streams protocol; `subscriptions`: its webhooks and pull-wakes
//! - `live`: how clients come into the hub; `session_requests`: sessions over HTTP
//! - `router`: every route; `connection`: one of them, from accept to its end; [`server`]: starting and stopping

#[cfg(test)]
mod access_matrix;
mod administration;
mod authenticate;
mod bad_request;
mod bearer;
mod body;
mod carrier;
mod connection;
mod control;
mod document;
mod entities;
mod groups;
mod hub_body;
mod index_page;
mod live;
mod metrics;
mod node;
mod nodes;
mod operations;
mod origin;
mod pages;
mod query_string;
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

pub use server::Server;
pub use tidewire_access::options::{
    Access, AuthOptions, GroupOptions, JwksSource, JwtOptions, Limits, LiveOptions, LogOptions,
    NodeOptions, Options, QueryOptions, Rate, RateOptions, Reload, SameSite, SessionOptions,
    SqlOptions, StreamOptions, TableRule, TlsOptions, Tunable, WebhookOptions,
};
pub use tidewire_access::start_error::StartError;
pub use tidewire_wire::peer::{Network, NoNetwork};
pub use tidewire_wire::tls::{TlsError, Trust};
