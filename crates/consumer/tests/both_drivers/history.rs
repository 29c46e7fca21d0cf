//! Histories by a seed: what comes into the log, and what becomes of each event when it is handled.

use std::ops::Range;

use rand::Rng as _;
use rand::rngs::StdRng;

/// Hosts that there are: enough for every partition to have some.
const HOSTS: u32 = 10;
const USERS: [&str; 3] = ["ann", "bob", "cas"];
/// Bytes that make events differ in size.
const PAD: Range<usize> = 0..400;
/// Events of one source: no more than a transaction may have.
pub(crate) const SOURCE_EVENTS_MAX: usize = 6;

/// One event.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) host: String,
    pub(crate) user: &'static str,
    /// What becomes of it.
    pub(crate) what: &'static str,
    pub(crate) pad: usize,
}

/// What comes into the log at once.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// Messages of one host and user.
    Append(Vec<Row>),
    /// Rows of anyone.
    Transaction(Vec<Row>),
}

impl Source {
    pub(crate) fn into_rows(self) -> Vec<Row> {
        match self {
            Source::Append(rows) | Source::Transaction(rows) => rows,
        }
    }
}

/// How handling an event goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Well,
    Retry,
    Dead,
}

impl Fate {
    /// Of an event that says `what`, of a key that failed so often.
    pub(crate) fn of(what: &str, attempt: u32, redrive: bool) -> Fate {
        match what {
            "retry-1" if attempt < 1 => Fate::Retry,
            "retry-2" if attempt < 2 => Fate::Retry,
            // Mended by the time that letters are worked off.
            "poison" if !redrive => Fate::Retry,
            "dead" if !redrive => Fate::Dead,
            "stubborn" => Fate::Dead,
            _ => Fate::Well,
        }
    }

    pub(crate) fn error(self) -> &'static str {
        match self {
            Fate::Dead => "told to die",
            _ => "told to fail",
        }
    }
}

/// Events that become letters are among them.
pub(crate) const MIXED: &[&str] = &["retry-1", "retry-2", "poison", "dead"];
/// No event becomes a letter: beside letters that are worked off the drivers may only differ in when they say so.
pub(crate) const HEALING: &[&str] = &["retry-1", "retry-2"];

/// So many sources, with one event in eight that is not handled at once.
pub(crate) fn sources(rng: &mut StdRng, count: usize, fates: &[&'static str]) -> Vec<Source> {
    let row = |rng: &mut StdRng| Row {
        host: format!("host-{}", rng.random_range(0..HOSTS)),
        user: USERS[rng.random_range(0..USERS.len())],
        what: match rng.random_range(0..8) {
            0 => fates[rng.random_range(0..fates.len())],
            _ => "ok",
        },
        pad: rng.random_range(PAD),
    };
    let source = |_| {
        let mut rows: Vec<Row> =
            (0..rng.random_range(1..=SOURCE_EVENTS_MAX)).map(|_| row(rng)).collect();
        if rng.random_bool(0.5) {
            return Source::Transaction(rows);
        }
        let Row { host, user, .. } = rows[0].clone();
        rows.iter_mut().for_each(|row| (row.host, row.user) = (host.clone(), user));
        Source::Append(rows)
    };
    (0..count).map(source).collect()
}

/// An event of each of these hosts, all of them well.
pub(crate) fn plain(hosts: impl IntoIterator<Item = String>) -> Source {
    let row = |host| Row { host, user: "ann", what: "ok", pad: 0 };
    Source::Transaction(hosts.into_iter().map(row).collect())
}

/// Events of a user of which none is ever handled: the first dies again whenever it is tried.
pub(crate) fn stubborn(host: &str, count: usize) -> Source {
    let row = Row { host: host.to_owned(), user: "zoe", what: "stubborn", pad: 0 };
    Source::Append(vec![row; count])
}
