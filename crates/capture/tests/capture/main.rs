//! Capture over a real PostgreSQL. `./test` starts one.

mod queries;
mod rows;
mod stage;
