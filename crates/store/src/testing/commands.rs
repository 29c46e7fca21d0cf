//! Commands in their plainest form. A test changes the field it is about:
//! `Append { close: true, ..append("a", "last words") }`.

use std::sync::Arc;

use bytes::Bytes;

use crate::command::{Actor, Append, Command, Create, ForkFrom, Reach};
use crate::offset::Position;
use crate::stream::{Lifetime, ProducerStamp};

pub const TEXT: &str = "text/plain";
pub const JSON: &str = "application/json";

/// A moment long past, for streams that are born expired.
pub const LONG_AGO: Lifetime = Lifetime::Until { at_ms: 1 };

/// A stream of text, empty and open.
pub fn create(stream: &str) -> Create {
    Create {
        stream: stream.to_owned(),
        content_type: Some(TEXT.to_owned()),
        lifetime: None,
        messages: Vec::new(),
        closed: false,
        fork: None,
        actor: Actor::default(),
    }
}

/// A stream of JSON messages, empty and open.
pub fn create_json(stream: &str) -> Create {
    Create { content_type: Some(JSON.to_owned()), ..create(stream) }
}

/// A fork of a stream's whole content that takes after its source in everything.
pub fn fork(source: &str, stream: &str) -> Create {
    let from = ForkFrom { source: source.to_owned(), offset: None, sub_offset: 0 };
    Create { content_type: None, fork: Some(from), ..create(stream) }
}

/// A fork at a place in its source.
pub fn fork_at(source: &str, offset: Position, sub_offset: u64, stream: &str) -> Create {
    let from = ForkFrom { source: source.to_owned(), offset: Some(offset), sub_offset };
    Create { fork: Some(from), ..fork(source, stream) }
}

/// One text.
pub fn append(stream: &str, text: &str) -> Append {
    Append {
        stream: stream.to_owned(),
        content_type: Some(TEXT.to_owned()),
        messages: vec![Bytes::copy_from_slice(text.as_bytes())],
        close: false,
        seq: None,
        producer: None,
        actor: Actor::default(),
        trace_context: None,
    }
}

/// Several JSON messages in one append.
pub fn append_json(stream: &str, messages: &[&str]) -> Append {
    let messages = messages.iter().map(|text| Bytes::copy_from_slice(text.as_bytes())).collect();
    Append { content_type: Some(JSON.to_owned()), messages, ..append(stream, "") }
}

/// One text with a producer's stamp.
pub fn stamped(stream: &str, text: &str, id: &str, epoch: u64, seq: u64) -> Append {
    let producer = Some(ProducerStamp { id: id.to_owned(), epoch, seq });
    Append { producer, ..append(stream, text) }
}

/// A close without content.
pub fn close(stream: &str) -> Append {
    Append { content_type: None, messages: Vec::new(), close: true, ..append(stream, "") }
}

/// The end of a stream.
pub fn delete(stream: &str) -> Command {
    Command::Delete { stream: stream.to_owned(), actor: Actor::default() }
}

/// Someone of a tenant, who may use that tenant's streams and, if they are shared, those of none.
pub fn tenant(host: &str, shared: bool) -> Actor {
    let reach = Reach::Of { hosts: Arc::new([host.to_owned()]), shared };
    Actor { host_id: Some(host.to_owned()), user_id: None, reach, account: None }
}

/// The end of a stream by someone's hand.
pub fn delete_by(actor: Actor, stream: &str) -> Command {
    Command::Delete { stream: stream.to_owned(), actor }
}

/// A read that renews a sliding lifetime.
pub fn touch(stream: &str) -> Command {
    Command::Touch { stream: stream.to_owned() }
}
