//! The kinds of subscription, a folder each.

pub(crate) mod entities;
pub(crate) mod query;
