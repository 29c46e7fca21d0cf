//! HTTP, SSE and everything else that knows the wire.
//!
//! - [`options`]: how the server is set up; [`server`]: starting and stopping it
//! - `router`: every route; `door`: who comes in; `browser`: what concerns browsers; `body`: what is
//!   sent along; `problem`: what they are told when something is wrong
//! - `auth`: who someone is and what they may do; `administration`: keys, watched tables, and what is
//!   said to all nodes; `control`: hearing that
//! - `streams`: the Durable Streams protocol; `subscriptions`: its webhooks and pull-wakes
//! - `connection`: one of them, from accept to its end; `places`: how many; `idle`: for how long; `peer`:
//!   whose; `line`: its socket; `tls`: encryption on it
//! - `sql`: users' own SQL
//! - `tail`: how this node follows the log and wakes its readers; `horizon`: waiting until it has seen
//!   some place in it
//! - `lens`: what of a table someone sees
//! - `hub`: who is connected, what each follows, and how events reach them; `live`: how they come in
//! - `entities`: who may be told of entities, and what is kept of who is
//! - `queries`: live SQL queries, and the task that keeps them
//! - `websocket`: frames and handshake; `sessions`: durable identities of clients; `nodes`: the others
//! - `retention`: what is not kept in the log for ever
//! - `metrics`, `operations`: for those who run it; `page`: for those who look

#[cfg(test)]
mod access_matrix;
mod administration;
mod auth;
mod bell;
mod body;
mod browser;
mod budget;
mod changes;
mod connection;
mod control;
mod document;
mod door;
mod entities;
mod groups;
mod horizon;
mod hub;
mod idle;
mod kept_body;
mod lens;
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
mod queries;
mod readiness;
mod retention;
mod router;
mod seats;
mod secret;
pub mod server;
mod sessions;
mod sql;
mod streams;
mod subscriptions;
mod tail;
#[cfg(test)]
mod testing;
mod tls;
mod websocket;

pub use options::{
    Access, AuthOptions, GroupOptions, JwksSource, JwtOptions, Limits, LiveOptions, LogOptions,
    NodeOptions, Options, QueryOptions, Rate, RateOptions, Reload, SameSite, SessionOptions,
    SqlOptions, StreamOptions, TableRule, TlsOptions, Tunable, WebhookOptions,
};
pub use peer::{Network, NoNetwork};
pub use server::{Server, StartError};
pub use tls::TlsError;
