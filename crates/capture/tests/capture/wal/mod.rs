//! Changes that are read from the write-ahead log.

mod alike;
mod events;
mod failures;
mod slots;
mod standby;
mod switching;
mod workload;
