//! The role that live queries run as: it may read watched tables, and nothing of Tidewire's.

use deadpool_postgres::ClientWrapper;
use tokio_postgres::error::SqlState;

use super::errors::{self, ReadFailure};
use crate::PostgresStore;
use crate::error::{broken, text};
use crate::pool::PooledConnection;
use crate::query::{query, query_one, sql, texts};
use tidewire_store::error::StoreError;
use tidewire_store::queries::LiveRead;
use tidewire_store::sql::{SqlError, SqlLimits};

/// How often a right is given that others get in the way of: each has gone by when it is tried again.
const GRANT_TRIES: usize = 8;

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// How we stand to the role.
struct RoleRights {
    there: bool,
    /// We may act as it.
    ours: bool,
    /// Who we are.
    user: String,
}

impl RoleRights {
    async fn of(client: &ClientWrapper, role: &str) -> Result<RoleRights, tokio_postgres::Error> {
        let row = query_one(client, sql!("live_role"), &[&role]).await?;
        Ok(RoleRights { there: row.try_get(0)?, ours: row.try_get(1)?, user: row.try_get(2)? })
    }

    /// What has to be run before we may act as it, in order. Each is whole, with the names in it.
    fn needs(&self, role: &str) -> Vec<String> {
        let (role, user) = (quoted(role), quoted(&self.user));
        let make = (!self.there).then(|| format!("CREATE ROLE {role} NOLOGIN"));
        let act = (!self.ours).then(|| format!("GRANT {role} TO {user}"));
        make.into_iter().chain(act).collect()
    }
}

/// Makes the role, and lets us act as it, where we may. Where we may not, live queries say what to do.
pub(crate) async fn make(client: &ClientWrapper, role: &str) {
    let Ok(standing) = RoleRights::of(client, role).await else { return };
    let made = async {
        for statement in standing.needs(role) {
            client.batch_execute(&statement).await?;
        }
        Ok::<(), tokio_postgres::Error>(())
    };
    if let Err(error) = made.await {
        // Another node may have been quicker; whether it is there is seen when a query is read.
        let error = text(&error);
        tracing::debug!(role, error, "the role for live queries could not be made");
    }
}

/// Acts as the role, to the end of the transaction, for no longer than a query may take at a time.
pub(super) async fn act(
    client: &ClientWrapper,
    role: &str,
    limits: &SqlLimits,
) -> Result<(), ReadFailure> {
    let role = quoted(role);
    let timeout_ms = limits.timeout_ms.max(1);
    // Functions that a query calls are planned as the database is set to.
    let act = format!(
        "SET LOCAL ROLE {role}; SET LOCAL statement_timeout = {timeout_ms}; \
         SET LOCAL plan_cache_mode TO DEFAULT"
    );
    let Err(error) = client.batch_execute(&act).await else { return Ok(()) };
    // A role that is not there is a wrong value of a setting.
    let missing = [
        SqlState::INVALID_PARAMETER_VALUE,
        SqlState::UNDEFINED_OBJECT,
        SqlState::INSUFFICIENT_PRIVILEGE,
    ];
    match error.code() {
        Some(code) if missing.contains(code) => Err(ReadFailure::NoRole),
        _ => Err(errors::of_rows(&error, limits)),
    }
}

/// Acts as ourselves again, who take as long as a read may take as a whole.
pub(super) async fn act_as_ourselves(
    client: &ClientWrapper,
    limits: &SqlLimits,
) -> Result<(), ReadFailure> {
    let whole_ms = super::whole(limits).as_millis();
    let act = format!(
        "SET LOCAL ROLE NONE; SET LOCAL statement_timeout = {whole_ms}; \
         SET LOCAL plan_cache_mode = force_generic_plan"
    );
    let acting = client.batch_execute(&act).await;
    acting.map_err(|error| errors::of_rows(&error, limits))
}

/// Gives a right. Whether it helped is seen when the query is read again.
///
/// Two changes of one table's entry in the catalogue do not pass each other: the later one waits, and then fails
/// ("tuple concurrently updated"), which PostgreSQL takes for an error of its own. Who watches a table, changes its
/// rights or has another node follow a query of it at that moment would keep the role from reading.
async fn grant(client: &ClientWrapper, statement: &str) {
    for _ in 0..GRANT_TRIES {
        let Err(error) = client.batch_execute(statement).await else { return };
        tracing::debug!(statement, error = text(&error), "a right was not granted");
        if error.code() != Some(&SqlState::INTERNAL_ERROR) {
            return;
        }
    }
}

impl PostgresStore {
    /// What the role lacks to read a query's tables, as statements. They are tried, unless they were
    /// before.
    pub(super) async fn let_role_read(
        &self,
        read: &LiveRead,
        tried: bool,
    ) -> Result<Vec<String>, SqlError> {
        let tables: &Vec<&str> = &read.tables.iter().map(|(name, _)| name.as_str()).collect();
        let role = &self.live.role;
        let lacking = |client: PooledConnection| async move {
            let rows = query(&client, sql!("live_grants"), &[role, &Some(tables)]).await;
            let lacking = rows.and_then(|rows| texts(&rows));
            let lacking = lacking.map_err(broken("look at the role of live queries"))?;
            if !tried {
                for statement in &lacking {
                    grant(&client, statement).await;
                }
            }
            Ok::<_, StoreError>(lacking)
        };
        Ok(self.pool.read(lacking).await?)
    }

    /// What someone has to run before live queries of a table, or of all that are watched, can be read; without
    /// what the server may run itself, and does when it is needed.
    pub(crate) async fn live_needs(&self, table: Option<&str>) -> Result<Vec<String>, StoreError> {
        let role = &self.live.role;
        let tables: &Option<Vec<&str>> = &table.map(|table| vec![table]);
        let look = |client: PooledConnection| async move {
            let looked = async {
                let mut needs = RoleRights::of(&client, role).await?.needs(role);
                for row in query(&client, sql!("live_grants"), &[role, tables]).await? {
                    if !row.try_get(1)? {
                        needs.push(row.try_get(0)?);
                    }
                }
                Ok(needs)
            };
            looked.await.map_err(broken("look at the role of live queries"))
        };
        self.pool.read(look).await
    }

    /// Says what to run where we may not act as the role, or not read a table ourselves.
    pub(super) async fn role_trouble(&self, unread: Option<String>) -> SqlError {
        let role = &self.live.role;
        let standing = |client: PooledConnection| async move {
            let standing = RoleRights::of(&client, role).await;
            standing.map_err(broken("look at the role of live queries"))
        };
        match (self.pool.read(standing).await, unread) {
            (Err(error), _) => error.into(),
            (Ok(standing), None) => errors::no_role(&standing.needs(role)),
            (Ok(standing), Some(tables)) => errors::unread(&tables, &quoted(&standing.user)),
        }
    }
}
