//! `POST /v1/sql`: users' own SQL. PROTOCOL.md, section 24, is the source.
//!
//! The answer is written here as text, because the values of its rows are JSON already, with every
//! digit as the database has it.

mod commands;
mod explain;

use std::collections::HashSet;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, Method, Response, header};
use bytes::{BufMut, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;

use tidewire_store::{SqlAnswer, SqlLimits, Statements};

use crate::body;
use crate::document::{only, parse};
use crate::node::Node;
use crate::sql_problem::sql_problem;
use tidewire_access::auth::{Identity, audit};
use tidewire_access::problem::Problem;
use tidewire_hub::encode::put_json_string;
use tidewire_hub::min_offset::MinOffsetJson;

/// Runs statements. The caller was found to be trusted with the database.
pub(crate) async fn handle(
    node: &Node,
    request: Request,
    identity: &Identity,
) -> Result<Response<Body>, Problem> {
    #[derive(Deserialize)]
    struct SqlJson {
        sql: String,
        #[serde(default)]
        params: Vec<Box<RawValue>>,
        #[serde(flatten)]
        min_offset: MinOffsetJson,
    }
    only(&request, &[Method::POST])?;
    let bytes = body::read(request, &node.access).await?;
    let SqlJson { sql, params, min_offset } = parse(&bytes, invalid)?;
    min_offset.read(&node.hub)?.reached(&node.hub).await?;
    let said = audit::statements(&node.access, [(sql.as_str(), params.as_slice())]);
    let said = said.as_deref();
    if let Some(select) = explain::meant(&sql) {
        let explained = explain::explain(node, identity, select, &params).await;
        audit::ran_sql(identity, said, explained.as_ref().err());
        return Ok(respond(node, &explained?));
    }
    if let Some(live_id) = commands::meant(&sql) {
        let killed = commands::kill(node, identity, &live_id?).await;
        audit::ran_sql(identity, said, killed.as_ref().err());
        return Ok(respond(node, &killed?));
    }
    let options = &node.options.sql;
    let limits = SqlLimits {
        timeout_ms: u64::try_from(options.timeout.as_millis()).unwrap_or(u64::MAX),
        rows_max: options.rows_max,
        bytes_max: options.bytes_max,
    };
    let statements = Statements { sql, params, actor: identity.actor(), limits };
    let ran = node.store.run_sql(statements).await.map_err(sql_problem);
    audit::ran_sql(identity, said, ran.as_ref().err());
    Ok(respond(node, &ran?))
}

fn respond(node: &Node, answer: &SqlAnswer) -> Response<Body> {
    let offset = answer.offset.map(|position| node.hub.offset(position).to_string());
    let mut response = Response::new(Body::from(document(answer, offset.as_deref())));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The answer as JSON.
fn document(answer: &SqlAnswer, offset: Option<&str>) -> bytes::Bytes {
    let names = told_apart(answer.columns.iter().map(|column| column.name.as_str()));
    let values: usize = answer.rows.iter().flatten().map(|value| value.get().len()).sum();
    let keys: usize = names.iter().map(|name| name.len() + 4).sum();
    let mut out = BytesMut::with_capacity(256 + values + keys * (answer.rows.len() + 2));
    out.put_slice(b"{\"columns\":[");
    for (index, (name, column)) in names.iter().zip(&answer.columns).enumerate() {
        out.put_slice(if index == 0 { b"{\"name\":" } else { b",{\"name\":" });
        put_json_string(&mut out, name);
        out.put_slice(b",\"type\":");
        put_json_string(&mut out, &column.type_name);
        out.put_u8(b'}');
    }
    out.put_slice(b"],\"rows\":[");
    for (number, row) in answer.rows.iter().enumerate() {
        if number > 0 {
            out.put_u8(b',');
        }
        out.put_u8(b'{');
        for (index, (name, value)) in names.iter().zip(row).enumerate() {
            if index > 0 {
                out.put_u8(b',');
            }
            put_json_string(&mut out, name);
            out.put_u8(b':');
            out.put_slice(value.get().as_bytes());
        }
        out.put_u8(b'}');
    }
    out.put_slice(format!("],\"row_count\":{},\"offset\":", answer.row_count).as_bytes());
    match offset {
        Some(offset) => put_json_string(&mut out, offset),
        None => out.put_slice(b"null"),
    }
    out.put_u8(b'}');
    out.freeze()
}

/// Names as members of one object: of those that are the same, the second gets `_2` and so on.
fn told_apart<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut taken = HashSet::new();
    let apart = |name: &str| {
        let numbered = (2..).map(|number: usize| format!("{name}_{number}"));
        let mut candidates = std::iter::once(name.to_owned()).chain(numbered);
        // There is always one more number.
        candidates.find(|candidate| taken.insert(candidate.clone())).unwrap_or_default()
    };
    names.map(apart).collect()
}

fn invalid(detail: String) -> Problem {
    Problem::bad_request(
        "invalid_request",
        detail,
        "send {\"sql\": \"SELECT $1\", \"params\": [1]}",
    )
}

#[cfg(test)]
mod tests {
    use tidewire_store::SqlColumn;

    use super::*;

    #[test]
    fn columns_of_one_name_are_told_apart() {
        let names = ["a", "a", "a_2", "b", "a"];
        assert_eq!(told_apart(names.into_iter()), ["a", "a_2", "a_2_2", "b", "a_3"]);
    }

    #[test]
    fn values_keep_every_digit() {
        let column = |name: &str, type_name: &str| SqlColumn {
            name: name.to_owned(),
            type_name: type_name.to_owned(),
        };
        let raw = |json: &str| RawValue::from_string(json.to_owned()).expect("JSON");
        let answer = SqlAnswer {
            columns: vec![column("total", "numeric"), column("to\"tal", "text")],
            rows: vec![vec![raw("12345678901234567890.10"), raw("null")]],
            row_count: 1,
            offset: None,
        };
        assert_eq!(
            document(&answer, Some("0001_0000000000000007")),
            concat!(
                r#"{"columns":[{"name":"total","type":"numeric"},{"name":"to\"tal","type":"text"}],"#,
                r#""rows":[{"total":12345678901234567890.10,"to\"tal":null}],"row_count":1,"#,
                r#""offset":"0001_0000000000000007"}"#,
            )
        );
        assert_eq!(
            document(&SqlAnswer::default(), None),
            r#"{"columns":[],"rows":[],"row_count":0,"offset":null}"#
        );
    }
}
