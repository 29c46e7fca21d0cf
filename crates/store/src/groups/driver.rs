//! The driver of PostgreSQL, for handlers that speak to the open transaction themselves.

pub use tokio_postgres::types::{FromSql, ToSql};
pub use tokio_postgres::{Client, Error, Row, Statement};
