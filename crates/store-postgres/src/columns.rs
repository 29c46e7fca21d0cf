//! What is to be saved, by column: `unnest` takes one array for each, so that a statement writes
//! any number of rows.

use super::query::Param;
use tidewire_store::decide::Plan;
use tidewire_store::error::StoreError;
use tidewire_store::event::Control;
use tidewire_store::stream::Lifetime;

/// A number as both databases keep it.
pub(crate) fn signed(number: u64) -> Result<i64, StoreError> {
    i64::try_from(number).map_err(|_| StoreError::Broken {
        operation: "write to the log",
        reason: format!("the number {number} does not fit the database's integers"),
    })
}

/// New events.
#[derive(Default)]
pub(crate) struct Events<'a> {
    positions: Vec<i64>,
    streams: Vec<&'a str>,
    append_ids: Vec<i64>,
    hosts: Vec<Option<&'a str>>,
    users: Vec<Option<&'a str>>,
    payloads: Vec<Option<&'a [u8]>>,
    content_types: Vec<Option<&'a str>>,
    controls: Vec<Option<&'a str>>,
    tx_lasts: Vec<bool>,
    trace_contexts: Vec<Option<&'a str>>,
}

impl<'a> Events<'a> {
    pub(crate) fn of(plan: &'a Plan) -> Events<'a> {
        let mut columns = Events::default();
        for event in &plan.events {
            columns.positions.push(event.position.to_sql());
            columns.streams.push(&event.stream);
            columns.append_ids.push(event.append_id.to_sql());
            columns.hosts.push(event.actor.host_id.as_deref());
            columns.users.push(event.actor.user_id.as_deref());
            columns.payloads.push(event.payload.as_deref());
            columns.content_types.push(event.content_type.as_deref());
            columns.controls.push(event.control.map(Control::as_str));
            columns.tx_lasts.push(event.tx_last);
            columns.trace_contexts.push(event.trace_context.as_deref());
        }
        columns
    }

    /// For `events_insert.sql`.
    pub(crate) fn params<'b>(&'b self, now_ms: &'b i64) -> [Param<'b>; 11] {
        [
            &self.positions,
            &self.streams,
            &self.append_ids,
            &self.hosts,
            &self.users,
            &self.payloads,
            &self.content_types,
            &self.controls,
            &self.tx_lasts,
            &self.trace_contexts,
            now_ms,
        ]
    }
}

/// New events that were staged in users' transactions.
pub(crate) struct Captured<'a> {
    events: Events<'a>,
    txids: Vec<i64>,
    entity_codes: Vec<Option<&'a str>>,
    entity_ids: Vec<Option<&'a str>>,
    entity_actions: Vec<Option<&'a str>>,
    /// Of documents: what is about streams has no number.
    outbox_ids: Vec<Option<i64>>,
}

/// Where an event comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    /// Its transaction.
    pub(crate) txid: i64,
    /// Whether it is the last of it.
    pub(crate) tx_last: bool,
    /// The staged row that it comes of.
    pub(crate) staged_id: i64,
}

impl<'a> Captured<'a> {
    /// `origins` has each event's.
    pub(crate) fn of(plan: &'a Plan, origins: &[Origin]) -> Captured<'a> {
        let mut events = Events::of(plan);
        events.tx_lasts = origins.iter().map(|origin| origin.tx_last).collect();
        let documents = plan.events.iter().map(|event| event.control.is_none());
        let entities = || plan.events.iter().map(|event| event.entity.as_ref());
        Captured {
            events,
            txids: origins.iter().map(|origin| origin.txid).collect(),
            entity_codes: entities().map(|entity| Some(entity?.code.as_str())).collect(),
            entity_ids: entities().map(|entity| entity?.id.as_deref()).collect(),
            entity_actions: entities().map(|entity| Some(entity?.action.as_str())).collect(),
            outbox_ids: documents
                .zip(origins)
                .map(|(is_document, origin)| is_document.then_some(origin.staged_id))
                .collect(),
        }
    }

    /// For `captured_insert.sql`.
    pub(crate) fn params<'b>(&'b self, now_ms: &'b i64) -> [Param<'b>; 16] {
        let [a, b, c, d, e, f, g, h, i, j, now_ms] = self.events.params(now_ms);
        let (codes, ids, actions) = (&self.entity_codes, &self.entity_ids, &self.entity_actions);
        let (txids, outbox_ids) = (&self.txids, &self.outbox_ids);
        [a, b, c, d, e, f, g, h, i, j, txids, codes, ids, actions, outbox_ids, now_ms]
    }
}

