//! What a query would scan, by the database's own account.

use deadpool_postgres::ClientWrapper;
use serde_json::Value;
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::types::Type;

use super::catalog::CatalogSnapshot;
use super::errors::{self, ReadFailure};
use super::role;
use crate::error::broken;
use crate::query::{query_one, sql};
use tidewire_store::queries::LiveRead;

/// Columns and their types.
type Columns = Vec<(String, Type)>;

/// The columns of a query and what it would cost. Refuses one that scans anything but its own tables.
pub(super) async fn check(
    client: &ClientWrapper,
    read: &LiveRead,
    role: &str,
    look: &CatalogSnapshot,
) -> Result<(Columns, Option<f64>), ReadFailure> {
    let limits = &read.limits;
    role::act(client, role, limits).await?;
    // Only one statement can be prepared, so what follows runs it and nothing else.
    let prepared = client.prepare(&read.sql).await;
    let prepared = prepared.map_err(|error| errors::of_words(&error, limits))?;
    let columns: Columns =
        prepared.columns().iter().map(|c| (c.name().to_owned(), c.type_().clone())).collect();
    if columns.is_empty() || !prepared.params().is_empty() {
        return Err(errors::not_one_select().into());
    }
    let explain = format!("EXPLAIN (VERBOSE, FORMAT JSON) {}", read.sql);
    let said = client.simple_query(&explain).await;
    let said = said.map_err(|error| errors::of_rows(&error, limits))?;
    role::act_as_ourselves(client, limits).await?;
    let plan = plan_of(&said).ok_or_else(errors::not_one_select)?;
    let mut scanned = Scanned::default();
    scanned.walk(&plan);
    if scanned.writes {
        return Err(errors::not_one_select().into());
    }
    let params: &[crate::query::Param<'_>] = &[&scanned.schemas, &scanned.names, &look.oids];
    let strangers = query_one(client, sql!("live_strangers"), params).await;
    let strangers: i64 =
        strangers.and_then(|row| row.try_get(0)).map_err(broken("look at a query's plan"))?;
    if strangers > 0 {
        return Err(errors::other_table().into());
    }
    Ok((columns, plan.pointer("/0/Plan/Total Cost").and_then(Value::as_f64)))
}

fn plan_of(messages: &[SimpleQueryMessage]) -> Option<Value> {
    let row = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    serde_json::from_str(row?).ok()
}

/// What a plan touches.
#[derive(Debug, Default, PartialEq, Eq)]
struct Scanned {
    schemas: Vec<String>,
    names: Vec<String>,
    /// It changes or locks rows.
    writes: bool,
}

impl Scanned {
    fn walk(&mut self, plan: &Value) {
        match plan {
            Value::Array(items) => items.iter().for_each(|item| self.walk(item)),
            Value::Object(node) => {
                let text = |name: &str| node.get(name).and_then(Value::as_str);
                self.writes |= matches!(text("Node Type"), Some("ModifyTable" | "LockRows"));
                if let Some(name) = text("Relation Name") {
                    self.names.push(name.to_owned());
                    self.schemas.push(text("Schema").unwrap_or_default().to_owned());
                }
                node.values().for_each(|value| self.walk(value));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_relation_of_a_plan_is_found() {
        let plan = serde_json::json!([{"Plan": {
            "Node Type": "Hash Join",
            "Plans": [
                {"Node Type": "Seq Scan", "Relation Name": "a", "Schema": "public"},
                {"Node Type": "Hash", "Plans": [
                    {"Node Type": "Index Scan", "Relation Name": "b", "Schema": "odd"}
                ]}
            ]
        }}]);
        let mut scanned = Scanned::default();
        scanned.walk(&plan);
        assert_eq!(
            (scanned.schemas, scanned.names),
            (vec!["public".to_owned(), "odd".to_owned()], vec!["a".to_owned(), "b".to_owned()],)
        );
        assert!(!scanned.writes);
        let mut scanned = Scanned::default();
        scanned.walk(&serde_json::json!([{"Plan": {"Plans": [{"Node Type": "ModifyTable"}]}}]));
        assert!(scanned.writes);
    }
}
