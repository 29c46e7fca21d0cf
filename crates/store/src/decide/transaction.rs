//! Deciding what a transaction of the user's brings into the log: changes of rows, documents that it
//! published, and what became of watched tables, in the order in which it did them.

use std::sync::Arc;

use bytes::Bytes;

use super::{LoadedState, NewEvent, Plan};
use crate::command::{Actor, Answer, Append, Command, Create, Refusal};
use crate::entity::EntityChange;
use crate::event::Control;
use crate::row::{RowChange, TABLE_PREFIX};

/// The content type of streams of tables, and of what is published from SQL.
pub(crate) const JSON: &str = "application/json";

/// One thing that a transaction did.
#[derive(Debug)]
pub enum TransactionStep {
    /// Changed a row of a watched table. Its place in the transaction is filled in here.
    Row {
        change: RowChange,
        /// The row's key before, if the change gave it another.
        was: Option<String>,
    },
    /// Published a document. The stream is made if there is none.
    Publish(Append),
    /// Published what became of an entity.
    Invalidate(Append, EntityChange),
    /// Changed the columns of a watched table.
    Schema { stream: String, what: Bytes },
    /// Began or ended a stream.
    Command(Command),
}

/// A document that could not be published, and why.
#[derive(Debug)]
pub struct Unpublished {
    pub stream: String,
    pub refusal: Refusal,
}

/// A step that publishes a JSON document.
pub fn publication(stream: String, payload: Bytes, actor: Actor) -> TransactionStep {
    TransactionStep::Publish(document(stream, payload, actor))
}

/// A step that publishes what became of an entity.
pub fn invalidation(entity: EntityChange, actor: Actor) -> TransactionStep {
    let payload = entity.document();
    TransactionStep::Invalidate(document(entity.stream(), payload, actor), entity)
}

fn document(stream: String, payload: Bytes, actor: Actor) -> Append {
    Append {
        stream,
        content_type: Some(JSON.to_owned()),
        messages: vec![payload],
        close: false,
        seq: None,
        producer: None,
        actor,
        trace_context: None,
    }
}

/// A command that makes an empty stream of JSON.
pub fn json_stream(stream: &str, actor: Actor) -> Create {
    Create {
        stream: stream.to_owned(),
        content_type: Some(JSON.to_owned()),
        lifetime: None,
        messages: Vec::new(),
        closed: false,
        fork: None,
        actor,
    }
}

/// The commands among the steps, for loading the state they are decided in.
pub fn commands_of(steps: &[TransactionStep]) -> Vec<Command> {
    let of_step = |step: &TransactionStep| match step {
        TransactionStep::Publish(append) | TransactionStep::Invalidate(append, _) => {
            Some(Command::Append(append.clone()))
        }
        TransactionStep::Command(command) => Some(command.clone()),
        TransactionStep::Row { .. } | TransactionStep::Schema { .. } => None,
    };
    steps.iter().filter_map(of_step).collect()
}

/// Decides a transaction's steps in order: all of them, or none.
pub fn decide_transaction(
    mut loaded: LoadedState,
    steps: Vec<TransactionStep>,
) -> Result<Plan, Unpublished> {
    let txid = loaded.tip.next().to_sql();
    let mut answers = Vec::new();
    for step in steps {
        match step {
            TransactionStep::Row { change, was } => loaded.push_row(change, was),
            TransactionStep::Publish(append) => answers.push(publish(&mut loaded, append)?),
            TransactionStep::Invalidate(append, entity) => {
                answers.push(loaded.invalidate(&append, entity))
            }
            TransactionStep::Schema { stream, what } => loaded.push_schema(&stream, what),
            TransactionStep::Command(Command::Create(create)) => {
                answers.push(loaded.create(&create))
            }
            TransactionStep::Command(Command::Delete { stream, actor }) => {
                answers.push(loaded.delete(&stream, &actor));
            }
            TransactionStep::Command(other) => {
                tracing::error!(?other, "not a transaction's command")
            }
        }
    }
    let mut plan = loaded.into_plan(answers);
    let last = plan.events.len().saturating_sub(1);
    for (index, event) in plan.events.iter_mut().enumerate() {
        (event.txid, event.tx_last) = (Some(txid), index == last);
        // Nobody else has the change yet.
        if let Some(change) = event.row.as_mut().and_then(Arc::get_mut) {
            (change.txid, change.tx_last) = (Some(txid), index == last);
        }
    }
    Ok(plan)
}

/// Publishes a document, to a stream of its publisher's if there is none yet.
fn publish(loaded: &mut LoadedState, append: Append) -> Result<Answer, Unpublished> {
    if loaded.live_mut(&append.stream).is_none() {
        loaded.create(&json_stream(&append.stream, append.actor.clone()));
    }
    match loaded.append(&append) {
        Answer::Refused(refusal) => Err(Unpublished { stream: append.stream, refusal }),
        answer => Ok(answer),
    }
}

impl LoadedState {
    /// Publishes what became of an entity. It is told whatever its stream has become: one that someone
    /// closed, deleted, or made of another type or for a tenant must not keep others from hearing of it.
    pub(super) fn invalidate(&mut self, append: &Append, entity: EntityChange) -> Answer {
        let stream = &append.stream;
        self.expire_if_due(stream);
        if self.state(stream).is_none() {
            // Entities of all tenants share the stream; an event says whose it is.
            self.create(&json_stream(stream, Actor::default()));
        }
        let answer = match self.append(append) {
            Answer::Refused(_) => {
                let (actor, trace) = (&append.actor, append.trace_context.as_ref());
                let tail = self.push_messages(stream, JSON, &append.messages, actor, trace);
                Answer::Appended { tail, closed: false }
            }
            answer => answer,
        };
        self.mark_entity(entity);
        answer
    }

    fn push_row(&mut self, change: RowChange, was: Option<String>) {
        self.tip = self.tip.next();
        let stream = format!("{TABLE_PREFIX}{}", change.table);
        self.push_event(NewEvent {
            position: self.tip,
            append_id: self.tip,
            stream,
            control: None,
            payload: None,
            entity: EntityChange::of_row(&change, was),
            row: Some(Arc::new(change)),
            content_type: None,
            actor: Actor::default(),
            trace_context: None,
            txid: None,
            tx_last: true,
        });
    }

    fn push_schema(&mut self, stream: &str, what: Bytes) {
        self.tip = self.tip.next();
        self.push_event(NewEvent {
            position: self.tip,
            append_id: self.tip,
            stream: stream.to_owned(),
            control: Some(Control::Schema),
            payload: Some(what),
            row: None,
            entity: None,
            content_type: Some(JSON.to_owned()),
            actor: Actor::default(),
            trace_context: None,
            txid: None,
            tx_last: true,
        });
    }
}
