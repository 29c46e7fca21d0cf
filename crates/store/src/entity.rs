//! Entities: things that people know by a code and an id, and what happened to them.
//!
//! A row of a table that is watched as an entity is one (`project`, `7`); so is whatever
//! `tidewire.invalidate` names. Who subscribes to entities is told that they changed, not how: the
//! client fetches what it needs. Subscriptions belong to a connection, and end with it. They are kept
//! in the store, with the node that serves the connection, so that people and programs can ask who
//! looks at what; delivery does not read them.

use async_trait::async_trait;
use bytes::Bytes;

use crate::error::StoreError;
use crate::offset::Position;
use crate::row::{Operation, RowChange};

mod plan;

pub use plan::EntityPlan;

/// What the names of entities' own streams begin with: those of entities that are not rows of a
/// watched table.
pub const ENTITY_PREFIX: &str = "entity/";

/// Bytes of what names an entity, a connection and a user. What is longer does not fit into
/// PostgreSQL's indexes, and cannot be subscribed to. The migration has the same numbers.
pub const ENTITY_CODE_BYTES_MAX: usize = 255;
/// See [`ENTITY_CODE_BYTES_MAX`].
pub const ENTITY_ID_BYTES_MAX: usize = 1_024;
/// See [`ENTITY_CODE_BYTES_MAX`].
pub const CONNECTION_ID_BYTES_MAX: usize = 255;
/// See [`ENTITY_CODE_BYTES_MAX`].
pub const ENTITY_USER_BYTES_MAX: usize = 1_024;

/// Subscriptions that one step of a sweep removes: few enough that others do not notice.
pub const SWEPT_MAX: usize = 5_000;

/// Whether a text can be an entity's code.
pub fn is_entity_code(code: &str) -> bool {
    is_name(code, ENTITY_CODE_BYTES_MAX)
}

/// Whether a text can be an entity's id.
pub fn is_entity_id(id: &str) -> bool {
    is_name(id, ENTITY_ID_BYTES_MAX)
}

/// PostgreSQL's text holds every character but zero.
fn is_name(text: &str, bytes_max: usize) -> bool {
    (1..=bytes_max).contains(&text.len()) && !text.contains('\0')
}

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

    /// What the change of a row did to the entity that the row is.
    pub(crate) fn of_operation(operation: Operation) -> EntityAction {
        match operation {
            Operation::Insert => EntityAction::Create,
            Operation::Update => EntityAction::Update,
            Operation::Delete | Operation::Truncate => EntityAction::Delete,
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
    /// The id it had before, if the change gave it another: under that one it is gone.
    pub was: Option<String>,
    /// What became of it.
    pub action: EntityAction,
    /// The tenant that it concerns; none: all of them.
    pub host_id: Option<String>,
}

impl EntityChange {
    /// The change of an entity that the change of a row is, if its table was watched as one. `was` is
    /// the row's key before, if it is another.
    pub fn of_row(row: &RowChange, was: Option<String>) -> Option<EntityChange> {
        let (code, id) = (row.entity_code.clone()?, row.entity_id.clone());
        let found = EntityHeader { code, id, was, operation: Some(row.operation), action: None };
        found.change(row.host_id.clone())
    }

    /// The stream of those that are no rows.
    pub fn stream(&self) -> String {
        format!("{ENTITY_PREFIX}{}", self.code)
    }

    /// What that stream has of it, as `tidewire.invalidate` writes it in PostgreSQL.
    pub fn document(&self) -> Bytes {
        let text = |text: &str| serde_json::Value::from(text).to_string();
        let (code, id) = (text(&self.code), text(self.id.as_deref().unwrap_or_default()));
        let action = self.action.as_str();
        format!(r#"{{"entityCode":{code},"entityId":{id},"action":"{action}"}}"#).into()
    }
}

/// The change of an entity that a staged document is, from its columns.
pub fn staged_entity(
    code: Option<String>,
    id: Option<String>,
    action: Option<&str>,
    host_id: Option<&String>,
) -> Option<EntityChange> {
    let action = action.and_then(EntityAction::parse);
    let header = EntityHeader { code: code?, id, was: None, operation: None, action };
    header.change(host_id.cloned())
}

/// What the log keeps of the change of an entity, before it is known whether it makes sense.
#[derive(Debug)]
pub struct EntityHeader {
    pub code: String,
    pub id: Option<String>,
    pub was: Option<String>,
    pub operation: Option<Operation>,
    pub action: Option<EntityAction>,
}

impl EntityHeader {
    /// None of what nobody can subscribe to: its names are too long, or the row has no key. A missing
    /// id means all entities of the kind only where the table was truncated.
    pub fn change(self, host_id: Option<String>) -> Option<EntityChange> {
        let EntityHeader { code, id, was, operation, action } = self;
        let truncated = operation == Some(Operation::Truncate);
        let action = action.or_else(|| operation.map(EntityAction::of_operation))?;
        let id = id.filter(|id| is_entity_id(id));
        let was = was.filter(|was| is_entity_id(was));
        let named = id.is_some() || truncated;
        (named && is_entity_code(&code)).then_some(EntityChange { code, id, was, action, host_id })
    }
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
    /// These too. Those that are there already stay as they are, but that the node takes up those
    /// that SQL made. All names are within their limits.
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
    /// What SQL made for a connection is the node's that serves it, as long as that lives. Nothing is
    /// added: what SQL has deleted meanwhile stays so.
    Adopt {
        /// Whose.
        connection_id: String,
        /// The node that serves it.
        node_id: String,
    },
    /// The connection is gone.
    Disconnect {
        /// Which.
        connection_id: String,
    },
}

/// What became of an entity, as the log has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityPast {
    /// The event's.
    pub position: Position,
    /// The stream that the event is in: a table's, or that of the entities that are no rows. Whether
    /// someone may hear of the change depends on it.
    pub stream: String,
    /// What it says.
    pub change: EntityChange,
}

/// What became of some entities, a piece of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntityPage {
    /// In order.
    pub changes: Vec<EntityPast>,
    /// Everything up to here is among them, and there may be more after it. None if there is no
    /// more, by the word of the statements that read them: of what they find some is no change that
    /// anyone could hear of, so a number of changes tells nothing.
    pub next: Option<Position>,
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

    /// What became of some entities after a position, in order, one for each event; at most
    /// `changes_max`. Those of a truncated table are among them, and an entity that got another id is
    /// found by both.
    ///
    /// What retention gave up is not found: whoever asks looks whether the streams that the changes
    /// were in have lost something since ([`StreamView::has_lost`](crate::log::StreamView::has_lost)).
    async fn entity_changes(
        &self,
        code: &str,
        ids: &[String],
        after: Position,
        changes_max: usize,
    ) -> Result<EntityPage, StoreError>;

    /// How many subscriptions there are: of each kind, or of each kind of one user.
    async fn entity_counts(&self, user_id: Option<&str>) -> Result<Vec<EntityCount>, StoreError>;

    /// Removes, in batches, subscriptions of nodes that live no more, and those of no node that are
    /// older than `stale_ms`. Returns how many.
    async fn sweep_entities(&self, stale_ms: u64) -> Result<u64, StoreError>;
}
