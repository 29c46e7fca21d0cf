//! Creating streams and forks.

use bytes::Bytes;

use super::{FORK_DEPTH_MAX, LoadedState};
use crate::command::{Answer, Create, ForkFrom, Refusal};
use crate::event::Control;
use crate::offset::Position;
use crate::stream::{Closed, Fork, Lifetime, StreamState, same_media_type};

/// The content type of a stream made without one.
const DEFAULT_CONTENT_TYPE: &str = "application/octet-stream";

/// What a new stream takes from its source.
struct Inheritance {
    fork: Fork,
    content_type: String,
    lifetime: Lifetime,
    /// Bytes of the append that the sub-offset cuts through.
    prefix: Option<Bytes>,
}

impl LoadedState {
    pub(super) fn create(&mut self, create: &Create) -> Answer {
        self.expire_if_due(&create.stream);
        if self.out_of_reach(&create.stream, &create.actor.reach) {
            return Answer::Refused(Refusal::NameTaken);
        }
        if let Some(state) = self.state(&create.stream) {
            return match self.same_configuration(state, create) {
                Ok(()) => Answer::Created {
                    new: false,
                    tail: self.tail(state),
                    state: Box::new(state.clone()),
                },
                Err(refusal) => Answer::Refused(refusal),
            };
        }
        let inheritance = match &create.fork {
            None => None,
            Some(from) => match self.inherit(create, from) {
                Ok(inheritance) => Some(inheritance),
                Err(refusal) => return Answer::Refused(refusal),
            },
        };
        self.make(create, inheritance)
    }

    /// Compares a repeated creation with the stream that is there.
    fn same_configuration(&self, state: &StreamState, create: &Create) -> Result<(), Refusal> {
        if state.soft_deleted {
            return Err(Refusal::NameHeldByForks);
        }
        let differs = |what| Err(Refusal::ConfigurationDiffers { what });
        let content_type_given = create.content_type.as_deref();
        let content_type_same = match content_type_given {
            None if create.fork.is_some() => true,
            given => same_media_type(given.unwrap_or(DEFAULT_CONTENT_TYPE), &state.content_type),
        };
        if !content_type_same {
            return differs("content type");
        }
        let lifetime_same = match create.lifetime {
            None if create.fork.is_some() => true,
            given => given.unwrap_or(Lifetime::Forever) == state.lifetime,
        };
        if !lifetime_same {
            return differs("time to live");
        }
        if create.closed != state.closed.is_some() {
            return differs("closed state");
        }
        match (&create.fork, &state.fork) {
            (None, None) => Ok(()),
            (Some(asked), Some(is)) => {
                // A default offset was resolved when the fork was made; asking for the default
                // again asks for that same fork.
                let offset_same = asked.offset.is_none_or(|offset| offset == is.offset);
                if asked.source == is.source && offset_same && asked.sub_offset == is.sub_offset {
                    Ok(())
                } else {
                    differs("fork")
                }
            }
            _ => differs("fork"),
        }
    }

    fn inherit(&mut self, create: &Create, from: &ForkFrom) -> Result<Inheritance, Refusal> {
        if self.out_of_reach(&from.source, &create.actor.reach) {
            return Err(Refusal::SourceNotFound);
        }
        self.expire_if_due(&from.source);
        let Some(source) = self.state(&from.source) else { return Err(Refusal::SourceNotFound) };
        if source.soft_deleted {
            return Err(Refusal::SourceGone);
        }
        if let Some(given) = &create.content_type
            && !same_media_type(given, &source.content_type)
        {
            let expected = source.content_type.clone();
            return Err(Refusal::SourceContentTypeDiffers { expected });
        }
        if self.depth(source) >= FORK_DEPTH_MAX {
            return Err(Refusal::ForkTooDeep { max: FORK_DEPTH_MAX });
        }
        let tail = self.tail(source);
        let offset = from.offset.unwrap_or(tail);
        if offset > tail {
            return Err(Refusal::ForkBeyondTail { tail });
        }
        let (position, prefix) = self.cut(source, offset, from.sub_offset)?;
        Ok(Inheritance {
            content_type: source.content_type.clone(),
            lifetime: source.lifetime,
            fork: Fork {
                source: from.source.clone(),
                offset,
                sub_offset: from.sub_offset,
                position,
            },
            prefix,
        })
    }

    /// Resolves a sub-offset against the append that follows `offset`. JSON messages have positions
    /// of their own, so the fork simply starts further on; bytes are cut out and become the fork's
    /// first event.
    fn cut(
        &self,
        source: &StreamState,
        offset: Position,
        sub_offset: u64,
    ) -> Result<(Position, Option<Bytes>), Refusal> {
        if sub_offset == 0 {
            return Ok((offset, None));
        }
        let wanted = usize::try_from(sub_offset).unwrap_or(usize::MAX);
        if source.is_json() {
            let max = self.fork_append.len() as u64;
            let last = wanted.checked_sub(1).and_then(|index| self.fork_append.get(index));
            return last
                .map(|event| (event.position, None))
                .ok_or(Refusal::SubOffsetTooLarge { max });
        }
        let bytes = self.fork_append.first().map(|event| event.payload.clone()).unwrap_or_default();
        if wanted > bytes.len() {
            return Err(Refusal::SubOffsetTooLarge { max: bytes.len() as u64 });
        }
        Ok((offset, Some(bytes.slice(..wanted))))
    }

    /// How many forks lie between a stream and the stream that is none.
    fn depth(&self, state: &StreamState) -> usize {
        let mut depth = 0;
        let mut fork = state.fork.as_ref();
        while let Some(link) = fork {
            depth += 1;
            fork = self.state(&link.source).and_then(|source| source.fork.as_ref());
        }
        depth
    }

    fn make(&mut self, create: &Create, inheritance: Option<Inheritance>) -> Answer {
        let content_type = create
            .content_type
            .clone()
            .or_else(|| inheritance.as_ref().map(|from| from.content_type.clone()))
            .unwrap_or_else(|| DEFAULT_CONTENT_TYPE.to_owned());
        let lifetime = create
            .lifetime
            .or_else(|| inheritance.as_ref().map(|from| from.lifetime))
            .unwrap_or(Lifetime::Forever);
        let (fork, prefix) =
            inheritance.map_or((None, None), |from| (Some(from.fork), from.prefix));
        if let Some(fork) = &fork
            && let Some(source) = self.state_mut(&fork.source)
        {
            source.forks += 1;
            self.changed(&fork.source);
        }
        let created = self.push_control(&create.stream, Control::Create, &create.actor);
        let mut state = StreamState {
            name: create.stream.clone(),
            created,
            expires_at_ms: lifetime.expires_at_ms(self.now_ms),
            content_type,
            lifetime,
            closed: None,
            fork,
            forks: 0,
            soft_deleted: false,
            last_seq: None,
            host_id: create.actor.host_id.clone(),
            trimmed: Position::START,
        };
        let mut tail = state.inherited_tail();
        for messages in [prefix.as_slice(), &create.messages] {
            if !messages.is_empty() {
                let (stream, content_type) = (&create.stream, &state.content_type);
                tail = self.push_messages(stream, content_type, messages, &create.actor, None);
            }
        }
        if create.closed {
            self.push_control(&create.stream, Control::Close, &create.actor);
            state.closed = Some(Closed { position: tail, by: None });
        }
        self.put_stream(state.clone());
        Answer::Created { new: true, state: Box::new(state), tail }
    }
}
