//! Opening the database: whether it will do, and the migrations.

use deadpool_postgres::ClientWrapper;
use tokio_postgres::Error;

use super::connect::{Connector, Session};
use super::error::broken;
use super::failover;
use super::identity::{Abilities, epoch_of};
use super::load::OFFSET_LOCK;
use super::query::{query_one, sql};
use super::statements::make_role;
use tidewire_store::error::StoreError;
use tidewire_store::migration::{self, Migration};
use tidewire_store::offset::Epoch;

/// The oldest PostgreSQL that will do, as `server_version_num` has it.
const VERSION_MIN: i32 = 140_000;

/// Held by the node that migrates: `tide` and 2.
pub(super) const MIGRATION_LOCK: i64 = 0x7469_6465_0000_0002;

/// Checks the server, brings the schema up to date, makes the role of live queries where it can, and
/// returns the session it did so in.
pub(crate) async fn prepare(connector: &Connector) -> Result<Session, StoreError> {
    // Building an index may take its time, and so may another node's migration.
    let session =
        connector.session_in_time("SET statement_timeout = 0; SET lock_timeout = 0").await?;
    check(&session.client).await?;
    contend(connector, &session.client).await?;
    migrate(&session.client, crate::MIGRATIONS).await?;
    make_role(&session.client, &connector.query_role).await;
    Ok(session)
}

/// Sees which database it is and which epoch the log has, and holds all sessions from here on to both.
pub(crate) async fn settle(connector: &Connector, session: &Session) -> Result<Epoch, StoreError> {
    let failover = connector.fence.failover();
    let abilities = Abilities::of(&session.client).await?;
    let epoch = failover::settle(&session.client, failover, abilities).await?;
    connector.fence.hold(epoch, abilities);
    Ok(epoch)
}

/// Lets two sessions want the offset lock. Engines that speak PostgreSQL's protocol may give it to both,
/// and two nodes would give the same offsets.
async fn contend(connector: &Connector, first: &ClientWrapper) -> Result<(), StoreError> {
    let second = connector.session_in_time("").await?;
    let got = async |client: &ClientWrapper| -> Result<bool, Error> {
        let wish = "SELECT pg_catalog.pg_try_advisory_xact_lock($1)";
        client.query_one(wish, &[&OFFSET_LOCK]).await?.try_get(0)
    };
    let both = async {
        first.batch_execute("BEGIN").await?;
        // If it is another node's at this moment, the lock does what it should.
        let both = got(first).await? && got(&second.client).await?;
        first.batch_execute("ROLLBACK").await?;
        Ok(both)
    };
    if both.await.map_err(broken("try the offset lock"))? {
        return Err(StoreError::Refused(
            "two sessions of this server can hold the same advisory lock at once \
             (pg_try_advisory_xact_lock), so that two nodes would give the same offsets. The server \
             is not PostgreSQL, or a proxy stands before it; give --database a PostgreSQL server"
                .to_owned(),
        ));
    }
    Ok(())
}

async fn check(client: &ClientWrapper) -> Result<(), StoreError> {
    let show = async |name: &str| -> Result<String, StoreError> {
        let shown = client.query_one("SELECT current_setting($1)", &[&name]).await;
        shown.and_then(|row| row.try_get(0)).map_err(broken("look at the server"))
    };
    let number = show("server_version_num").await?;
    acceptable(number.parse().unwrap_or(0), &show("server_version").await?)?;
    let encoding = show("server_encoding").await?;
    if encoding != "UTF8" {
        return Err(StoreError::Refused(format!(
            "the database is encoded in {encoding}, but stream names may hold any character; \
             create it with ENCODING 'UTF8'"
        )));
    }
    if show("is_superuser").await? == "on" {
        tracing::warn!(
            "the database role is a superuser: whoever may run SQL here (POST /v1/sql, keys with \"sql\") can \
             read and write everything on the database server, its files and its programs included. Give \
             Tidewire a role of its own: see \"The database role\" in SECURITY.md"
        );
    }
    Ok(())
}

fn acceptable(version: i32, text: &str) -> Result<(), StoreError> {
    if version >= VERSION_MIN {
        return Ok(());
    }
    Err(StoreError::Refused(format!(
        "the server is PostgreSQL {text}, but tidewire needs version 14 or newer; upgrade it, or \
         give --database another server"
    )))
}

/// Applies what is missing in one transaction, while other nodes wait for their turn.
pub(super) async fn migrate(
    client: &ClientWrapper,
    migrations: &'static [Migration],
) -> Result<(), StoreError> {
    let failed = broken("migrate the database");
    client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await.map_err(&failed)?;
    let lock = client.execute("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK]);
    lock.await.map_err(&failed)?;
    let version = version(client).await.map_err(&failed)?;
    for step in migration::pending(migrations, version)? {
        client.batch_execute(step.sql).await.map_err(&failed)?;
        let note = "INSERT INTO tidewire.migrations (number, name) VALUES ($1, $2)";
        client.execute(note, &[&step.number, &step.name]).await.map_err(&failed)?;
        tracing::info!(number = step.number, name = step.name, "migrated the database");
    }
    client.batch_execute("COMMIT").await.map_err(&failed)
}

/// The schema's version; 0 if there is none, and then the table that keeps it is made. Only then:
/// a role that may not create schemas can still run a database that was migrated by another.
pub(super) async fn version(client: &ClientWrapper) -> Result<i32, Error> {
    let there = "SELECT to_regclass('tidewire.migrations') IS NOT NULL";
    if !client.query_one(there, &[]).await?.try_get::<_, bool>(0)? {
        let make = "CREATE SCHEMA IF NOT EXISTS tidewire;
            CREATE TABLE tidewire.migrations (
                number     integer     PRIMARY KEY,
                name       text        NOT NULL,
                applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
            )";
        client.batch_execute(make).await?;
    }
    let newest = "SELECT coalesce(max(number), 0) FROM tidewire.migrations";
    client.query_one(newest, &[]).await?.try_get(0)
}

pub(super) async fn epoch(client: &ClientWrapper) -> Result<Epoch, StoreError> {
    let read = async { query_one(client, sql!("epoch"), &[]).await?.try_get(0) };
    epoch_of(read.await.map_err(broken("read the log's epoch"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_older_than_14_is_refused() {
        assert!(acceptable(140_000, "14.0").is_ok());
        let refused = acceptable(130_018, "13.18").expect_err("too old");
        assert!(refused.to_string().contains("PostgreSQL 13.18, but tidewire needs version 14"));
    }
}
