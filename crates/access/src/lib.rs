//! Authentication and authorization, and the errors for those who are refused.
//!
//! - [`access_control`]: what all of this is decided with
//! - [`auth`]: credentials, scopes and permits; [`stream_name`]: the names that these are about
//! - [`problem`]: errors as clients see them
//! - [`options`]: how the server is set up; [`secret`]: what it signs with;
//!   [`start_error`]: why it did not start
//! - `testing`: access control for tests
//! - [`budget`], [`memory`]: how much of this machine's memory clients may take
//! - [`exposition`]: numbers for those who watch them

pub mod access_control;
pub mod auth;
pub mod budget;
pub mod exposition;
pub mod memory;
pub mod options;
pub mod problem;
pub mod secret;
pub mod start_error;
pub mod stream_name;
#[cfg(test)]
mod testing;

pub use access_control::AccessControl;
