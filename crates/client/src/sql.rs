//! SQL that the server runs for callers with full access to its database.

use std::collections::HashMap;

use reqwest::Method;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::answer;
use crate::client::Client;
use crate::error::ClientError;

/// What the last statement gave.
#[derive(Debug, Clone, Deserialize)]
pub struct SqlAnswer {
    /// Its columns, in order; none if it gives no rows. No two have one name.
    pub columns: Vec<SqlColumn>,
    /// Its rows: for each column's name a JSON value, with every digit as the server sent it.
    pub rows: Vec<HashMap<String, Box<RawValue>>>,
    /// How many rows came back, or were changed.
    pub row_count: u64,
    /// What to give as `min_offset` to see all that this did, or saw. None if a write is committed, but
    /// did not reach the log in time.
    pub offset: Option<String>,
}

/// A column of a result.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SqlColumn {
    /// Its name.
    pub name: String,
    /// Its type, as the database calls it. Empty where it has none.
    #[serde(rename = "type", default)]
    pub type_name: String,
}

impl Client {
    /// Runs statements in one transaction. Only a single statement may have parameters.
    pub async fn sql(&self, sql: &str, params: &[Value]) -> Result<SqlAnswer, ClientError> {
        self.sql_after(sql, params, None).await
    }

    /// The same, once the server's node has seen the log up to `min_offset`.
    pub async fn sql_after(
        &self,
        sql: &str,
        params: &[Value],
        min_offset: Option<&str>,
    ) -> Result<SqlAnswer, ClientError> {
        let mut document = json!({ "sql": sql, "params": params });
        if let Some(min_offset) = min_offset {
            document["min_offset"] = min_offset.into();
        }
        let url = self.address().route(&["v1", "sql"]);
        answer::json(self, self.send_json(Method::POST, url, &document).await?).await
    }

    /// What kind of database the server has: `SQLite` or `PostgreSQL`.
    pub async fn database(&self) -> Result<String, ClientError> {
        #[derive(Deserialize)]
        struct Health {
            store: String,
        }
        let response = self.get(self.address().route(&["healthz"])).await?;
        let Health { store } = answer::json(self, response).await?;
        Ok(store)
    }
}
