//! Commands for the log's writer, and its answers.
//!
//! Commands are decided one after the other under the offset lock, many to a commit. An answer is
//! given only when the commit that holds its effects is durable.

use std::sync::Arc;

use bytes::Bytes;

use crate::offset::Position;
use crate::stream::{Lifetime, ProducerStamp, StreamState};

/// Which tenants' streams someone may use. What is out of reach is, to them, not there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Reach {
    /// Those of all tenants, and of none.
    #[default]
    All,
    /// Those of some.
    Of {
        /// The tenants. Shared, because every command carries them.
        hosts: Arc<[String]>,
        /// Also those of no tenant.
        shared: bool,
    },
}

impl Reach {
    /// Whether it takes in the streams of a tenant, or of none.
    pub fn covers(&self, host: Option<&str>) -> bool {
        match (self, host) {
            (Reach::All, _) => true,
            (Reach::Of { shared, .. }, None) => *shared,
            (Reach::Of { hosts, .. }, Some(host)) => hosts.iter().any(|known| known == host),
        }
    }
}

/// Who does something, for the log's `host_id` and `user_id`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Actor {
    /// The tenant, to whom the streams they make belong.
    pub host_id: Option<String>,
    /// The user.
    pub user_id: Option<String>,
    /// Which streams they may use. Theirs should be among them.
    pub reach: Reach,
    /// On whose account they use what there are few of; none for the server's own work.
    pub account: Option<Arc<str>>,
}

/// Make a stream.
#[derive(Debug, Clone)]
pub struct Create {
    /// Its name.
    pub stream: String,
    /// The content type; a fork without one takes its source's.
    pub content_type: Option<String>,
    /// How long it lives; a fork without one takes its source's.
    pub lifetime: Option<Lifetime>,
    /// First content.
    pub messages: Vec<Bytes>,
    /// Closed from the start.
    pub closed: bool,
    /// Forked from another stream.
    pub fork: Option<ForkFrom>,
    /// Who makes it.
    pub actor: Actor,
}

/// Where a fork starts.
#[derive(Debug, Clone)]
pub struct ForkFrom {
    /// The stream to fork.
    pub source: String,
    /// After which position; the source's end if none.
    pub offset: Option<Position>,
    /// How many bytes (or JSON messages) of the append after it to take along.
    pub sub_offset: u64,
}

/// Append to a stream, close it, or both at once.
#[derive(Debug, Clone)]
pub struct Append {
    /// The stream's name.
    pub stream: String,
    /// The content type of the messages; must match the stream's. Not looked at by a bare close.
    pub content_type: Option<String>,
    /// One JSON value each, or one append's bytes. Empty only for a bare close.
    pub messages: Vec<Bytes>,
    /// Close the stream with this append.
    pub close: bool,
    /// `Stream-Seq`: must rise strictly, compared bytewise.
    pub seq: Option<String>,
    /// The idempotent producer's stamp.
    pub producer: Option<ProducerStamp>,
    /// Who appends.
    pub actor: Actor,
    /// W3C trace context, kept with the events.
    pub trace_context: Option<String>,
}

/// One thing to do.
#[derive(Debug, Clone)]
pub enum Command {
    /// Make a stream.
    Create(Box<Create>),
    /// Append to a stream.
    Append(Append),
    /// Delete a stream.
    Delete {
        /// The stream's name.
        stream: String,
        /// Who deletes it.
        actor: Actor,
    },
    /// Note a read of a stream whose lifetime slides.
    Touch {
        /// The stream's name.
        stream: String,
    },
    /// Remove a stream if its time has run out.
    Expire {
        /// The stream's name.
        stream: String,
    },
}

impl Command {
    /// The stream it is about.
    pub fn stream(&self) -> &str {
        match self {
            Command::Create(create) => &create.stream,
            Command::Append(append) => &append.stream,
            Command::Delete { stream, .. }
            | Command::Touch { stream }
            | Command::Expire { stream } => stream,
        }
    }

