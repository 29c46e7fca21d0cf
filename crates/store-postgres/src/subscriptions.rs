//! Subscriptions and shared secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use deadpool_postgres::ClientWrapper;
use tokio_postgres::{Error, Row};

use super::columns::signed;
use super::error::broken;
use super::query::{Params, execute, limit as rows_max, query, query_one, sql, texts, unsigned};
use super::writer::CommitEffects;
use super::{load, read, save};
use tidewire_store::decide::{announcement, decide_change};
use tidewire_store::error::StoreError;
use tidewire_store::offset::Position;
use tidewire_store::subscription::{
    Change, Config, Context, Ends, Interest, Kind, Link, NAMES_AT_ONCE, Op, Reply, Subscription,
    Wake, apply, glob, snapshot_from_json, snapshot_to_json,
};

/// A subscription with its streams and their ends.
pub(crate) async fn load(
    client: &ClientWrapper,
    id: &str,
) -> Result<Option<Subscription>, StoreError> {
    Ok(load_all(client, id).await?.map(|(subscription, _)| subscription))
}

/// A subscription, and the names of streams that are linked to it though they are gone.
async fn load_all(
    client: &ClientWrapper,
    id: &str,
) -> Result<Option<(Subscription, BTreeSet<String>)>, StoreError> {
    let read = async {
        let rows = query(client, sql!("subscription"), &[&id]).await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let mut subscription = of_row(id, row)?;
        let mut gone = BTreeSet::new();
        for row in query(client, sql!("subscription_links"), &[&id]).await? {
            let (name, link, exists) = link_of_row(&row)?;
            if !subscription.put_link(&name, link, exists) {
                gone.insert(name);
            }
        }
        Ok(Some((subscription, gone)))
    };
    read.await.map_err(broken("read a subscription"))
}

/// Applies an operation and saves what changed, in one transaction under the offset lock.
pub(crate) async fn change(
    client: &ClientWrapper,
    effects: &CommitEffects,
    id: &str,
    op: &Op,
) -> Result<Reply, StoreError> {
    let started = Instant::now();
    let mut state = load::begin(client, &effects.fence, &[]).await?;
    let now_ms = state.now_ms;
    let loaded = load_all(client, id).await?;
    let (current, gone) = loaded.map_or((None, BTreeSet::new()), |(s, gone)| (Some(s), gone));
    let linked: BTreeSet<String> = current
        .iter()
        .flat_map(|subscription| subscription.links.keys().cloned())
        .chain(gone)
        .collect();
    let wake_id = uuid::Uuid::now_v7().simple().to_string();
    let Ends { tails, starts } = ends(client, op).await?;
    let context = Context { now_ms, wake_id, tails, starts };
    let change = apply(id, current, op, &context);
    save_change(client, id, &change, &linked).await?;
    let commands = announcement(&change);
    load::complete(client, &mut state, &commands).await?;
    let plan = decide_change(state, id, &change, commands);
    save::commit(client, &plan, now_ms, &effects.partitions).await?;
    effects.committed(&plan, started);
    Ok(change.reply)
}

/// Where the streams that an operation concerns end, and where the forks among them start.
async fn ends(client: &ClientWrapper, op: &Op) -> Result<Ends, StoreError> {
    let (mut names, pattern) = op.concerns();
    if let Some(pattern) = pattern {
        names.extend(matching(client, pattern).await?);
    }
    if names.is_empty() {
        return Ok(Ends::default());
    }
    let find = async {
        let mut states = load::streams(client, &names).await?;
        states.retain(|state| !state.soft_deleted);
        let own = load::own_tails(client, states.iter()).await?;
        let mut ends = Ends::default();
        for state in states {
            let tail = state.tail(own.get(&state.name).copied());
            ends.starts.insert(state.name.clone(), state.inherited_tail());
            ends.tails.insert(state.name, tail);
        }
        Ok(ends)
    };
    find.await.map_err(broken("find the ends of streams"))
}

/// All streams whose names match a pattern.
async fn matching(client: &ClientWrapper, pattern: &str) -> Result<Vec<String>, StoreError> {
    let prefix = glob::literal_prefix(pattern);
    let mut matching = Vec::new();
    let mut after = String::new();
    loop {
        let names = read::names(client, prefix, &after, NAMES_AT_ONCE).await?;
        let Some(last) = names.last() else { return Ok(matching) };
        after.clone_from(last);
        matching.extend(names.into_iter().filter(|name| glob::matches(pattern, name)));
    }
}

