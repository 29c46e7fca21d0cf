//! Capture over a real PostgreSQL. `./test` starts one.

mod compat;
mod contract;
mod failover;
mod fixture;
mod history;
mod kinds;
mod leaders;
mod live_reads;
mod marks;
mod past_capture;
mod publishing;
mod queries;
mod rows;
mod stress;
mod tables_change;
mod wal;
mod watching;
