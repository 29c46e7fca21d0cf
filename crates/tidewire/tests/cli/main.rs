//! The binary as its users meet it: run, and its exit status, output and messages looked at.
//!
//! - [`run`]: a process with nothing of this machine's environment in it
//! - [`help`]: what `--help` says everywhere
//! - [`configuration`]: layers, origins, mistakes
//! - [`refusals`]: what it will not do, and how it says so
//! - [`serving`]: start, publish, tail, stop

mod configuration;
mod help;
mod refusals;
mod run;
mod serving;
