//! HTTP, SSE and everything else that knows the wire.
//!
//! - [`options`]: how the server is set up; [`server`]: starting and stopping it
//! - `door`: who may come in; `problem`: what they are told when something is wrong
//! - `streams`: the Durable Streams protocol; `subscriptions`: its webhooks and pull-wakes
//! - `tail`: how this node follows the log and wakes its readers
//! - `metrics`, `operations`: for those who run it; `page`: for those who look

mod door;
mod metrics;
mod node;
mod operations;
pub mod options;
mod page;
mod problem;
mod router;
pub mod server;
mod streams;
mod subscriptions;
mod tail;

pub use options::{Access, Limits, LogOptions, Options, StreamOptions, WebhookOptions};
pub use server::{Server, StartError};
