//! Other systems' names for what Tidewire has: views, functions and triggers over its own tables, so
//! that SQL written for those systems runs as it is.
//!
//! `tidewire migrate --compat` asks for them. They are in two schemas that the user names, and made
//! again each time, so that they follow the binary. What bears one of the names already, and was not
//! made here, is left alone and named: nothing is done then.

use deadpool_postgres::ClientWrapper;

use super::connect::Connector;
use super::error::broken;
use super::open;
use super::query::{query, sql};
use crate::options::PostgresOptions;
use tidewire_store::error::StoreError;

/// How the comments begin of all that is made here: by this it is known again.
const MARK: &str = "Made by tidewire migrate --compat%";

/// A name that is taken blocks nobody for long; building indexes on a large log may take its time.
const SETTINGS: &str = "SET statement_timeout = 0; SET lock_timeout = '10s'";

/// In which schemas the names are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompatSchemas {
    /// Those of subscriptions to entities: `rxdb_subscription`, `logging` and the functions on them.
    pub app: String,
    /// Those of the outbox and its consumers: `outbox`, `api_keys`, `consumer_offsets` and the like.
    pub public: String,
}

/// One name that is there now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompatName {
    /// With its schema, as SQL takes it.
    pub name: String,
    /// What it is.
    pub kind: &'static str,
    /// Whether it was not there before.
    pub new: bool,
}

/// The schema that a name belongs to.
#[derive(Debug, Clone, Copy)]
enum CompatSchema {
    App,
    Public,
}

const VIEW: &str = "view";
const FUNCTION: &str = "function";

const NAMES: [(CompatSchema, &str, &str); 13] = [
    (CompatSchema::App, "rxdb_subscription", VIEW),
    (CompatSchema::App, "bulk_subscribe", FUNCTION),
    (CompatSchema::App, "bulk_unsubscribe", FUNCTION),
    (CompatSchema::App, "cleanup_connection_subscriptions", FUNCTION),
    (CompatSchema::App, "get_batch_subscribers", FUNCTION),
    (CompatSchema::App, "cleanup_stale_subscriptions", FUNCTION),
    (CompatSchema::App, "get_subscription_stats", FUNCTION),
    (CompatSchema::App, "logging", VIEW),
    (CompatSchema::Public, "outbox", VIEW),
    (CompatSchema::Public, "outbox_message_t", VIEW),
    (CompatSchema::Public, "api_keys", VIEW),
    (CompatSchema::Public, "log_counter", VIEW),
    (CompatSchema::Public, "consumer_offsets", VIEW),
];

macro_rules! files {
    ($($name:literal),+ $(,)?) => {
        [$(include_str!(concat!("../compat/", $name, ".sql"))),+]
    };
}

/// Each stands for itself, in this order.
const FILES: [&str; 7] =
    files!("entities", "logging", "outbox", "messages", "keys", "consumers", "rights");

/// Makes the names, or brings them up to date, in one transaction. The database's own schema is
/// brought up to date first.
pub async fn compat(
    options: &PostgresOptions,
    schemas: &CompatSchemas,
) -> Result<Vec<CompatName>, StoreError> {
    for schema in [&schemas.app, &schemas.public] {
        acceptable(schema)?;
    }
    let connector = Connector::new(options)?;
    let work = async {
        open::prepare(&connector).await?;
        let session = connector.session_in_time(SETTINGS).await?;
        make(&session.client, schemas).await
    };
    let made = work.await;
    connector.tasks().close();
    connector.tasks().wait().await;
    made
}

/// Refuses schemas that others own.
fn acceptable(schema: &str) -> Result<(), StoreError> {
    let owner = if schema == "tidewire" {
        "Tidewire's own tables, some of which bear these names"
    } else if schema.starts_with("pg_") || schema == "information_schema" {
        "PostgreSQL's own tables"
    } else if schema.is_empty() || schema.contains('\0') || schema.len() > NAME_BYTES_MAX {
        return Err(StoreError::Refused(format!(
            "{schema:?} is not a schema's name: it has 1 to {NAME_BYTES_MAX} bytes"
        )));
    } else {
        return Ok(());
    };
    Err(StoreError::Refused(format!(
        "the schema {schema} holds {owner}; name another with --compat-schema and --compat-public"
    )))
}

/// PostgreSQL cuts off what is longer.
const NAME_BYTES_MAX: usize = 63;

