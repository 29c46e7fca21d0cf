//! The commands that do something and end. Servers are in [`server`](crate::server).

pub(crate) mod config;
pub(crate) mod migrate;
pub(crate) mod nodes;
pub(crate) mod publish;
pub(crate) mod tail;
