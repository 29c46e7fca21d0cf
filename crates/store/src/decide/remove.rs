//! Deleting and expiring streams, and releasing what they were forked from.

use super::LoadedState;
use super::loaded::Purge;
use crate::command::{Actor, Answer, Refusal};
use crate::event::Control;
use crate::stream::StreamState;

impl LoadedState {
    pub(super) fn delete(&mut self, stream: &str, actor: &Actor) -> Answer {
        if self.out_of_reach(stream, &actor.reach) {
            return Answer::Refused(Refusal::NotFound);
        }
        self.expire_if_due(stream);
        match self.state(stream) {
            None => Answer::Refused(Refusal::NotFound),
            Some(state) if state.soft_deleted => Answer::Refused(Refusal::Gone),
            Some(_) => {
                self.remove(stream, Control::Delete, actor);
                Answer::Done
            }
        }
    }

    pub(super) fn expire(&mut self, stream: &str) -> Answer {
        self.expire_if_due(stream);
        Answer::Done
    }

    /// Removes a stream whose time has run out, so that what follows does not find it.
    pub(super) fn expire_if_due(&mut self, stream: &str) {
        if self.state(stream).is_some_and(|state| state.expired(self.now_ms)) {
            self.remove(stream, Control::Expire, &Actor::default());
        }
    }

    /// Removes a stream; one with forks is only hidden, until the last fork goes.
    fn remove(&mut self, stream: &str, control: Control, actor: &Actor) {
        self.push_control(stream, control, actor);
        let Some(state) = self.state_mut(stream) else { return };
        if state.forks > 0 {
            state.soft_deleted = true;
            self.changed(stream);
        } else if let Some(removed) = self.remove_stream(stream) {
            self.collect(removed);
        }
    }

    /// Gives up a removed stream's events, and walks up its sources for as long as they were kept
    /// for it alone.
    fn collect(&mut self, removed: StreamState) {
        let mut next = Some(removed);
        while let Some(state) = next.take() {
            self.purge(Purge { stream: state.name, after: state.created, up_to: self.tip });
            let Some(fork) = state.fork else { return };
            let Some(source) = self.state_mut(&fork.source) else { return };
            source.forks = source.forks.saturating_sub(1);
            if source.soft_deleted && source.forks == 0 {
                next = self.remove_stream(&fork.source);
            } else {
                self.changed(&fork.source);
            }
        }
    }
}