    /// Whether it must be the only command of its commit: a fork reads the log to find its place,
    /// and must see every event before it there.
    pub(crate) fn stands_alone(&self) -> bool {
        matches!(self, Command::Create(create) if create.fork.is_some())
    }

    /// Bytes of payload it carries, by which the size of a commit is bounded.
    pub fn payload_bytes(&self) -> usize {
        let messages = match self {
            Command::Create(create) => &create.messages,
            Command::Append(append) => &append.messages,
            _ => return 0,
        };
        messages.iter().map(Bytes::len).sum()
    }
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The stream is there: made, or found with the same configuration.
    Created {
        /// False if it existed already.
        new: bool,
        /// The stream as it is.
        state: Box<StreamState>,
        /// Its end.
        tail: Position,
    },
    /// The messages are in the log, and the stream is closed if that was asked.
    Appended {
        /// The stream's end after it.
        tail: Position,
        /// Whether the stream is closed.
        closed: bool,
    },
    /// An idempotent producer's append that was there already.
    Duplicate {
        /// The stream's end after the producer's last append.
        tail: Position,
        /// The highest sequence number accepted from the producer.
        seq: u64,
        /// Whether the stream is closed.
        closed: bool,
    },
    /// Deleted, touched or expired.
    Done,
    /// Not done, for a reason in the protocol.
    Refused(Refusal),
}

/// Why a command was not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// No such stream, or none within reach.
    NotFound,
    /// Deleted, but kept for its forks.
    Gone,
    /// The name belongs to a deleted stream that still has forks.
    NameHeldByForks,
    /// The name belongs to a stream out of reach, of which nothing is told.
    NameTaken,
    /// A stream of this name exists with another configuration.
    ConfigurationDiffers {
        /// Which setting differs.
        what: &'static str,
    },
    /// The stream is closed.
    Closed {
        /// Its final end.
        tail: Position,
    },
    /// The content type is not the stream's.
    ContentTypeDiffers {
        /// The stream's content type.
        expected: String,
    },
    /// `Stream-Seq` did not rise.
    SeqNotRising {
        /// The highest accepted.
        last: String,
    },
    /// The producer's epoch is behind.
    StaleEpoch {
        /// The epoch that holds.
        current: u64,
    },
    /// A new producer epoch must start at sequence number 0.
    EpochStartsAtZero,
    /// The producer skipped a sequence number.
    SeqGap {
        /// The number that must come next.
        expected: u64,
        /// The number that came.
        received: u64,
    },
    /// The fork's source does not exist, or not within reach.
    SourceNotFound,
    /// The fork's source is deleted and kept for other forks only.
    SourceGone,
    /// The fork's content type is not its source's.
    SourceContentTypeDiffers {
        /// The source's content type.
        expected: String,
    },
    /// The fork's offset lies past the source's end.
    ForkBeyondTail {
        /// The source's end.
        tail: Position,
    },
    /// The sub-offset reaches past the append after the fork's offset.
    SubOffsetTooLarge {
        /// The largest that fits there.
        max: u64,
    },
    /// The chain of forks would be longer than allowed.
    ForkTooDeep {
        /// How long it may be.
        max: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reach_covers_the_tenants_it_names() {
        let of = |hosts: &[&str], shared| Reach::Of {
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            shared,
        };
        for (reach, covered) in [
            (Reach::All, [true, true, true]),
            (of(&["a", "b"], true), [true, true, true]),
            (of(&["a"], true), [true, true, false]),
            (of(&["a"], false), [false, true, false]),
            (of(&[], true), [true, false, false]),
            (of(&[], false), [false, false, false]),
            (of(&["", "A", "a "], false), [false, false, false]),
        ] {
            let covers = [None, Some("a"), Some("b")].map(|host| reach.covers(host));
            assert_eq!(covers, covered, "{reach:?} of none, a and b");
        }
        assert_eq!(Reach::default(), Reach::All);
    }
}
