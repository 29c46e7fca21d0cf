//! What a shard is asked that concerns one kind alone, besides beginning and ending: an arm for each kind that
//! asks the store for something and has the answer come back, or is told of by others.

use super::entities::EntityCommand;
use super::stream::reader::StreamPage;
use crate::connection::Key;
use crate::shard::Shard;
use tidewire_access::problem::Problem;

/// An order for one kind.
#[derive(Debug)]
pub enum KindCommand {
    /// Something about the entities that a connection is told of.
    Entities { key: Key, command: Box<EntityCommand> },
    /// The store is to be told again which entities all connections are told of.
    RestoreEntities,
    /// A page of the store was read for a reader.
    Read { key: Key, read: Result<Box<StreamPage>, Problem> },
}

impl KindCommand {
    pub fn obey(self, shard: &mut Shard) {
        match self {
            KindCommand::Entities { key, command } => shard.obey_entities(key, *command),
            KindCommand::RestoreEntities => shard.restore_entities(),
            KindCommand::Read { key, read } => shard.read_on(key, read),
        }
    }
}