async fn save_change(
    client: &ClientWrapper,
    id: &str,
    change: &Change,
    linked: &BTreeSet<String>,
) -> Result<(), StoreError> {
    let failed = broken("save a subscription");
    let subscription = match &change.save {
        None => return Ok(()),
        Some(None) => {
            let removed = execute(client, sql!("subscription_remove"), &[&id]).await;
            return removed.map(drop).map_err(&failed);
        }
        Some(Some(subscription)) => subscription,
    };
    save_row(client, subscription).await?;
    let links = async {
        let removed: Vec<&String> =
            linked.iter().filter(|name| !subscription.links.contains_key(*name)).collect();
        if !removed.is_empty() {
            execute(client, sql!("subscription_links_remove"), &[&id, &removed]).await?;
        }
        let names: Vec<&String> = subscription.links.keys().collect();
        let links = || subscription.links.values();
        let explicit: Vec<bool> = links().map(|link| link.explicit).collect();
        let by_pattern: Vec<bool> = links().map(|link| link.by_pattern).collect();
        let acked: Vec<i64> = links().map(|link| link.acked.to_sql()).collect();
        let params: Params<'_> = &[&id, &names, &explicit, &by_pattern, &acked];
        execute(client, sql!("subscription_links_save"), params).await
    };
    links.await.map(drop).map_err(&failed)
}

async fn save_row(client: &ClientWrapper, subscription: &Subscription) -> Result<(), StoreError> {
    let config = &subscription.config;
    let (url, wake_stream) = match &config.kind {
        Kind::Webhook { url } => (Some(url), None),
        Kind::PullWake { wake_stream } => (None, Some(wake_stream)),
    };
    let wake = subscription.wake.as_ref();
    let save = execute(
        client,
        sql!("subscription_save"),
        &[
            &subscription.id,
            &url,
            &wake_stream,
            &config.pattern,
            &serde_json::json!(config.streams).to_string(),
            &signed(config.lease_ttl_ms)?,
            &config.description,
            &subscription.created_at_ms,
            &signed(subscription.generation)?,
            &wake.map(|wake| &wake.id),
            &wake.map(|wake| snapshot_to_json(&wake.snapshot).to_string()),
            &wake.and_then(|wake| wake.holder.as_ref()),
            &wake.and_then(|wake| wake.lease_until_ms),
            &i64::from(subscription.retry_count),
            &subscription.next_attempt_at_ms,
        ],
    )
    .await;
    save.map(drop).map_err(broken("save a subscription"))
}

/// Ids of subscriptions with a delivery or a lease that is due.
pub(crate) async fn due(client: &ClientWrapper, limit: usize) -> Result<Vec<String>, StoreError> {
    let read =
        async { texts(&query(client, sql!("subscriptions_due"), &[&rows_max(limit)]).await?) };
    read.await.map_err(broken("find due subscriptions"))
}

/// What all subscriptions are interested in.
pub(crate) async fn interests(client: &ClientWrapper) -> Result<Vec<Interest>, StoreError> {
    let of_row = |row: &Row| {
        Ok(Interest { id: row.try_get(0)?, pattern: row.try_get(1)?, streams: row.try_get(2)? })
    };
    let read = async {
        let rows = query(client, sql!("interests"), &[]).await?;
        rows.iter().map(of_row).collect::<Result<_, Error>>()
    };
    read.await.map_err(broken("list subscriptions"))
}

/// The secret of a name; the candidate becomes it if there is none. Two statements, because the
/// second sees a row that another node committed while the first waited for it.
pub(crate) async fn secret(
    client: &ClientWrapper,
    name: &str,
    candidate: &[u8],
) -> Result<Vec<u8>, StoreError> {
    let keep = async {
        execute(client, sql!("secret_add"), &[&name, &candidate]).await?;
        query_one(client, sql!("secret"), &[&name]).await?.try_get(0)
    };
    keep.await.map_err(broken("keep a secret"))
}

fn of_row(id: &str, row: &Row) -> Result<Subscription, Error> {
    let kind = match (row.try_get::<_, Option<String>>(0)?, row.try_get::<_, Option<String>>(1)?) {
        (Some(url), _) => Kind::Webhook { url },
        (None, wake_stream) => Kind::PullWake { wake_stream: wake_stream.unwrap_or_default() },
    };
    let wake = match row.try_get::<_, Option<String>>(8)? {
        None => None,
        Some(wake_id) => Some(Wake {
            id: wake_id,
            snapshot: snapshot_from_json(row.try_get::<_, Option<&str>>(9)?.unwrap_or_default()),
            holder: row.try_get(10)?,
            lease_until_ms: row.try_get(11)?,
        }),
    };
    Ok(Subscription {
        id: id.to_owned(),
        config: Config {
            kind,
            pattern: row.try_get(2)?,
            streams: serde_json::from_str(row.try_get(3)?).unwrap_or_default(),
            lease_ttl_ms: unsigned(row.try_get(4)?),
            description: row.try_get(5)?,
        },
        created_at_ms: row.try_get(6)?,
        generation: unsigned(row.try_get(7)?),
        wake,
        retry_count: u32::try_from(row.try_get::<_, i64>(12)?).unwrap_or(u32::MAX),
        next_attempt_at_ms: row.try_get(13)?,
        links: BTreeMap::new(),
    })
}

fn link_of_row(row: &Row) -> Result<(String, Link, bool), Error> {
    let link = Link {
        explicit: row.try_get(1)?,
        by_pattern: row.try_get(2)?,
        acked: Position::from_sql(row.try_get(3)?),
        tail: Position::from_sql(row.try_get(4)?),
    };
    Ok((row.try_get(0)?, link, row.try_get(5)?))
}
