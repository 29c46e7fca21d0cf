//! Functions that the user's SQL may call: `tidewire_publish(stream, payload)`,
//! `tidewire_invalidate(code, id, action)` and `tidewire_set_actor(user_id, host_id)`, which are
//! `tidewire.publish` and so on in PostgreSQL. They write, so a `SELECT` that calls one is run where
//! writes are. `tidewire_partition_of(host, total)` only computes.

use std::num::NonZeroU32;
use std::sync::Arc;

use bytes::Bytes;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{Null, Value, ValueRef};
use rusqlite::{Connection, Error};
use serde_json::value::RawValue;

use super::collect::Collector;
use super::guard::Guard;
use tidewire_store::entity::{
    ENTITY_PREFIX, EntityAction, EntityChange, is_entity_code, is_entity_id,
};
use tidewire_store::groups::partition_of;
use tidewire_store::row::TABLE_PREFIX;

/// Measures a value, and writes nothing.
pub(crate) const WITHIN: &str = "tidewire_within";
/// What it says of one that is too long.
pub(crate) const TOO_LONG: &str = "tidewire_within: the value is too long";

/// Tells the partition of a host, and writes nothing.
pub(crate) const PARTITION_OF: &str = "tidewire_partition_of";

/// Bytes of a stream's name, and of one document.
const STREAM_NAME_BYTES_MAX: usize = 1_024;
const PAYLOAD_BYTES_MAX: usize = 16 << 20;

/// Makes the functions known to a connection. One without a collector can prepare what calls them.
pub(crate) fn register(
    connection: &Connection,
    collector: Option<&Arc<Collector>>,
) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8;
    let publisher = collector.cloned();
    connection.create_scalar_function("tidewire_publish", 2, flags, move |context| {
        let stream = stream(context)?;
        let payload = payload(context)?;
        let taken = publisher.as_ref().is_some_and(|to| to.publish(stream, payload));
        if taken { Ok(Null) } else { Err(wrong("tidewire_publish: nothing can be published here")) }
    })?;
    for arguments in [2, 3] {
        let collector = collector.cloned();
        let invalidate = move |context: &Context<'_>| {
            let entity =
                entity(context).map_err(|why| wrong(&format!("tidewire_invalidate: {why}")))?;
            let taken = collector.as_ref().is_some_and(|to| to.invalidate(entity));
            if taken {
                Ok(Null)
            } else {
                Err(wrong("tidewire_invalidate: nothing can be told here"))
            }
        };
        connection.create_scalar_function("tidewire_invalidate", arguments, flags, invalidate)?;
    }
    let pure = flags | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function(PARTITION_OF, 2, pure, |context| {
        let host = context.get::<Option<String>>(0)?.unwrap_or_default();
        let total = u32::try_from(context.get::<i64>(1)?).ok().and_then(NonZeroU32::new);
        let none = || wrong("tidewire_partition_of: the number of partitions must be 1 or more");
        Ok(partition_of(&host, total.ok_or_else(none)?))
    })?;
    for arguments in [1, 2] {
        let collector = collector.cloned();
        let set_actor = move |context: &Context<'_>| {
            let user_id = context.get::<Option<String>>(0)?;
            let host_id = if arguments == 2 { context.get::<Option<String>>(1)? } else { None };
            if let Some(collector) = &collector {
                collector.set_actor(user_id, host_id);
            }
            Ok(Null)
        };
        connection.create_scalar_function("tidewire_set_actor", arguments, flags, set_actor)?;
    }
    Ok(())
}

/// `tidewire_within(value, characters_max)`: the value, or an error if it is a text or bytes with more. What a
/// live query computes and searches goes through it, because SQLite looks at the clock between instructions
/// and not within a function: so it is looked at here as well.
pub(crate) fn register_measure(
    connection: &Connection,
    guard: &Arc<Guard>,
) -> rusqlite::Result<()> {
    let guard = Arc::clone(guard);
    // Not deterministic, or else it would be called once for all rows and not look at the clock again.
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_scalar_function(WITHIN, 2, flags, move |context| {
        let chars_max = context.get::<Option<i64>>(1)?.and_then(|max| usize::try_from(max).ok());
        let chars = match context.get_raw(0) {
            // What begins a character is not one of those that go on with one.
            ValueRef::Text(text) => text.iter().filter(|byte| **byte & 0xC0 != 0x80).count(),
            ValueRef::Blob(bytes) => bytes.len(),
            _ => 0,
        };
        if chars_max.is_some_and(|max| chars > max) {
            return Err(wrong(TOO_LONG));
        }
        if guard.look() {
            return Err(wrong("tidewire_within: the time is up"));
        }
        context.get::<Value>(0)
    })
}

