//! What can be said of a query: how it is kept, and why not more cheaply.

use super::{Conditions, Plan, Query};

impl Query {
    /// How it is kept, and why, as `EXPLAIN LIVE` says it. `sql` is for those who may see rules.
    pub fn explain(&self) -> Vec<(&'static str, String)> {
        let mut lines = vec![("plan", self.plan.name().to_string())];
        for (plan, refusal) in &self.why {
            lines.push(("why not", format!("{plan}: {refusal}")));
        }
        let tables: Vec<&str> = self.dependencies.iter().map(|it| &*it.table).collect();
        lines.push(("tables", tables.join(", ")));
        match &self.plan {
            Plan::Requery(plan) => {
                for relevance in &plan.relevance {
                    let columns = match &relevance.columns {
                        None => "any column".to_owned(),
                        Some(columns) if columns.is_empty() => "only that rows come and go".into(),
                        Some(columns) => columns.join(", "),
                    };
                    let rows: Vec<String> = relevance.any_of.iter().map(described).collect();
                    let rows = if rows.is_empty() { "any row".into() } else { rows.join(" OR ") };
                    let table = &relevance.table;
                    lines.push(("relevance", format!("{table}: {columns}; {rows}")));
                }
            }
            Plan::Filter(plan) => {
                lines.push((
                    "relevance",
                    format!("{}: {}", plan.table, described(&plan.conditions)),
                ));
            }
            Plan::Window(plan) => lines.push((
                "relevance",
                format!("{}: {}", plan.filter.table, described(&plan.filter.conditions)),
            )),
            Plan::Aggregate(plan) => lines.push((
                "relevance",
                format!("{}: {}", plan.filter.table, described(&plan.filter.conditions)),
            )),
        }
        lines.push(("key", format!("{:032x}", self.key.0)));
        lines.push(("sql", self.rerun.to_string()));
        lines
    }
}

fn described(conditions: &Conditions) -> String {
    let mut all: Vec<&str> = conditions.predicates.iter().map(|it| it.key()).collect();
    if conditions.tenants.is_some() {
        all.push("of the caller's tenants");
    }
    if all.is_empty() { "any row".to_owned() } else { all.join(" AND ") }
}
