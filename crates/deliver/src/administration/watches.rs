//! `/v1/watch`: the watched tables, whose changes come into the log.

use std::borrow::Cow;
use std::time::Duration;

use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::{Value, json};

use tidewire_store::{NewWatch, WatchView};

use super::{Answer, invalid};
use crate::body;
use crate::document::{only, parse, uncached};
use crate::node::Node;
use crate::query_string;
use crate::sql_problem::sql_problem;
use tidewire_access::auth::{Identity, audit};
use tidewire_access::problem::Problem;
use tidewire_hub::min_offset::MinOffset;

/// All that can be asked about watching. The caller was found to be an administrator.
pub(crate) async fn handle(node: &Node, request: Request, identity: &Identity) -> Answer {
    only(&request, &[Method::GET, Method::POST, Method::DELETE])?;
    match *request.method() {
        Method::GET => list(node).await,
        Method::POST => watch(node, request, identity).await,
        _ => {
            let table = named_table(request.uri().query().unwrap_or_default())?;
            unwatch(node, &table, identity).await
        }
    }
}

async fn list(node: &Node) -> Answer {
    let watches = node.store.watches().await?;
    let watches: Value = watches.iter().map(|view| shown(node, view, None)).collect();
    Ok(uncached(StatusCode::OK, json!({ "watches": watches })))
}

async fn watch(node: &Node, request: Request, identity: &Identity) -> Answer {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct WatchJson {
        table: String,
        key_columns: Option<Vec<String>>,
        entity: Option<String>,
        host_column: Option<String>,
        user_column: Option<String>,
    }
    let bytes = body::read(request, &node.access).await?;
    let WatchJson { table, key_columns, entity, host_column, user_column } =
        parse(&bytes, invalid)?;
    let watch = NewWatch { table, key_columns, entity_code: entity, host_column, user_column };
    let view = node.store.watch(watch).await.map_err(sql_problem)?;
    audit::administered(identity, "watch table", &view.table);
    MinOffset::committed().settled(&node.hub).await;
    node.access.names.doubt();
    // What is wrong with its rules is told by and by; that it has them holds at once.
    node.access.names.look(&node.store, Duration::ZERO).await?;
    node.hub.note_rules_without_table();
    Ok(uncached(StatusCode::OK, shown(node, &view, Some(needs(node, &view.table).await))))
}

/// What has to be run in the database before live queries of a table work, for who has just had it watched. That it
/// cannot be told now is no reason to say that the table is not watched.
async fn needs(node: &Node, table: &str) -> Vec<String> {
    if !node.options.queries.enabled {
        return Vec::new();
    }
    let needs = node.store.live_query_needs(Some(table)).await;
    needs.unwrap_or_else(|error| {
        tracing::debug!(%error, table, "could not find out what live queries of the table need");
        Vec::new()
    })
}

async fn unwatch(node: &Node, table: &str, identity: &Identity) -> Answer {
    if !node.store.unwatch(table).await.map_err(sql_problem)? {
        return Err(Problem::new(
            StatusCode::NOT_FOUND,
            "watch_not_found",
            format!("the table {table:?} is not watched"),
            "GET /v1/watch lists those that are",
        ));
    }
    audit::administered(identity, "unwatch table", table);
    MinOffset::committed().settled(&node.hub).await;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// The table that a query names. It is not a part of the path, because a table's name may have
/// slashes and dots in it, which some proxies take for their own.
fn named_table(query: &str) -> Result<String, Problem> {
    query_string::first(query, "table")
        .filter(|table| !table.is_empty())
        .map(Cow::into_owned)
        .ok_or_else(|| invalid("the query names no table: ?table=NAME".to_owned()))
}

fn shown(node: &Node, view: &WatchView, live_query_needs: Option<Vec<String>>) -> Value {
    let since = jiff::Timestamp::from_millisecond(view.created_at_ms).map(|at| at.to_string());
    let mut shown = json!({
        "table": view.table,
        "stream": view.stream,
        "key_columns": view.key_columns,
        "entity": view.entity_code,
        "host_column": view.host_column,
        "user_column": view.user_column,
        "created_at": since.ok(),
        "events": view.events,
        "last_offset": view.last.map(|last| node.hub.offset(last).to_string()),
        "waiting": view.waiting,
        "waiting_ms": view.waiting_ms,
        "notes": view.notes,
    });
    if let Some(needs) = live_query_needs {
        shown["live_query_needs"] = needs.into();
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_are_understood() {
        for (query, table) in [
            ("table=orders", "orders"),
            ("x=1&table=sales.orders&y=2", "sales.orders"),
            ("table=%22Odd+na%2Bme%2F%22%22%22", "\"Odd na+me/\"\"\""),
        ] {
            assert_eq!(named_table(query).ok().as_deref(), Some(table), "{query}");
        }
        for query in ["", "table=", "other=orders"] {
            assert_eq!(named_table(query).expect_err(query).code(), "invalid_request");
        }
    }
}