fn wrong(message: &str) -> Error {
    Error::UserFunctionError(message.into())
}

fn stream(context: &Context<'_>) -> rusqlite::Result<String> {
    let ValueRef::Text(name) = context.get_raw(0) else {
        return Err(wrong("tidewire_publish: the stream's name must be a text"));
    };
    let name = String::from_utf8_lossy(name).into_owned();
    check_name(&name).map_err(|why| wrong(&format!("tidewire_publish: {why}")))?;
    if is_of_entities(&name) {
        return Err(wrong(
            "tidewire_publish: streams under entity/ hold what tidewire_invalidate told; call that",
        ));
    }
    Ok(name)
}

/// What became of an entity. Numbers are taken for ids as they are written.
fn entity(context: &Context<'_>) -> Result<EntityChange, String> {
    let text = |place: usize, what: &str| match context.get_raw(place) {
        ValueRef::Text(text) => Ok(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Integer(number) if place == 1 => Ok(number.to_string()),
        _ => Err(format!("the entity's {what} must be a text")),
    };
    let (code, id) = (text(0, "code")?, text(1, "id")?);
    let action = if context.len() > 2 { text(2, "action")? } else { "UPDATE".to_owned() };
    let action = EntityAction::parse(&action)
        .ok_or_else(|| format!("the action is CREATE, UPDATE or DELETE, and not {action:?}"))?;
    if !is_entity_code(&code) || check_name(&format!("{ENTITY_PREFIX}{code}")).is_err() {
        return Err("the entity's code must be part of the name of a stream, and short".to_owned());
    }
    if !is_entity_id(&id) {
        return Err("the entity's id is empty or too long".to_owned());
    }
    Ok(EntityChange { code, id: Some(id), was: None, action, host_id: None })
}

/// Whether documents may be published to a stream of this name.
fn check_name(name: &str) -> Result<(), String> {
    let bad_segment = |segment: &str| segment.is_empty() || segment == "." || segment == "..";
    if name.len() > STREAM_NAME_BYTES_MAX {
        return Err(format!("a stream's name has at most {STREAM_NAME_BYTES_MAX} bytes"));
    }
    if name.chars().any(char::is_control) || name.split('/').any(bad_segment) {
        return Err(format!(
            "{name:?} is no name of a stream: it is one or more segments joined by single slashes"
        ));
    }
    if name.split('/').next() == Some("__ds") {
        return Err("names under __ds are reserved for the protocol".to_owned());
    }
    if name == "table" || name.starts_with(TABLE_PREFIX) {
        return Err("streams under table/ hold the changes of watched tables; write to the table"
            .to_owned());
    }
    Ok(())
}

/// Those that `tidewire_invalidate` writes to.
fn is_of_entities(name: &str) -> bool {
    name == "entity" || name.starts_with(ENTITY_PREFIX)
}

fn payload(context: &Context<'_>) -> rusqlite::Result<Bytes> {
    let ValueRef::Text(payload) = context.get_raw(1) else {
        return Err(wrong(
            "tidewire_publish: the payload must be JSON as text; json_object() and json() make it, and \
             json_quote() of anything else",
        ));
    };
    if payload.len() > PAYLOAD_BYTES_MAX {
        return Err(wrong("tidewire_publish: the payload has more than 16 MiB"));
    }
    let parsed: Result<&RawValue, _> = serde_json::from_slice(payload);
    let raw = parsed
        .map_err(|error| wrong(&format!("tidewire_publish: the payload is not JSON: {error}")))?;
    Ok(Bytes::copy_from_slice(raw.get().as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::check_name;

    #[test]
    fn documents_go_only_where_documents_may() {
        for name in ["a", "doc/1", "tables", "a b", "ä"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in ["", "a//b", "/a", "a/", "a/../b", "table", "table/orders", "__ds/x", "a\nb"] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
