//! A worker that counts what each user of each host did, once for each event.
//!
//! `cargo run -p tidewire-consumer --example worker -- postgres://postgres@localhost/app`, beside a `tidewire` that
//! serves this database, as often as one likes: the workers share the work. With a folder instead of a URL it
//! opens the embedded store itself, which no second process may do.

use async_trait::async_trait;
use serde_json::json;
use tidewire_consumer::{Consumer, Context, Group, Handler, HandlerError, Source};
use tidewire_store_sqlite::SqliteOptions;
use tidewire_store_sqlite::SqliteStore;

/// Writes down how many events each user has, in the table
/// `CREATE TABLE totals (host_id TEXT, user_id TEXT, events BIGINT, PRIMARY KEY (host_id, user_id))`.
struct Totals;

#[async_trait]
impl Handler for Totals {
    async fn handle(
        &self,
        group: &Group<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), HandlerError> {
        // In the transaction of the batch: it commits with the group's progress, or not at all.
        let sql = "INSERT INTO totals (host_id, user_id, events) VALUES ($1, $2, $3)
                   ON CONFLICT (host_id, user_id) DO UPDATE SET events = totals.events + excluded.events";
        let count = group.events().len();
        context.sql(sql, &[json!(group.host_id()), json!(group.user_id()), json!(count)]).await?;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let at = std::env::args().nth(1).ok_or("which database? a postgres:// URL, or a folder")?;
    let source: Source = if at.contains("://") {
        at.into()
    } else {
        SqliteStore::open(SqliteOptions::new(at)).await?.into()
    };
    let stats =
        Consumer::builder(source).group("totals").batch_size(100).partitions(8).run(Totals).await?;
    eprintln!("{} events in {} batches", stats.events, stats.batches);
    Ok(())
}
