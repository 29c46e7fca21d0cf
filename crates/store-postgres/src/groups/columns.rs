//! What is to be written of letters and keys, by column: `unnest` takes one array for each.

use std::collections::BTreeMap;

use super::super::query::Param;
use tidewire_store::groups::{Failure, GroupEvent, Key, Letter, LetterState, kept_error};
use tidewire_store::offset::Position;

/// New letters.
#[derive(Default)]
pub(super) struct LetterColumns<'a> {
    positions: Vec<i64>,
    keys: Vec<Vec<u8>>,
    states: Vec<&'static str>,
    errors: Vec<Option<String>>,
    attempts: Vec<i32>,
    streams: Vec<&'a str>,
    append_ids: Vec<i64>,
    hosts: Vec<Option<&'a str>>,
    users: Vec<Option<&'a str>>,
    tables: Vec<Option<&'a str>>,
    operations: Vec<Option<&'static str>>,
    entity_codes: Vec<Option<&'a str>>,
    entity_ids: Vec<Option<&'a str>>,
    befores: Vec<Option<&'a str>>,
    afters: Vec<Option<&'a str>>,
    payloads: Vec<Option<&'a [u8]>>,
    content_types: Vec<Option<&'a str>>,
    txids: Vec<Option<i64>>,
    tx_lasts: Vec<bool>,
    trace_contexts: Vec<Option<&'a str>>,
    created_ms: Vec<i64>,
}

impl<'a> LetterColumns<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// An event that could not be handled.
    pub(super) fn dead(&mut self, letter: &'a Letter) {
        let error = Some(kept_error(&letter.error));
        self.push(&letter.event, LetterState::Dead, error, letter.attempts);
    }

    /// An event behind one of those.
    pub(super) fn parked(&mut self, event: &'a GroupEvent) {
        self.push(event, LetterState::Parked, None, 0);
    }

    fn push(
        &mut self,
        event: &'a GroupEvent,
        state: LetterState,
        error: Option<String>,
        attempts: u32,
    ) {
        let position = event.position.to_sql();
        // A row is written once by a statement; the first word about it stands.
        if self.positions.contains(&position) {
            return;
        }
        let change = event.change.as_deref();
        // The database wrote the images, so they are text.
        let image = |image: Option<&'a bytes::Bytes>| {
            image.and_then(|image| std::str::from_utf8(image).ok())
        };
        self.positions.push(position);
        self.keys.push(event.key().hash().to_vec());
        self.states.push(state.as_str());
        self.errors.push(error);
        self.attempts.push(i32::try_from(attempts).unwrap_or(i32::MAX));
        self.streams.push(&event.stream);
        self.append_ids.push(event.append_id.to_sql());
        self.hosts.push(event.host_id.as_deref());
        self.users.push(event.user_id.as_deref());
        self.tables.push(change.map(|change| change.table.as_str()));
        self.operations.push(change.map(|change| change.operation.as_str()));
        self.entity_codes.push(change.and_then(|change| change.entity_code.as_deref()));
        self.entity_ids.push(change.and_then(|change| change.entity_id.as_deref()));
        self.befores.push(image(change.and_then(|change| change.before.as_ref())));
        self.afters.push(image(change.and_then(|change| change.after.as_ref())));
        self.payloads.push(event.payload.as_deref());
        self.content_types.push(event.content_type.as_deref());
        self.txids.push(event.txid);
        self.tx_lasts.push(event.tx_last);
        self.trace_contexts.push(event.trace_context.as_deref());
        self.created_ms.push(event.created_at_ms);
    }

    /// For `letters_insert.sql`.
    pub(super) fn params<'b>(&'b self, group: &'b &str, partition: &'b i32) -> [Param<'b>; 23] {
        [
            group,
            partition,
            &self.positions,
            &self.keys,
            &self.states,
            &self.errors,
            &self.attempts,
            &self.streams,
            &self.append_ids,
            &self.hosts,
            &self.users,
            &self.tables,
            &self.operations,
            &self.entity_codes,
            &self.entity_ids,
            &self.befores,
            &self.afters,
            &self.payloads,
            &self.content_types,
            &self.txids,
            &self.tx_lasts,
            &self.trace_contexts,
            &self.created_ms,
        ]
    }
}

/// Keys, each once, with a position of each.
#[derive(Default)]
pub(super) struct KeyColumns<'a> {
    hashes: Vec<Vec<u8>>,
    hosts: Vec<&'a str>,
    users: Vec<&'a str>,
    positions: Vec<i64>,
}

impl<'a> KeyColumns<'a> {
    /// Of a key that is named twice the lower position counts.
    pub(super) fn of(keys: impl IntoIterator<Item = (&'a Key, Position)>) -> KeyColumns<'a> {
        let mut positions: BTreeMap<&Key, Position> = BTreeMap::new();
        for (key, position) in keys {
            let known = positions.entry(key).or_insert(position);
            *known = position.min(*known);
        }
        let mut columns = KeyColumns::default();
        for (key, position) in positions {
            columns.hashes.push(key.hash().to_vec());
            columns.hosts.push(&key.host);
            columns.users.push(&key.user);
            columns.positions.push(position.to_sql());
        }
        columns
    }

    pub(super) fn hashes(&self) -> &Vec<Vec<u8>> {
        &self.hashes
    }

    /// For `parked_add.sql`.
    pub(super) fn params<'b>(&'b self, group: &'b &str, partition: &'b i32) -> [Param<'b>; 6] {
        [group, partition, &self.hashes, &self.hosts, &self.users, &self.positions]
    }
}

/// Failed runs, of each key once.
pub(super) struct FailureColumns<'a> {
    keys: KeyColumns<'a>,
    verdicts: Vec<&'static str>,
    errors: Vec<String>,
}

impl<'a> FailureColumns<'a> {
    /// Of a key that failed twice the last word counts.
    pub(super) fn of(failures: &'a [Failure]) -> FailureColumns<'a> {
        let by_key: BTreeMap<&Key, &Failure> =
            failures.iter().map(|failure| (&failure.key, failure)).collect();
        FailureColumns {
            keys: KeyColumns::of(by_key.iter().map(|(key, failure)| (*key, failure.first))),
            verdicts: by_key.values().map(|failure| failure.verdict.as_str()).collect(),
            errors: by_key.values().map(|failure| kept_error(&failure.error)).collect(),
        }
    }

    /// For `attempts_note.sql`.
    pub(super) fn params<'b>(&'b self, group: &'b &str, partition: &'b i32) -> [Param<'b>; 8] {
        let [group, partition, hashes, hosts, users, positions] =
            self.keys.params(group, partition);
        [group, partition, hashes, hosts, users, positions, &self.verdicts, &self.errors]
    }
}
