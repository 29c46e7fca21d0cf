//! Appending and closing.

use super::LoadedState;
use crate::command::{Answer, Append, Refusal};
use crate::event::Control;
use crate::offset::Position;
use crate::stream::{Closed, ProducerStamp, ProducerState, StreamState, same_media_type};

/// What a producer's stamp means for its append.
enum Stamp {
    /// Not seen before.
    Fresh,
    /// Accepted before; the state tells what was accepted last.
    Seen(ProducerState),
    /// Not acceptable.
    Bad(Refusal),
}

impl LoadedState {
    pub(super) fn append(&mut self, append: &Append) -> Answer {
        let (content_type, closed) = match self.admit(append) {
            Ok(admitted) => admitted,
            Err(answer) => return answer,
        };
        if closed {
            // A bare close of a closed stream changes nothing.
            let tail = self.state(&append.stream).map_or(Position::START, |state| self.tail(state));
            return Answer::Appended { tail, closed: true };
        }
        let tail = if append.messages.is_empty() {
            self.state(&append.stream).map_or(Position::START, |state| self.tail(state))
        } else {
            self.push_messages(
                &append.stream,
                &content_type,
                &append.messages,
                &append.actor,
                append.trace_context.as_ref(),
            )
        };
        self.note(append, tail);
        self.renew(&append.stream);
        Answer::Appended { tail, closed: append.close }
    }

    /// Checks an append in the protocol's order: reach, existence, producer fencing, closed, content
    /// type, producer sequence, `Stream-Seq`. Returns the stream's content type, and whether it is closed
    /// already and was only asked to be.
    fn admit(&mut self, append: &Append) -> Result<(String, bool), Answer> {
        let refused = |refusal| Err(Answer::Refused(refusal));
        if self.out_of_reach(&append.stream, &append.actor.reach) {
            return refused(Refusal::NotFound);
        }
        self.expire_if_due(&append.stream);
        let Some(state) = self.state(&append.stream) else { return refused(Refusal::NotFound) };
        if state.soft_deleted {
            return refused(Refusal::Gone);
        }
        let stamp = append.producer.as_ref().map(|stamp| self.stamp(&append.stream, stamp));
        if let Some(closed) = &state.closed {
            return self.admit_to_closed(append, closed, stamp);
        }
        let bare_close = append.messages.is_empty();
        if !bare_close
            && !append
                .content_type
                .as_deref()
                .is_some_and(|t| same_media_type(t, &state.content_type))
        {
            return refused(Refusal::ContentTypeDiffers { expected: state.content_type.clone() });
        }
        match stamp {
            Some(Stamp::Bad(refusal)) => return refused(refusal),
            // A duplicate is answered before Stream-Seq is looked at: a retry carries the same one.
            Some(Stamp::Seen(last)) => {
                return Err(Answer::Duplicate {
                    tail: last.position,
                    seq: last.seq,
                    closed: false,
                });
            }
            Some(Stamp::Fresh) | None => {}
        }
        if let (Some(seq), Some(last)) = (&append.seq, &state.last_seq)
            && seq.as_bytes() <= last.as_bytes()
        {
            return refused(Refusal::SeqNotRising { last: last.clone() });
        }
        Ok((state.content_type.clone(), false))
    }

    /// A closed stream takes nothing more, but fences zombies and forgives retries.
    fn admit_to_closed(
        &self,
        append: &Append,
        closed: &Closed,
        stamp: Option<Stamp>,
    ) -> Result<(String, bool), Answer> {
        if let Some(Stamp::Bad(refusal @ Refusal::StaleEpoch { .. })) = stamp {
            return Err(Answer::Refused(refusal));
        }
        if let (Some(by), Some(stamp)) = (&closed.by, &append.producer)
            && by == stamp
        {
            return Err(Answer::Duplicate { tail: closed.position, seq: stamp.seq, closed: true });
        }
        if append.messages.is_empty() && append.producer.is_none() {
            return Ok((String::new(), true));
        }
        Err(Answer::Refused(Refusal::Closed { tail: closed.position }))
    }

    fn stamp(&self, stream: &str, stamp: &ProducerStamp) -> Stamp {
        let key = (stream.to_owned(), stamp.id.clone());
        let Some(last) = self.producers.get(&key).copied().flatten() else {
            return match stamp.seq {
                0 => Stamp::Fresh,
                received => Stamp::Bad(Refusal::SeqGap { expected: 0, received }),
            };
        };
        if stamp.epoch < last.epoch {
            return Stamp::Bad(Refusal::StaleEpoch { current: last.epoch });
        }
        if stamp.epoch > last.epoch {
            return match stamp.seq {
                0 => Stamp::Fresh,
                _ => Stamp::Bad(Refusal::EpochStartsAtZero),
            };
        }
        if stamp.seq <= last.seq {
            Stamp::Seen(last)
        } else if stamp.seq == last.seq + 1 {
            Stamp::Fresh
        } else {
            Stamp::Bad(Refusal::SeqGap { expected: last.seq + 1, received: stamp.seq })
        }
    }

    /// Records what an accepted append leaves behind besides its events.
    fn note(&mut self, append: &Append, tail: Position) {
        if let Some(stamp) = &append.producer {
            let state = ProducerState { epoch: stamp.epoch, seq: stamp.seq, position: tail };
            self.put_producer(&append.stream, &stamp.id, state);
        }
        if append.close {
            self.push_control(&append.stream, Control::Close, &append.actor);
        }
        if append.seq.is_none() && !append.close {
            return;
        }
        if let Some(state) = self.state_mut(&append.stream) {
            note_in_row(state, append, tail);
            self.changed(&append.stream);
        }
    }
}

fn note_in_row(state: &mut StreamState, append: &Append, tail: Position) {
    if append.seq.is_some() {
        state.last_seq.clone_from(&append.seq);
    }
    if append.close {
        state.closed = Some(Closed { position: tail, by: append.producer.clone() });
    }
}