/// Streams' rows.
#[derive(Default)]
pub(crate) struct Streams<'a> {
    names: Vec<&'a str>,
    created: Vec<i64>,
    content_types: Vec<&'a str>,
    ttls_s: Vec<Option<i64>>,
    expires_fixed_ms: Vec<Option<i64>>,
    expires_at_ms: Vec<Option<i64>>,
    closed: Vec<Option<i64>>,
    closed_by_ids: Vec<Option<&'a str>>,
    closed_by_epochs: Vec<Option<i64>>,
    closed_by_seqs: Vec<Option<i64>>,
    fork_sources: Vec<Option<&'a str>>,
    fork_offsets: Vec<Option<i64>>,
    fork_sub_offsets: Vec<Option<i64>>,
    fork_positions: Vec<Option<i64>>,
    forks: Vec<i64>,
    soft_deleted: Vec<bool>,
    last_seqs: Vec<Option<&'a str>>,
    hosts: Vec<Option<&'a str>>,
}

impl<'a> Streams<'a> {
    pub(crate) fn of(plan: &'a Plan) -> Result<Streams<'a>, StoreError> {
        let mut columns = Streams::default();
        for state in &plan.streams {
            let (ttl_s, fixed_ms) = match state.lifetime {
                Lifetime::Forever => (None, None),
                Lifetime::Sliding { ttl_s } => (Some(signed(ttl_s)?), None),
                Lifetime::Until { at_ms } => (None, Some(at_ms)),
            };
            let closed = state.closed.as_ref();
            let by = closed.and_then(|closed| closed.by.as_ref());
            let fork = state.fork.as_ref();
            columns.names.push(&state.name);
            columns.created.push(state.created.to_sql());
            columns.content_types.push(&state.content_type);
            columns.ttls_s.push(ttl_s);
            columns.expires_fixed_ms.push(fixed_ms);
            columns.expires_at_ms.push(state.expires_at_ms);
            columns.closed.push(closed.map(|closed| closed.position.to_sql()));
            columns.closed_by_ids.push(by.map(|by| by.id.as_str()));
            columns.closed_by_epochs.push(by.map(|by| signed(by.epoch)).transpose()?);
            columns.closed_by_seqs.push(by.map(|by| signed(by.seq)).transpose()?);
            columns.fork_sources.push(fork.map(|fork| fork.source.as_str()));
            columns.fork_offsets.push(fork.map(|fork| fork.offset.to_sql()));
            columns.fork_sub_offsets.push(fork.map(|f| signed(f.sub_offset)).transpose()?);
            columns.fork_positions.push(fork.map(|fork| fork.position.to_sql()));
            columns.forks.push(i64::from(state.forks));
            columns.soft_deleted.push(state.soft_deleted);
            columns.last_seqs.push(state.last_seq.as_deref());
            columns.hosts.push(state.host_id.as_deref());
        }
        Ok(columns)
    }

    /// For `streams_save.sql`.
    pub(crate) fn params(&self) -> [Param<'_>; 18] {
        [
            &self.names,
            &self.created,
            &self.content_types,
            &self.ttls_s,
            &self.expires_fixed_ms,
            &self.expires_at_ms,
            &self.closed,
            &self.closed_by_ids,
            &self.closed_by_epochs,
            &self.closed_by_seqs,
            &self.fork_sources,
            &self.fork_offsets,
            &self.fork_sub_offsets,
            &self.fork_positions,
            &self.forks,
            &self.soft_deleted,
            &self.last_seqs,
            &self.hosts,
        ]
    }
}

/// Producers' last appends.
#[derive(Default)]
pub(crate) struct Producers<'a> {
    streams: Vec<&'a str>,
    ids: Vec<&'a str>,
    epochs: Vec<i64>,
    seqs: Vec<i64>,
    positions: Vec<i64>,
}

impl<'a> Producers<'a> {
    pub(crate) fn of(plan: &'a Plan) -> Result<Producers<'a>, StoreError> {
        let mut columns = Producers::default();
        for (stream, id, state) in &plan.producers {
            columns.streams.push(stream);
            columns.ids.push(id);
            columns.epochs.push(signed(state.epoch)?);
            columns.seqs.push(signed(state.seq)?);
            columns.positions.push(state.position.to_sql());
        }
        Ok(columns)
    }

    /// For `producers_save.sql`.
    pub(crate) fn params(&self) -> [Param<'_>; 5] {
        [&self.streams, &self.ids, &self.epochs, &self.seqs, &self.positions]
    }
}

/// Events to be removed later.
#[derive(Default)]
pub(crate) struct Purges<'a> {
    streams: Vec<&'a str>,
    afters: Vec<i64>,
    up_tos: Vec<i64>,
}

impl<'a> Purges<'a> {
    pub(crate) fn of(plan: &'a Plan) -> Purges<'a> {
        let mut columns = Purges::default();
        for purge in &plan.purges {
            columns.streams.push(&purge.stream);
            columns.afters.push(purge.after.to_sql());
            columns.up_tos.push(purge.up_to.to_sql());
        }
        columns
    }

    /// For `purges_add.sql`.
    pub(crate) fn params<'b>(&'b self, due_at_ms: &'b i64) -> [Param<'b>; 4] {
        [&self.streams, &self.afters, &self.up_tos, due_at_ms]
    }
}
