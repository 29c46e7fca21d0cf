//! The result of a live query: its rows in pieces, and its changes. PROTOCOL.md, section 29.

use std::fmt::Write as _;

use serde::Serialize;

use tidewire_store::Offset;

use super::{Json, quoted, shown_or_null};

/// Rows of a result after the first.
#[derive(Debug, Serialize)]
pub struct InitialBatch<'a> {
    pub query_id: &'a str,
    pub part: usize,
    pub more: bool,
    pub rows: Json<'a>,
}

impl InitialBatch<'_> {
    /// The message, written by hand: its rows are many.
    pub fn written(&self) -> String {
        let InitialBatch { query_id, part, more, rows } = self;
        let mut out = String::with_capacity(rows.0.len() + 128);
        out.push_str("{\"type\":\"initial_batch\",\"query_id\":");
        out.push_str(&quoted(query_id));
        // Writing into memory cannot fail.
        let _ = write!(out, ",\"part\":{part},\"more\":{more},\"rows\":");
        out.push_str(&String::from_utf8_lossy(rows.0));
        out.push('}');
        out
    }
}

/// Rows that came, went or changed.
#[derive(Debug, Serialize)]
pub struct Change<'a> {
    /// None as long as it is the same for all who follow the query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query_id: Option<&'a str>,
    pub(crate) change_type: &'static str,
    pub rows: Vec<Json<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) old_rows: Option<Vec<Json<'a>>>,
    /// Their places before and after, in a result that has an order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub at: Vec<u32>,
    #[serde(serialize_with = "shown_or_null")]
    pub offset: Option<Offset>,
    pub part: usize,
    pub more: bool,
    pub txid: Option<i64>,
}

impl Change<'_> {
    /// All of it but the name, which [`Change::named`] puts before.
    pub fn rest(&self) -> String {
        let bytes: usize =
            self.rows.iter().chain(self.old_rows.iter().flatten()).map(|r| r.0.len()).sum();
        let mut out = String::with_capacity(bytes + 256);
        // Writing into memory cannot fail.
        let _ = write!(out, "\"change_type\":\"{}\",\"rows\":", self.change_type);
        push_rows(&mut out, &self.rows);
        if let Some(old_rows) = &self.old_rows {
            out.push_str(",\"old_rows\":");
            push_rows(&mut out, old_rows);
        }
        for (name, places) in [("from", &self.from), ("at", &self.at)] {
            if !places.is_empty() {
                let places: Vec<String> = places.iter().map(u32::to_string).collect();
                let _ = write!(out, ",\"{name}\":[{}]", places.join(","));
            }
        }
        let offset = self.offset.map_or_else(|| "null".to_owned(), |at| format!("\"{at}\""));
        let txid = self.txid.map_or_else(|| "null".to_owned(), |txid| txid.to_string());
        let (part, more) = (self.part, self.more);
        let _ =
            write!(out, ",\"offset\":{offset},\"part\":{part},\"more\":{more},\"txid\":{txid}}}");
        out
    }

    /// The message for a subscription of this name.
    pub fn named(query_id: &str, rest: &str) -> String {
        format!("{{\"type\":\"change\",\"query_id\":{},{rest}", quoted(query_id))
    }
}

fn push_rows(out: &mut String, rows: &[Json<'_>]) {
    out.push('[');
    for (index, row) in rows.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(&String::from_utf8_lossy(row.0));
    }
    out.push(']');
}
