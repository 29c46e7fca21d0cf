//! `EXPLAIN LIVE SELECT …`: how a query would be kept, and why not otherwise.

use serde_json::value::RawValue;
use tokio::sync::oneshot;

use tidewire_store::{SqlAnswer, SqlColumn};

use super::commands::after;
use crate::node::Node;
use tidewire_access::auth::{Ability, Identity};
use tidewire_access::problem::Problem;
use tidewire_hub::kinds::query::engine::EngineCommand;

/// The SELECT of an `EXPLAIN LIVE`, if it is one.
pub(crate) fn meant(sql: &str) -> Option<&str> {
    let rest = after(sql, "explain")?;
    after(rest, "live")
}

/// Says how a query would be kept.
pub(crate) async fn explain(
    node: &Node,
    identity: &Identity,
    select: &str,
    params: &[Box<RawValue>],
) -> Result<SqlAnswer, Problem> {
    let compiled = node.hub.compile(identity, select, params).await?;
    let query = &compiled.query;
    let mut lines = vec![("plan", query.plan.name().to_string())];
    for (plan, why) in &query.why {
        lines.push(("why", format!("not {plan}: {why}")));
        lines.extend(why.position.map(|position| ("position", position.to_string())));
        lines.extend(why.hint.clone().map(|hint| ("hint", hint)));
    }
    for table in &query.dependencies {
        lines.push(("table", table.table.to_string()));
    }
    let (reply, counted) = oneshot::channel();
    node.hub.queries.order(EngineCommand::Count { key: query.key, reply });
    let shared_by = counted.await.unwrap_or(0);
    lines.push(("key", format!("{:032x}", query.key.0)));
    lines.push(("shared_by", shared_by.to_string()));
    lines.extend(compiled.cost.map(|cost| ("cost", cost.to_string())));
    if identity.scopes().can(Ability::Sql) {
        lines.push(("sql", query.rerun.to_string()));
    }
    let column = |name: &str| SqlColumn { name: name.to_owned(), type_name: "text".to_owned() };
    let json = |text: &str| RawValue::from_string(serde_json::Value::from(text).to_string());
    let rows = lines.iter().filter_map(|(key, value)| {
        // A string is JSON when it is quoted.
        Some(vec![json(key).ok()?, json(value).ok()?])
    });
    let rows: Vec<_> = rows.collect();
    Ok(SqlAnswer {
        columns: vec![column("key"), column("value")],
        row_count: rows.len() as u64,
        rows,
        offset: Some(node.hub.tail.position()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_explain_live_is_meant() {
        assert_eq!(meant(" EXPLAIN\n live SELECT 1"), Some(" SELECT 1"));
        assert_eq!(meant("explain select 1"), None);
        assert_eq!(meant("explain lively"), None);
        assert_eq!(meant("explainlive select 1"), None);
        assert_eq!(meant("é"), None);
    }
}
