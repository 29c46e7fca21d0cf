//! The binary as its users meet it: run, and its exit status, output and messages looked at.
//!
//! - [`run`]: a process with nothing of this machine's environment in it
//! - [`help`]: what `--help` says everywhere
//! - [`configuration`]: layers, origins, mistakes
//! - [`refusals`]: what it will not do, and how it says so
//! - [`running`]: processes that stay, to be talked to
//! - [`serving`]: start, publish, stop; [`tailing`]: what comes in; [`nodes`]: who is there

mod configuration;
mod help;
mod nodes;
mod refusals;
mod run;
mod running;
mod serving;
mod tailing;
