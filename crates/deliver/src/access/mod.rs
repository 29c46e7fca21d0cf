//! Who someone is and what they may do; and what they are told if they may not.
//!
//! - [`access_control`]: what all of this is decided with
//! - [`auth`]: credentials, scopes and permits; [`stream_name`]: the names that these are about
//! - [`problem`]: errors as clients see them
//! - [`options`]: how the server is set up; [`secret`]: what it signs with;
//!   [`start_error`]: why it did not start
//! - [`budget`], [`memory`]: how much of this machine's memory clients may take

mod access_control;
pub(crate) mod auth;
pub(crate) mod budget;
pub(crate) mod memory;
pub(crate) mod options;
pub(crate) mod problem;
pub(crate) mod secret;
pub(crate) mod start_error;
pub(crate) mod stream_name;

pub(crate) use access_control::AccessControl;
