//! Deciding commands: the protocol's rules, as pure code.
//!
//! A store's writer loads what a batch of commands needs into a [`LoadedState`], lets [`decide`] work out
//! the answers, and saves the [`Plan`]. No clock, no database: both stores give the same answers
//! because both ask the same code.
//!
//! - `append`: appending and closing
//! - `create`: creating streams and forks
//! - `cut`: collecting the append that a fork's sub-offset cuts through
//! - `remove`: deleting and expiring streams, and releasing what they were forked from
//! - `staged`: deciding what was staged in a user's transaction
//! - `transaction`: deciding what a transaction of the user's brings into the log
//! - `loaded`: what commands are decided against, and what comes of it

mod append;
mod create;
mod cut;
mod loaded;
mod remove;
mod staged;
mod transaction;

pub use cut::CutAppend;
pub use loaded::{LoadedState, NewEvent, Plan, Purge};
pub use staged::Staged;
pub use staged::{decide_staged, plan_of_staged};
pub use transaction::{
    TransactionStep, Unpublished, commands_of, decide_transaction, invalidation, json_stream,
    publication,
};

use crate::command::{Actor, Answer, Append, Command};
use crate::event::Control;
use crate::subscription::Change;

/// How long a chain of forks may be. Reading a fork walks its chain, so the chain bounds the cost
/// of a read.
pub const FORK_DEPTH_MAX: usize = 32;

/// Decides commands in order. Every later command sees the effects of the earlier ones.
pub fn decide(mut loaded: LoadedState, commands: &[Command]) -> Plan {
    let mut answers = Vec::with_capacity(commands.len());
    for command in commands {
        answers.push(match command {
            Command::Create(create) => loaded.create(create),
            Command::Append(append) => loaded.append(append),
            Command::Delete { stream, actor } => loaded.delete(stream, actor),
            Command::Touch { stream } => loaded.touch(stream),
            Command::Expire { stream } => loaded.expire(stream),
        });
    }
    loaded.into_plan(answers)
}

/// The command that announces a subscription's wake, for loading the state it is decided in.
pub fn announcement(change: &Change) -> Vec<Command> {
    let announce = change.announce.as_ref().map(|announce| {
        Command::Append(Append {
            stream: announce.wake_stream.clone(),
            content_type: None,
            messages: vec![announce.event.clone().into()],
            close: false,
            seq: None,
            producer: None,
            actor: Actor::default(),
            trace_context: None,
        })
    });
    announce.into_iter().collect()
}

/// Decides the events that a change to a subscription brings: nodes are told when its streams
/// changed, and a wake is announced in its wake stream, whatever that stream's content type. The
/// application owns the wake stream: if it is missing or closed, the wake stands unannounced.
pub fn decide_change(
    mut loaded: LoadedState,
    id: &str,
    change: &Change,
    announcement: Vec<Command>,
) -> Plan {
    if change.interest_changed {
        let name = format!("__ds/subscriptions/{id}");
        loaded.push_control(&name, Control::Subscription, &Actor::default());
    }
    let mut answers = Vec::new();
    for command in announcement {
        if let Command::Append(mut append) = command {
            append.content_type = loaded.state(&append.stream).map(|s| s.content_type.clone());
            let answer = loaded.append(&append);
            if let Answer::Refused(refusal) = &answer {
                let stream = &append.stream;
                tracing::warn!(subscription = id, stream, ?refusal, "a wake was not announced");
            }
            answers.push(answer);
        }
    }
    loaded.into_plan(answers)
}

impl LoadedState {
    fn touch(&mut self, stream: &str) -> Answer {
        self.renew(stream);
        Answer::Done
    }

    /// Moves the end of a sliding lifetime, if it would move enough to be worth a write.
    fn renew(&mut self, stream: &str) {
        let now_ms = self.now_ms;
        let Some(state) = self.live_mut(stream) else { return };
        if state.renewal_due(now_ms) {
            state.expires_at_ms = state.lifetime.expires_at_ms(now_ms);
            self.changed(stream);
        }
    }
}

#[cfg(test)]
mod tests;