async fn make(
    client: &ClientWrapper,
    schemas: &CompatSchemas,
) -> Result<Vec<CompatName>, StoreError> {
    let failed = broken("make the names that other systems use");
    client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await.map_err(&failed)?;
    let lock = client.execute("SELECT pg_advisory_xact_lock($1)", &[&open::MIGRATION_LOCK]);
    lock.await.map_err(&failed)?;
    let taken = taken(client, schemas).await.map_err(&failed)?;
    let foreign: Vec<String> = taken
        .iter()
        .filter(|taken| !taken.ours)
        .map(|taken| qualified(&taken.schema, &taken.name))
        .collect();
    if !foreign.is_empty() {
        return Err(refusal(&foreign));
    }
    let (app, public) = (quoted(&schemas.app), quoted(&schemas.public));
    // Only where it is missing: a role that may not create schemas can still use one that is there.
    for schema in [&schemas.app, &schemas.public] {
        let there = "SELECT to_regnamespace($1) IS NOT NULL";
        let there = client.query_one(there, &[&quoted(schema)]).await;
        if !there.and_then(|row| row.try_get::<_, bool>(0)).map_err(&failed)? {
            let make = format!("CREATE SCHEMA {}", quoted(schema));
            client.batch_execute(&make).await.map_err(&failed)?;
        }
    }
    for file in FILES {
        // In one pass, because either may be called like a placeholder.
        let parts =
            file.split("\"compat_app\"").map(|part| part.replace("\"compat_public\"", &public));
        let sql = parts.collect::<Vec<String>>().join(&app);
        client.batch_execute(&sql).await.map_err(&failed)?;
    }
    close(client, schemas, &taken).await.map_err(&failed)?;
    client.batch_execute("COMMIT").await.map_err(&failed)?;
    let name = |&(home, name, kind): &(CompatSchema, &str, &'static str)| {
        let schema = home.of(schemas);
        let was_there = taken.iter().any(|taken| taken.schema == schema && taken.name == name);
        CompatName { name: qualified(schema, name), kind, new: !was_there }
    };
    Ok(NAMES.iter().map(name).collect())
}

/// Takes what default privileges have given to others on what was just made: it shows everyone's rows,
/// and keys can be made by it. What was granted on what an earlier run made stays.
async fn close(
    client: &ClientWrapper,
    schemas: &CompatSchemas,
    taken: &[TakenName],
) -> Result<(), tokio_postgres::Error> {
    let made = NAMES.iter().map(|&(home, name, _)| (home.of(schemas), name));
    let new = |(schema, name): &(&str, &str)| {
        !taken.iter().any(|taken| taken.schema == *schema && taken.name == *name)
    };
    let (homes, names): (Vec<&str>, Vec<&str>) = made.filter(new).unzip();
    for row in query(client, sql!("compat_grants"), &[&homes, &names]).await? {
        client.batch_execute(row.try_get(0)?).await?;
    }
    Ok(())
}

/// A name that something bears.
struct TakenName {
    schema: String,
    name: String,
    /// An earlier run made it.
    ours: bool,
}

async fn taken(
    client: &ClientWrapper,
    schemas: &CompatSchemas,
) -> Result<Vec<TakenName>, tokio_postgres::Error> {
    let homes: Vec<&str> = NAMES.iter().map(|(home, _, _)| home.of(schemas)).collect();
    let names: Vec<&str> = NAMES.iter().map(|(_, name, _)| *name).collect();
    let functions: Vec<bool> = NAMES.iter().map(|(_, _, kind)| *kind == FUNCTION).collect();
    let rows = query(client, sql!("compat_present"), &[&homes, &names, &functions, &MARK]).await?;
    let taken = |row: &tokio_postgres::Row| {
        Ok(TakenName { schema: row.try_get(0)?, name: row.try_get(1)?, ours: row.try_get(2)? })
    };
    rows.iter().map(taken).collect()
}

fn refusal(foreign: &[String]) -> StoreError {
    let (first, are) = match foreign {
        [one] => (one.clone(), "is"),
        several => (several.join(", "), "are"),
    };
    StoreError::Refused(format!(
        "{first} {are} there already, and not made by `tidewire migrate --compat`; nothing was \
         changed. Rename what is there (ALTER … RENAME TO …), or name other schemas with \
         --compat-schema and --compat-public"
    ))
}

impl CompatSchema {
    fn of(self, schemas: &CompatSchemas) -> &str {
        match self {
            CompatSchema::App => &schemas.app,
            CompatSchema::Public => &schemas.public,
        }
    }
}

/// As SQL takes any name.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A name for people, in quotes only where it needs them.
fn qualified(schema: &str, name: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let needs_none = schema.chars().all(plain) && !schema.starts_with(|c: char| c.is_ascii_digit());
    if needs_none { format!("{schema}.{name}") } else { format!("{}.{name}", quoted(schema)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_of_others_are_refused() {
        for schema in ["tidewire", "pg_catalog", "information_schema", "", &"x".repeat(64)] {
            let refused = acceptable(schema).expect_err(schema);
            assert!(matches!(refused, StoreError::Refused(_)), "{schema}");
        }
        assert!(acceptable("My \"app\"").is_ok());
    }

    #[test]
    fn names_are_quoted_where_they_must_be() {
        assert_eq!(qualified("app", "outbox"), "app.outbox");
        assert_eq!(qualified("My \"app\"", "outbox"), "\"My \"\"app\"\"\".outbox");
        assert_eq!(qualified("1a", "outbox"), "\"1a\".outbox");
    }
}
