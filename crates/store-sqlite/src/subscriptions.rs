//! Subscriptions and shared secrets.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::cache::StreamCache;
use super::error::{broken, now_ms};
use super::load::LogSnapshot;
use super::writer::Writer;
use super::{save, sql};
use tidewire_store::decide::{announcement, decide_change};
use tidewire_store::error::StoreError;
use tidewire_store::offset::Position;
use tidewire_store::source;
use tidewire_store::subscription::{
    Change, Config, Context, Ends, Interest, Kind, Link, Op, Reply, Subscription, Wake, apply,
    snapshot_from_json, snapshot_to_json,
};

/// A subscription with its streams and their ends.
pub(crate) fn load(connection: &Connection, id: &str) -> Result<Option<Subscription>, StoreError> {
    Ok(load_all(connection, id)?.map(|(subscription, _)| subscription))
}

/// A subscription, and the names of streams that are linked to it though they are gone.
fn load_all(
    connection: &Connection,
    id: &str,
) -> Result<Option<(Subscription, BTreeSet<String>)>, StoreError> {
    let failed = broken("read a subscription");
    let row = connection
        .prepare_cached(sql!("subscription"))
        .and_then(|mut query| query.query_row([id], |row| of_row(id, row)).optional())
        .map_err(&failed)?;
    let Some(mut subscription) = row else { return Ok(None) };
    let mut gone = BTreeSet::new();
    let mut query = connection.prepare_cached(sql!("subscription_links")).map_err(&failed)?;
    let mut rows = query.query([id]).map_err(&failed)?;
    while let Some(row) = rows.next().map_err(&failed)? {
        let (name, link, exists) = link_of_row(row).map_err(&failed)?;
        if !subscription.put_link(&name, link, exists) {
            gone.insert(name);
        }
    }
    Ok(Some((subscription, gone)))
}

/// Applies an operation and saves what changed, in one commit.
pub(crate) fn change(writer: &mut Writer, id: &str, op: &Op) -> Result<Reply, StoreError> {
    let commit = |transaction: &Transaction<'_>, streams: &mut StreamCache, now_ms: i64| {
        let loaded = load_all(transaction, id)?;
        let (current, gone) = loaded.map_or((None, BTreeSet::new()), |(s, gone)| (Some(s), gone));
        let linked: BTreeSet<String> = current
            .iter()
            .flat_map(|subscription| subscription.links.keys().cloned())
            .chain(gone)
            .collect();
        let mut rows = LogSnapshot::new(transaction, now_ms);
        let Ends { tails, starts } = source::ends(&mut rows, op)?;
        let context =
            Context { now_ms, wake_id: uuid::Uuid::now_v7().simple().to_string(), tails, starts };
        let change = apply(id, current, op, &context);
        save_change(transaction, id, &change, &linked).map_err(broken("save a subscription"))?;
        let commands = announcement(&change);
        let loaded =
            source::load(&mut LogSnapshot::cached(transaction, streams, now_ms), &commands)?;
        let plan = decide_change(loaded, id, &change, commands);
        save::plan(transaction, &plan, now_ms)?;
        Ok((change.reply, plan))
    };
    writer.commit(commit).map(|(reply, _)| reply)
}

fn save_change(
    transaction: &Transaction<'_>,
    id: &str,
    change: &Change,
    linked: &BTreeSet<String>,
) -> rusqlite::Result<()> {
    let subscription = match &change.save {
        None => return Ok(()),
        Some(None) => {
            transaction.prepare_cached(sql!("subscription_remove"))?.execute([id])?;
            return Ok(());
        }
        Some(Some(subscription)) => subscription,
    };
    save_row(transaction, subscription)?;
    for name in linked.iter().filter(|name| !subscription.links.contains_key(*name)) {
        transaction.prepare_cached(sql!("subscription_link_remove"))?.execute([id, name])?;
    }
    let mut save = transaction.prepare_cached(sql!("subscription_link_save"))?;
    for (name, link) in &subscription.links {
        save.execute(params![id, name, link.explicit, link.by_pattern, link.acked.to_sql()])?;
    }
    Ok(())
}

