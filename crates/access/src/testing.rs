//! What tests share: access control over a store in memory, which asks for credentials.

use std::sync::Arc;

use tidewire_store::memory::MemoryStore;

use crate::AccessControl;
use crate::auth::names::TableNames;
use crate::budget::NothingToSpare;
use crate::options::{Access, Options};

/// The key that may do everything.
pub(crate) const ADMIN_KEY: &str = "test-2c9e41d7b3865f0a";

/// A node's, which has no tables.
pub(crate) fn access_control() -> AccessControl {
    let access = Access::Guarded { admin_key: Some(ADMIN_KEY.to_owned()) };
    let options = Arc::new(Options::new(access));
    let (store, names) = (MemoryStore::fresh(), TableNames::none());
    AccessControl::new(options, store, names, Arc::new(NothingToSpare)).expect("access control")
}
