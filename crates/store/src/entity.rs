//! Entities: things that people know by a code and an id, and what happened to them.
//!
//! A row of a table that is watched as an entity is one (`project`, `7`); so is whatever
//! `tidewire.invalidate` names. Who subscribes to entities is told that they changed, not how: the
//! client fetches what it needs. Subscriptions belong to a connection, and end with it. They are kept
//! in the store, with the node that serves the connection, so that people and programs can ask who
//! looks at what; delivery does not read them.

use async_trait::async_trait;

use crate::error::StoreError;
use crate::offset::Position;

/// What the names of entities' own streams begin with: those of entities that are not rows of a
/// watched table.
pub const ENTITY_PREFIX: &str = "entity/";

/// What became of an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntityAction {
    /// It is new.
    Create,
    /// It changed.
    Update,
    /// It is gone.
    Delete,
}

impl EntityAction {
    /// The word that the log and clients have for it.
    pub fn as_str(self) -> &'static str {
        match self {
            EntityAction::Create => "CREATE",
            EntityAction::Update => "UPDATE",
            EntityAction::Delete => "DELETE",
        }
    }

    /// Reads what [`EntityAction::as_str`] wrote.
    pub fn parse(word: &str) -> Option<EntityAction> {
        [EntityAction::Create, EntityAction::Update, EntityAction::Delete]
            .into_iter()
            .find(|action| action.as_str() == word)
    }
}

/// A change of an entity, as the header of an event has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityChange {
    /// What kind of thing.
    pub code: String,
    /// Which one. None: all of them, because their table was truncated.
    pub id: Option<String>,
    /// What became of it.
    pub action: EntityAction,
}

/// Some entities that a connection subscribes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntitySubscription {
    /// Whose connection it is; empty for one without a name.
    pub user_id: String,
    /// The user's tenant.
    pub host_id: Option<String>,
    /// The connection, as its `hello` named it.
    pub connection_id: String,
    /// The node that serves it.
    pub node_id: String,
    /// What kind of thing.
    pub code: String,
    /// Which ones.
    pub ids: Vec<String>,
}

/// What is to change about the subscriptions to entities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntityEdit {
    /// These too. Those that are there already stay as they are.
    Subscribe(EntitySubscription),
    /// Not these any more; without ids, none of this kind.
    Unsubscribe {
        /// Whose.
        connection_id: String,
        /// What kind of thing.
        code: String,
        /// Which ones.
        ids: Option<Vec<String>>,
    },
    /// The connection is gone.
    Disconnect {
        /// Which.
        connection_id: String,
    },
}

/// How many subscriptions there are of one user to one kind of entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityCount {
    /// The user; none where all are counted together.
    pub user_id: Option<String>,
    /// The kind of entity.
    pub code: String,
    /// Subscriptions, of all connections.
    pub subscriptions: u64,
    /// Entities among them.
    pub entities: u64,
    /// Users among them.
    pub users: u64,
}

/// Who subscribes to entities. See the [module documentation](self).
#[async_trait]
pub trait Entities: Send + Sync {
    /// Makes changes, in order, in one transaction: all of them or none.
    async fn edit_entities(&self, edits: Vec<EntityEdit>) -> Result<(), StoreError>;

    /// What a connection subscribes to, by kind: also what SQL subscribed it to.
    async fn entities_of(
        &self,
        connection_id: &str,
    ) -> Result<Vec<(String, Vec<String>)>, StoreError>;

    /// What became of some entities after a position, in order; at most `changes_max`. Those of a
    /// truncated table are among them. Less than asked for means that there is no more.
    async fn entity_changes(
        &self,
        code: &str,
        ids: &[String],
        after: Position,
        changes_max: usize,
    ) -> Result<Vec<(Position, EntityChange)>, StoreError>;

    /// How many subscriptions there are: of each kind, or of each kind of one user.
    async fn entity_counts(&self, user_id: Option<&str>) -> Result<Vec<EntityCount>, StoreError>;

    /// Removes, in batches, subscriptions of nodes that live no more, and those of no node that are
    /// older than `stale_ms`. Returns how many.
    async fn sweep_entities(&self, stale_ms: u64) -> Result<u64, StoreError>;
}
