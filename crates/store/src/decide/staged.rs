//! Deciding what was staged in a user's transaction: documents, and the making and removal of
//! tables' streams. The rules are those of commands, but that a missing stream is made.

use bytes::Bytes;

use super::{LoadedState, Plan};
use crate::command::{Actor, Answer, Append, Command, Create, Refusal};
use crate::entity::EntityChange;

/// The content type of tables' streams, and of those made for a document that found none.
const CONTENT_TYPE: &str = "application/json";

/// What a staged row asks of a stream.
#[derive(Debug, Clone)]
pub enum Staged {
    /// To take a document.
    Document {
        /// The stream.
        stream: String,
        /// The document's content type.
        content_type: String,
        /// The document.
        payload: Bytes,
        /// Who published it.
        actor: Actor,
        /// The change of an entity, if it is one.
        entity: Option<EntityChange>,
    },
    /// To be there.
    Create {
        /// The stream.
        stream: String,
        /// Who asks for it.
        actor: Actor,
    },
    /// To be no more.
    Delete {
        /// The stream.
        stream: String,
        /// Who asks for it.
        actor: Actor,
    },
}

impl Staged {
    /// A command that needs to know at least as much as deciding this does.
    pub fn wants(&self) -> Command {
        match self {
            Staged::Delete { stream, actor } => {
                Command::Delete { stream: stream.clone(), actor: actor.clone() }
            }
            Staged::Document { stream, .. } | Staged::Create { stream, .. } => {
                Command::Touch { stream: stream.clone() }
            }
        }
    }
}

/// Decides one staged row at the tip of the loaded state, which its events move. An error says why it cannot be
/// an event.
pub fn decide_staged(
    loaded: &mut LoadedState,
    staged: &Staged,
    trace_context: Option<&String>,
) -> Result<(), String> {
    match staged {
        Staged::Create { stream, actor } => {
            loaded.expire_if_due(stream);
            if loaded.state(stream).is_none() {
                refusal_of(stream, &loaded.create(&creation(stream, actor)))?;
            }
            Ok(())
        }
        Staged::Delete { stream, actor } => {
            loaded.delete(stream, actor);
            Ok(())
        }
        Staged::Document { stream, content_type, payload, actor, entity } => {
            let append = Append {
                stream: stream.clone(),
                content_type: Some(content_type.clone()),
                messages: vec![payload.clone()],
                close: false,
                seq: None,
                producer: None,
                actor: actor.clone(),
                trace_context: trace_context.cloned(),
            };
            if let Some(entity) = entity {
                loaded.invalidate(&append, entity.clone());
                return Ok(());
            }
            loaded.expire_if_due(stream);
            if loaded.state(stream).is_none() {
                refusal_of(stream, &loaded.create(&creation(stream, actor)))?;
            }
            refusal_of(stream, &loaded.append(&append))
        }
    }
}

/// What is to be written for all that was decided.
pub fn plan_of_staged(loaded: LoadedState) -> Plan {
    loaded.into_plan(Vec::new())
}

fn creation(stream: &str, actor: &Actor) -> Create {
    Create {
        stream: stream.to_owned(),
        content_type: Some(CONTENT_TYPE.to_owned()),
        lifetime: None,
        messages: Vec::new(),
        closed: false,
        fork: None,
        actor: actor.clone(),
    }
}

fn refusal_of(stream: &str, answer: &Answer) -> Result<(), String> {
    let Answer::Refused(refusal) = answer else { return Ok(()) };
    Err(match refusal {
        Refusal::Closed { .. } => format!("the stream {stream} is closed"),
        Refusal::ContentTypeDiffers { expected } => {
            format!("the stream {stream} takes {expected}, and not {CONTENT_TYPE}")
        }
        Refusal::Gone => format!("the stream {stream} was deleted, and its name is kept by forks"),
        other => format!("the stream {stream} does not take it: {other:?}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Control;
    use crate::offset::Position;

    fn loaded(names: &[&str]) -> LoadedState {
        let mut loaded = LoadedState::new(0, Position::new(10));
        loaded.streams.extend(names.iter().map(|name| ((*name).to_owned(), None)));
        loaded
    }

    fn document(stream: &str) -> Staged {
        Staged::Document {
            stream: stream.to_owned(),
            content_type: CONTENT_TYPE.to_owned(),
            payload: Bytes::from_static(b"1"),
            actor: Actor::default(),
            entity: None,
        }
    }

    fn controls(plan: &Plan) -> Vec<Option<Control>> {
        plan.events.iter().map(|event| event.control).collect()
    }

    #[test]
    fn a_document_for_a_missing_stream_makes_it() {
        let mut loaded = loaded(&["a"]);
        decide_staged(&mut loaded, &document("a"), None).expect("a document is taken");
        decide_staged(&mut loaded, &document("a"), None).expect("another one too");
        let plan = plan_of_staged(loaded);
        assert_eq!(controls(&plan), [Some(Control::Create), None, None]);
        assert_eq!(plan.streams[0].content_type, CONTENT_TYPE);
    }

    #[test]
    fn what_became_of_an_entity_is_told_whatever_its_stream_is() {
        let stream = "entity/p".to_owned();
        let header = |id: &str| crate::entity::EntityHeader {
            code: "p".to_owned(),
            id: Some(id.to_owned()),
            was: None,
            operation: None,
            action: Some(crate::entity::EntityAction::Update),
        };
        let told = |id: &str| match document("entity/p") {
            Staged::Document { stream, content_type, payload, actor, .. } => {
                let entity = header(id).change(None);
                Staged::Document { stream, content_type, payload, actor, entity }
            }
            other => other,
        };
        let foreign = Create {
            content_type: Some("text/plain".to_owned()),
            closed: true,
            actor: Actor { host_id: Some("h".to_owned()), ..Actor::default() },
            ..creation(&stream, &Actor::default())
        };
        let mut loaded = loaded(&["entity/p"]);
        loaded.create(&foreign);
        decide_staged(&mut loaded, &told("1"), None).expect("a closed stream is no hindrance");
        decide_staged(&mut loaded, &Staged::Delete { stream, actor: Actor::default() }, None)
            .expect("it can be removed");
        decide_staged(&mut loaded, &told("2"), None).expect("nor one that is gone");
        let plan = plan_of_staged(loaded);
        let ids = plan.events.iter().filter_map(|event| event.entity.as_ref()?.id.as_deref());
        assert_eq!(ids.collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(plan.streams[0].host_id, None, "it was made anew, for all tenants");
    }

    #[test]
    fn a_stream_is_made_and_removed_once() {
        let mut loaded = loaded(&["table/t"]);
        let (stream, actor) = ("table/t".to_owned(), Actor::default());
        let create = Staged::Create { stream: stream.clone(), actor: actor.clone() };
        let delete = Staged::Delete { stream, actor };
        for staged in [&create, &create, &delete, &delete] {
            decide_staged(&mut loaded, staged, None).expect("there is nothing to refuse");
        }
        let plan = plan_of_staged(loaded);
        assert_eq!(controls(&plan), [Some(Control::Create), Some(Control::Delete)]);
    }
}
