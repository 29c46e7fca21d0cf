//! An open transaction that holds a partition.

use std::any::Any;
use std::fmt::Debug;

use async_trait::async_trait;
use serde_json::value::RawValue;

use super::view::{Ending, GroupError};
use crate::offset::Position;
use crate::sql::{SqlAnswer, SqlError, SqlLimits};

/// Whether a partition could be taken.
#[derive(Debug)]
pub enum Begun {
    /// It is held until the work is finished or dropped.
    Work(Box<dyn Work>),
    /// Somebody else has it, or it must not be worked on now.
    Taken,
    /// It is not as the claim says: look at the holdings again.
    Moved,
}

/// An open transaction that holds a partition. Dropped, it is rolled back.
#[async_trait]
pub trait Work: Send + Debug {
    /// A key's turn begins. Its savepoint is set with its first statement: a handler that writes nothing
    /// costs nothing. `savepoint` is false where the whole batch would be rolled back anyway.
    fn enter(&mut self, savepoint: bool);

    /// Runs one statement of the handler.
    async fn sql(
        &mut self,
        sql: &str,
        params: &[Box<RawValue>],
        limits: SqlLimits,
    ) -> Result<SqlAnswer, SqlError>;

    /// What the store has besides: handlers on PostgreSQL may speak to the open transaction in its own
    /// protocol.
    fn as_any(&mut self) -> &mut dyn Any;

    /// Takes back what this key's turn did. Fails if it had no savepoint and did something.
    async fn undo(&mut self) -> Result<(), GroupError>;

    /// Letters, parked keys, attempts, the advance, and the commit. Returns the place in the log by which
    /// what was changed is there, where that is known at once.
    async fn finish(self: Box<Self>, ending: &Ending) -> Result<Option<Position>, GroupError>;

    /// Rolls back, and waits until that is done.
    async fn abandon(self: Box<Self>);
}
