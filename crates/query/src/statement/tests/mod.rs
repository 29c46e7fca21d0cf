//! Statements that are taken, and those that are not.

mod emission;
mod filters;
mod grammar;
mod growth;
mod refusals;
mod rules;
mod searches;

use std::sync::Arc;

use serde_json::Value as Json;
use serde_json::value::RawValue;

use super::{Binding, Draft, rule_tables};
use crate::caller::Caller;
use crate::plan::Query;
use crate::refusal::Refusal;
use crate::shape::{Access, QueryLimits, ShapeColumn, TableName, TableShape};
use crate::table::{Column, Dialect};

/// Ada of the tenant `acme`.
struct Ada;

impl Caller for Ada {
    fn user_id(&self) -> Option<&str> {
        Some("ada's")
    }

    fn host_id(&self) -> Option<&str> {
        Some("acme")
    }

    fn claim(&self, name: &str) -> Option<Json> {
        match name {
            "region" => Some(Json::from("eu")),
            "rooms" => Some(serde_json::json!(["a'b", "c\"d", -7, null])),
            "nothing" => Some(serde_json::json!([])),
            _ => None,
        }
    }
}

fn column(name: &str, type_name: &str) -> ShapeColumn {
    let collation = matches!(type_name, "text" | "TEXT").then(|| "C".to_owned());
    ShapeColumn {
        column: Column { name: name.into(), type_name: type_name.into(), collation },
        generated: false,
        scale: None,
        json_text: type_name == "json",
    }
}

fn shape(name: &str, columns: &[(&str, &str, &str)], dialect: Dialect) -> TableShape {
    let of = |(name, postgres, sqlite): &(&str, &str, &str)| match dialect {
        Dialect::Postgres => column(name, postgres),
        Dialect::Sqlite => {
            let mut column = column(name, sqlite);
            column.column.collation = Some("BINARY".to_owned());
            column
        }
    };
    TableShape {
        name: name.to_owned(),
        sql_name: match dialect {
            Dialect::Postgres => format!("\"public\".\"{name}\""),
            Dialect::Sqlite => format!("\"{name}\""),
        },
        columns: columns.iter().map(of).collect(),
        key: vec!["id".to_owned()],
        host_column: columns.iter().any(|it| it.0 == "host").then(|| "host".to_owned()),
        fingerprint: 7,
        row_security: false,
        inherited: false,
    }
}

/// `orders` (of tenants), `customers`, `items` and `searches`.
fn shapes(dialect: Dialect) -> Vec<TableShape> {
    let orders: &[(&str, &str, &str)] = &[
        ("id", "int4", "INTEGER"),
        ("status", "text", "TEXT"),
        ("total", "numeric", "REAL"),
        ("customer_id", "int4", "INTEGER"),
        ("secret", "text", "TEXT"),
        ("host", "text", "TEXT"),
        ("data", "json", "TEXT"),
        ("tags", "_text", "TEXT"),
        ("made", "timestamptz", "TEXT"),
    ];
    let customers: &[(&str, &str, &str)] =
        &[("id", "int4", "INTEGER"), ("name", "text", "TEXT"), ("secret", "text", "TEXT")];
    let items: &[(&str, &str, &str)] =
        &[("id", "int4", "INTEGER"), ("order_id", "int4", "INTEGER"), ("price", "numeric", "REAL")];
    let searches: &[(&str, &str, &str)] =
        &[("id", "int4", "INTEGER"), ("path", "jsonpath", "TEXT"), ("words", "tsquery", "TEXT")];
    vec![
        shape("orders", orders, dialect),
        shape("customers", customers, dialect),
        shape("items", items, dialect),
        shape("searches", searches, dialect),
    ]
}

fn parameters(json: &str) -> Vec<Box<RawValue>> {
    serde_json::from_str(json).expect("parameters are a JSON array")
}

fn bind_as(
    sql: &str,
    params: &str,
    dialect: Dialect,
    access: &dyn Fn(&str) -> Access,
) -> Result<Query, Refusal> {
    let draft = Draft::parse(sql, &parameters(params), dialect)?;
    with_binding(&draft, dialect, access, |binding| draft.bind(binding))
}

fn with_binding<T>(
    draft: &Draft,
    dialect: Dialect,
    access: &dyn Fn(&str) -> Access,
    then: impl FnOnce(&Binding<'_>) -> T,
) -> T {
    let shapes = shapes(dialect);
    let shape = |name: &TableName| shapes.iter().find(|shape| *shape.name == *name.name);
    let mut names = draft.tables().to_vec();
    let all = shapes.iter().map(|it| TableName { schema: None, name: it.name.as_str().into() });
    names.extend(all.filter(|name| !draft.tables().contains(name)));
    let found =
        names.iter().filter_map(|name| Some((name.clone(), Arc::new(shape(name)?.clone()))));
    let tables: Vec<_> = found.collect();
    let limits = QueryLimits { rows_max: 10_000, window_slack: 64, hide_timing: true };
    then(&Binding { tables: &tables, access, caller: &Ada, limits })
}

fn bind(sql: &str, dialect: Dialect) -> Result<Query, Refusal> {
    bind_as(sql, "[]", dialect, &|_| Access::default())
}

/// What a narrow key sees: no secrets, and only some rows of orders.
fn narrow(table: &str) -> Access {
    match table {
        "orders" => Access {
            columns: Some(["id", "status", "total", "customer_id"].map(Into::into).to_vec()),
            rules: vec!["secret = auth.user_id()".into()],
            tenants: None,
        },
        "customers" => {
            Access { columns: Some(["id", "name"].map(Into::into).to_vec()), ..Access::default() }
        }
        _ => Access::default(),
    }
}
