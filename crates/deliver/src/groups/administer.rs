//! What administrators do to groups: make, change, reset, resume, remove.

use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::IntoResponse;
use serde::Deserialize;

use tidewire_store::Epoch;
use tidewire_store::groups::{Filter, GroupChange, GroupSettings, OnDead, PARTITIONS_MAX, Start};

use super::Answer;
use super::dispatchers::GroupDispatchers;
use super::document::described;
use super::problem::{self, invalid};
use crate::body;
use crate::document::method_not_allowed;
use crate::document::{only, parse};
use tidewire_access::auth::names::FRESH;
use tidewire_access::auth::{Identity, audit};
use tidewire_access::problem::Problem;
use tidewire_hub::offset::{malformed_offset, parse_offset};

/// Attempts that may be asked for: with doubled waits, more would be for ever.
const ATTEMPTS_MAX: u32 = 1_000;

/// Where to begin, as it is written.
#[derive(Deserialize)]
#[serde(untagged)]
enum StartJson {
    Word(String),
    Position(PositionJson),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PositionJson {
    offset: Option<String>,
    time: Option<String>,
}

impl StartJson {
    fn read(self, epoch: Epoch) -> Result<Start, Problem> {
        let wrong = || {
            invalid(
                "a place is \"beginning\", \"now\", {\"offset\": OFFSET} or {\"time\": TIME}"
                    .to_owned(),
            )
        };
        match self {
            StartJson::Word(word) => match word.as_str() {
                "beginning" => Ok(Start::Beginning),
                "now" => Ok(Start::Now),
                _ => Err(wrong()),
            },
            StartJson::Position(PositionJson { offset: Some(offset), time: None }) => {
                parse_offset(&offset, epoch)?;
                Ok(Start::After(offset.parse().map_err(|_| malformed_offset())?))
            }
            StartJson::Position(PositionJson { offset: None, time: Some(time) }) => {
                let at: jiff::Timestamp = time.parse().map_err(|_| {
                    invalid("a time is written like 2026-11-15T00:00:00Z".to_owned())
                })?;
                Ok(Start::Time(at.as_millisecond()))
            }
            StartJson::Position(_) => Err(wrong()),
        }
    }
}

/// What a group can be told to be.
#[derive(Default)]
struct CheckedSettings {
    partitions: Option<u32>,
    filter: Option<Filter>,
    max_attempts: Option<u32>,
    on_dead: Option<OnDead>,
}

fn wanted(
    partitions: Option<u32>,
    tables: Option<Vec<String>>,
    streams: Option<Vec<String>>,
    max_attempts: Option<u32>,
    on_dead: Option<&str>,
) -> Result<CheckedSettings, Problem> {
    if partitions.is_some_and(|count| !(1..=PARTITIONS_MAX).contains(&count)) {
        return Err(invalid(format!("a group has 1 to {PARTITIONS_MAX} partitions")));
    }
    if max_attempts.is_some_and(|count| !(1..=ATTEMPTS_MAX).contains(&count)) {
        return Err(invalid(format!("max_attempts is 1 to {ATTEMPTS_MAX}")));
    }
    let named = tables.is_some() || streams.is_some();
    let filter = named.then(|| Filter {
        tables: tables.unwrap_or_default(),
        streams: streams.unwrap_or_default(),
    });
    if let Some(filter) = &filter {
        filter.check().map_err(invalid)?;
    }
    let on_dead = on_dead
        .map(|word| {
            OnDead::parse(word).ok_or_else(|| invalid("on_dead is \"park\" or \"skip\"".to_owned()))
        })
        .transpose()?;
    Ok(CheckedSettings { partitions, filter, max_attempts, on_dead })
}

/// Refuses tables that are not watched: a group that reads one would wait for ever, and nobody would know why. What
/// the group reads already may stay, though its table is not watched any more.
async fn check_watched(
    dispatchers: &GroupDispatchers,
    group: &str,
    filter: Option<&Filter>,
) -> Result<(), Problem> {
    let Some(filter) = filter.filter(|filter| !filter.tables.is_empty()) else { return Ok(()) };
    let watches = dispatchers.hub.store.watches().await?;
    let is_watched = |table: &String| watches.iter().any(|watch| watch.table == *table);
    if filter.tables.iter().all(is_watched) {
        return Ok(());
    }
    let known = dispatchers.store.group(group).await?;
    let is_read =
        |table: &String| known.as_ref().is_some_and(|it| it.filter.tables.contains(table));
    let missing = filter.tables.iter().find(|table| !is_watched(table) && !is_read(table));
    let Some(table) = missing else { return Ok(()) };
    dispatchers.hub.access.names.look(&dispatchers.hub.store, FRESH).await?;
    if let [(name, _)] =
        dispatchers.hub.access.names.meant(&dispatchers.hub.access.names.read(table)).as_slice()
    {
        return Err(problem::watched_as(table, name));
    }
    let names = watches.iter().map(|watch| watch.table.as_str());
    Err(problem::not_watched(table, names))
}

/// Makes, looks at, or removes a group.
pub(super) async fn itself(
    dispatchers: &GroupDispatchers,
    group: &str,
    request: Request,
    identity: &Identity,
) -> Answer {
    match *request.method() {
        Method::GET | Method::HEAD => {
            let view = dispatchers.store.group(group).await?;
            described(dispatchers, StatusCode::OK, &view.ok_or_else(problem::not_found)?).await
        }
        Method::PUT => put(dispatchers, group, request, identity).await,
        Method::DELETE => {
            if !dispatchers.store.remove_group(group).await? {
                return Err(problem::not_found());
            }
            audit::administered(identity, "remove group", group);
            dispatchers.look_again(group);
            Ok(StatusCode::NO_CONTENT.into_response())
        }
        _ => Err(method_not_allowed("GET, HEAD, PUT, DELETE")),
    }
}

async fn put(
    dispatchers: &GroupDispatchers,
    group: &str,
    request: Request,
    identity: &Identity,
) -> Answer {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct PutGroupJson {
        partitions: Option<u32>,
        tables: Option<Vec<String>>,
        streams: Option<Vec<String>>,
        start: Option<StartJson>,
        max_attempts: Option<u32>,
        on_dead: Option<String>,
    }
    let bytes = body::read(request, &dispatchers.hub.access).await?;
    let document: PutGroupJson = parse(&bytes, invalid)?;
    let PutGroupJson { partitions, tables, streams, start, max_attempts, on_dead } = document;
    let start =
        start.map_or(Ok(Start::Beginning), |start| start.read(dispatchers.hub.store.epoch()))?;
    let wanted = wanted(partitions, tables, streams, max_attempts, on_dead.as_deref())?;
    let CheckedSettings { partitions, filter, max_attempts, on_dead } = wanted;
    check_watched(dispatchers, group, filter.as_ref()).await?;
    let wanted = GroupSettings { partitions, filter, start, max_attempts, on_dead };
    let put = dispatchers.store.put_group(group, &wanted).await;
    let (view, made) = put.map_err(problem::of)?;
    if made {
        audit::administered(identity, "make group", group);
    }
    let status = if made { StatusCode::CREATED } else { StatusCode::OK };
    described(dispatchers, status, &view).await
}

/// `POST …/change`.
pub(super) async fn change(
    dispatchers: &GroupDispatchers,
    group: &str,
    request: Request,
    identity: &Identity,
) -> Answer {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct ChangeGroupJson {
        partitions: Option<u32>,
        tables: Option<Vec<String>>,
        streams: Option<Vec<String>>,
        max_attempts: Option<u32>,
        on_dead: Option<String>,
        paused: Option<bool>,
    }
    only(&request, &[Method::POST])?;
    let bytes = body::read(request, &dispatchers.hub.access).await?;
    let document: ChangeGroupJson = parse(&bytes, invalid)?;
    let ChangeGroupJson { partitions, tables, streams, max_attempts, on_dead, paused } = document;
    let wanted = wanted(partitions, tables, streams, max_attempts, on_dead.as_deref())?;
    let CheckedSettings { partitions, filter, max_attempts, on_dead } = wanted;
    check_watched(dispatchers, group, filter.as_ref()).await?;
    let change =
        GroupChange { partitions, filter, max_attempts, on_dead, paused, ..Default::default() };
    changed(dispatchers, group, &change, identity, "change group").await
}

/// `POST …/resume`.
pub(super) async fn resume(
    dispatchers: &GroupDispatchers,
    group: &str,
    request: Request,
    identity: &Identity,
) -> Answer {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct ResumeGroupJson {
        #[serde(default)]
        accept_loss: bool,
    }
    only(&request, &[Method::POST])?;
    let bytes = body::read(request, &dispatchers.hub.access).await?;
    let ResumeGroupJson { accept_loss } = parse(&bytes, invalid)?;
    let change =
        GroupChange { paused: Some(false), accept_loss, clear_trouble: true, ..Default::default() };
    changed(dispatchers, group, &change, identity, "resume group").await
}

async fn changed(
    dispatchers: &GroupDispatchers,
    group: &str,
    change: &GroupChange,
    identity: &Identity,
    act: &'static str,
) -> Answer {
    let view = dispatchers.store.change_group(group, change).await.map_err(problem::of)?;
    audit::administered(identity, act, group);
    dispatchers.look_again(group);
    described(dispatchers, StatusCode::OK, &view).await
}

/// `POST …/reset`.
pub(super) async fn reset(
    dispatchers: &GroupDispatchers,
    group: &str,
    request: Request,
    identity: &Identity,
) -> Answer {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct ResetGroupJson {
        to: StartJson,
        partition: Option<u32>,
        #[serde(default)]
        drop_letters: bool,
    }
    only(&request, &[Method::POST])?;
    let bytes = body::read(request, &dispatchers.hub.access).await?;
    let ResetGroupJson { to, partition, drop_letters } = parse(&bytes, invalid)?;
    let to = to.read(dispatchers.hub.store.epoch())?;
    let store = &dispatchers.store;
    if let Some(partition) = partition {
        let view = store.group(group).await?.ok_or_else(problem::not_found)?;
        if partition >= view.total {
            return Err(problem::no_partition(partition));
        }
    }
    let view = store.reset_group(group, to, partition, drop_letters).await.map_err(problem::of)?;
    audit::administered(identity, "reset group", group);
    dispatchers.look_again(group);
    described(dispatchers, StatusCode::OK, &view).await
}