fn save_row(transaction: &Transaction<'_>, subscription: &Subscription) -> rusqlite::Result<()> {
    let config = &subscription.config;
    let (url, wake_stream) = match &config.kind {
        Kind::Webhook { url } => (Some(url), None),
        Kind::PullWake { wake_stream } => (None, Some(wake_stream)),
    };
    let wake = subscription.wake.as_ref();
    transaction.prepare_cached(sql!("subscription_save"))?.execute(params![
        subscription.id,
        url,
        wake_stream,
        config.pattern,
        serde_json::json!(config.streams).to_string(),
        config.lease_ttl_ms,
        config.description,
        subscription.created_at_ms,
        subscription.generation,
        wake.map(|wake| &wake.id),
        wake.map(|wake| snapshot_to_json(&wake.snapshot).to_string()),
        wake.and_then(|wake| wake.holder.as_ref()),
        wake.and_then(|wake| wake.lease_until_ms),
        subscription.retry_count,
        subscription.next_attempt_at_ms
    ])?;
    Ok(())
}

/// Ids of subscriptions with a delivery or a lease that is due.
pub(crate) fn due(connection: &Connection, limit: usize) -> Result<Vec<String>, StoreError> {
    let read = || -> rusqlite::Result<Vec<String>> {
        let mut query = connection.prepare_cached(sql!("subscriptions_due"))?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        query.query_map((now_ms(), limit), |row| row.get(0))?.collect()
    };
    read().map_err(broken("find due subscriptions"))
}

/// What all subscriptions are interested in.
pub(crate) fn interests(connection: &Connection) -> Result<Vec<Interest>, StoreError> {
    let read = || -> rusqlite::Result<Vec<Interest>> {
        let mut query = connection.prepare_cached(sql!("interests"))?;
        let of_row = |row: &Row<'_>| {
            let streams: String = row.get(2)?;
            Ok(Interest {
                id: row.get(0)?,
                pattern: row.get(1)?,
                streams: serde_json::from_str(&streams).unwrap_or_default(),
            })
        };
        query.query_map([], of_row)?.collect()
    };
    read().map_err(broken("list subscriptions"))
}

/// The secret of a name; the candidate becomes it if there is none.
pub(crate) fn secret(
    writer: &mut Writer,
    name: &str,
    candidate: &[u8],
) -> Result<Vec<u8>, StoreError> {
    let failed = broken("keep a secret");
    let transaction = writer.transaction()?;
    transaction.execute(sql!("secret_add"), (name, candidate)).map_err(&failed)?;
    let value = transaction.query_row(sql!("secret"), [name], |row| row.get(0)).map_err(&failed)?;
    transaction.commit().map_err(&failed)?;
    Ok(value)
}

fn of_row(id: &str, row: &Row<'_>) -> rusqlite::Result<Subscription> {
    let kind = match (row.get::<_, Option<String>>(0)?, row.get::<_, Option<String>>(1)?) {
        (Some(url), _) => Kind::Webhook { url },
        (None, wake_stream) => Kind::PullWake { wake_stream: wake_stream.unwrap_or_default() },
    };
    let streams: String = row.get(3)?;
    let wake = match row.get::<_, Option<String>>(8)? {
        None => None,
        Some(wake_id) => Some(Wake {
            id: wake_id,
            snapshot: snapshot_from_json(&row.get::<_, Option<String>>(9)?.unwrap_or_default()),
            holder: row.get(10)?,
            lease_until_ms: row.get(11)?,
        }),
    };
    Ok(Subscription {
        id: id.to_owned(),
        config: Config {
            kind,
            pattern: row.get(2)?,
            streams: serde_json::from_str(&streams).unwrap_or_default(),
            lease_ttl_ms: row.get(4)?,
            description: row.get(5)?,
        },
        created_at_ms: row.get(6)?,
        generation: row.get(7)?,
        wake,
        retry_count: row.get(12)?,
        next_attempt_at_ms: row.get(13)?,
        links: BTreeMap::new(),
    })
}

fn link_of_row(row: &Row<'_>) -> rusqlite::Result<(String, Link, bool)> {
    let link = Link {
        explicit: row.get(1)?,
        by_pattern: row.get(2)?,
        acked: Position::from_sql(row.get(3)?),
        tail: Position::from_sql(row.get(4)?),
    };
    Ok((row.get(0)?, link, row.get(5)?))
}
