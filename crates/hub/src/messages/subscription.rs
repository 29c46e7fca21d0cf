//! Messages about what a connection follows.

use serde::Serialize;

use tidewire_store::Offset;

use super::{Json, ServerMessage as _, shown, shown_or_null};

/// Subscriptions have begun.
#[derive(Debug, Serialize)]
pub struct SubscriptionCreated<'a> {
    pub subscriptions: Vec<Created<'a>>,
}

/// One of them.
#[derive(Debug, Serialize)]
pub struct Created<'a> {
    pub query_id: &'a str,
    pub live_id: String,
    /// Everything after it will come. Only a query may not know it yet.
    #[serde(serialize_with = "shown_or_null")]
    pub offset: Option<Offset>,
    pub reset: bool,
    #[serde(flatten)]
    pub of: CreatedOf<'a>,
}

/// What is said besides of each kind.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum CreatedOf<'a> {
    #[serde(rename_all = "camelCase")]
    Stream { stream_id: &'a str, content_type: &'a str },
    #[serde(rename_all = "camelCase")]
    Entities {
        stream_id: &'a str,
        entity_code: &'a str,
        /// How many.
        entities: usize,
    },
    Query {
        etag: &'a str,
        columns: Json<'a>,
        plan: &'a str,
        more: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        row_count: Option<usize>,
        #[serde(skip_serializing_if = "Option::is_none")]
        initial_results: Option<Json<'a>>,
    },
    /// Of the clock there is nothing to say.
    #[cfg(debug_assertions)]
    Clock {},
}

impl CreatedOf<'_> {
    /// Whether the message has the first rows of a result.
    pub fn has_rows(&self) -> bool {
        matches!(self, CreatedOf::Query { initial_results: Some(_), .. })
    }
}

impl SubscriptionCreated<'_> {
    /// The message. Rows of the last, if it has some, are many and written by hand.
    pub fn written(mut self) -> String {
        let rows = match self.subscriptions.last_mut().map(|created| &mut created.of) {
            Some(CreatedOf::Query { initial_results, .. }) => initial_results.take(),
            _ => None,
        };
        let mut text = self.text();
        if let Some(rows) = rows {
            const END: &str = "}]}";
            text.truncate(text.len() - END.len());
            text.push_str(",\"initial_results\":");
            text.push_str(&String::from_utf8_lossy(rows.0));
            text.push_str(END);
        }
        text
    }
}

/// The columns of a stream's table changed.
#[derive(Debug, Serialize)]
pub struct SchemaChanged<'a> {
    pub query_id: &'a str,
    #[serde(rename = "streamId")]
    pub stream_id: &'a str,
    pub what: &'a str,
    #[serde(serialize_with = "shown")]
    pub offset: Offset,
}

/// Nothing more will come.
#[derive(Debug, Serialize)]
pub struct SubscriptionEnded<'a> {
    pub query_id: &'a str,
    #[serde(rename = "streamId", skip_serializing_if = "Option::is_none")]
    pub stream_id: Option<&'a str>,
    pub reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub what: Option<&'a str>,
}
