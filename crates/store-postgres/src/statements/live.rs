//! Reading for live queries.
//!
//! A read is one transaction. It locks the tables before it has a snapshot, because TRUNCATE and an ALTER
//! TABLE that rewrites are not seen as of a snapshot: behind the lock they lie wholly before the read, or
//! after it. Then one statement says what the snapshot sees, where the log ends in it, and whether the
//! tables are as the query knows them. The SELECT itself runs as a role that may read watched tables and
//! nothing else.
//!
//! `catalog` has the tables, `check` what a query would scan, `checked` those that were checked, `role` the role
//! and its rights, `errors` what is said of errors.

mod catalog;
mod check;
mod checked;
mod errors;
mod role;

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use futures_util::{StreamExt as _, pin_mut};
use serde_json::value::RawValue;
use tokio_postgres::SimpleQueryMessage;

use super::user_sessions::{UserSession, UserSessions};
use super::{GRACE, value};
use crate::PostgresStore;
use crate::connect::Connector;
use tidewire_store::error::StoreError;
use tidewire_store::queries::{CheckedQuery, LiveRead, LiveRows, ShapeView, TableRef};
use tidewire_store::sql::{SqlError, SqlLimits};

pub(crate) use role::make as make_role;

use catalog::CatalogSnapshot;
use checked::{CheckedRead, CheckedReads, ReadKey};
use errors::ReadFailure;

/// How long a read waits for someone who alters a table: long enough for most, and short for those who
/// wait behind it.
const LOCK_WAIT: Duration = Duration::from_secs(1);

/// What reads for live queries need.
#[derive(Debug)]
pub(crate) struct Live {
    user_sessions: UserSessions,
    role: String,
    checked: CheckedReads,
}

type JsonRows = Vec<Vec<Box<RawValue>>>;

/// What a transaction gave.
type ReadResult = (Arc<CheckedRead>, CatalogSnapshot, JsonRows);

impl Live {
    pub(crate) fn new(connector: &Arc<Connector>, connections: usize) -> Live {
        let user_sessions = UserSessions::new(connector, connections).keeping_plans();
        Live { user_sessions, role: connector.query_role.clone(), checked: CheckedReads::default() }
    }

    pub(crate) fn close(&self) {
        self.user_sessions.close();
    }
}

impl PostgresStore {
    /// What names stand for.
    pub(crate) async fn live_shapes(
        &self,
        tables: &[TableRef],
    ) -> Result<Vec<ShapeView>, StoreError> {
        let user_session = self.live.user_sessions.take(None).await?;
        let looked = catalog::names(&user_session.session.client, tables).await?;
        self.live.user_sessions.give_back_untouched(user_session);
        Ok(looked)
    }

    /// Looks at a query.
    pub(crate) async fn check_live(&self, read: &LiveRead) -> Result<CheckedQuery, SqlError> {
        let (checked, _, _) = self.in_live_session(read, false).await?;
        Ok(CheckedQuery { columns: checked.columns(), cost: checked.cost })
    }

    /// Runs a query.
    pub(crate) async fn read_live(&self, read: &LiveRead) -> Result<LiveRows, SqlError> {
        let (checked, catalog, rows) = self.in_live_session(read, true).await?;
        let CatalogSnapshot { tip, snapshot, settled, .. } = catalog;
        Ok(LiveRows { columns: checked.columns(), rows, tip, snapshot: Some(snapshot), settled })
    }

    /// Begins a read, and runs it if it is to be; once more if the role lacked a right that it could be
    /// given.
    async fn in_live_session(&self, read: &LiveRead, run: bool) -> Result<ReadResult, SqlError> {
        for granted in [false, true] {
            let user_session = self.live.user_sessions.take(read.account.as_ref()).await?;
            let done = self.live.once(&user_session.session.client, read, run);
            let done = tokio::time::timeout(whole(&read.limits), done).await;
            let failed = match done {
                Err(_) => {
                    user_session.cancel();
                    return Err(errors::too_slow(read.limits.timeout_ms));
                }
                Ok(Ok(done)) => {
                    self.end(user_session).await;
                    return Ok(done);
                }
                Ok(Err(failed)) => failed,
            };
            match failed {
                ReadFailure::Overflow(error) => {
                    // The rest of its rows is on the way, or yet to be made.
                    user_session.cancel();
                    return Err(error);
                }
                ReadFailure::Sql(error) => {
                    self.end(user_session).await;
                    return Err(error);
                }
                ReadFailure::NoRole => {
                    self.end(user_session).await;
                    return Err(self.role_trouble(None).await);
                }
                ReadFailure::Unread(tables) => {
                    self.end(user_session).await;
                    return Err(self.role_trouble(Some(tables)).await);
                }
                ReadFailure::Denied => {
                    self.end(user_session).await;
                    let lacking = self.let_role_read(read, granted).await?;
                    // Another may have given it the right meanwhile, so it is tried once more.
                    if granted && lacking.is_empty() {
                        return Err(errors::other_table());
                    }
                    if granted {
                        return Err(errors::lacking(&lacking));
                    }
                }
            }
        }
        Err(errors::other_table())
    }

    /// Ends the transaction, and clears the session away for the next one.
    async fn end(&self, user_session: UserSession) {
        if user_session.session.client.batch_execute("ROLLBACK").await.is_ok() {
            self.live.user_sessions.give_back(user_session);
        }
    }
}

/// How long a read may take with all that is ours about it.
fn whole(limits: &SqlLimits) -> Duration {
    Duration::from_millis(limits.timeout_ms) + LOCK_WAIT + GRACE
}

impl Live {
    async fn once(
        &self,
        client: &ClientWrapper,
        read: &LiveRead,
        run: bool,
    ) -> Result<ReadResult, ReadFailure> {
        let (checked, catalog) = self.begin(client, read).await?;
        let rows = if run { self.rows(client, read, &checked).await? } else { Vec::new() };
        Ok((checked, catalog, rows))
    }

    /// Begins a read: from here on the transaction has its snapshot, the tables are as the query was made
    /// for, and what it scans is known.
    async fn begin(
        &self,
        client: &ClientWrapper,
        read: &LiveRead,
    ) -> Result<(Arc<CheckedRead>, CatalogSnapshot), ReadFailure> {
        let key = ReadKey::of(read);
        let checked = self.checked.find(&key);
        let lock = match &checked {
            Some(checked) => checked.lock.clone(),
            None => catalog::lock(client, &read.tables).await?,
        };
        let whole_ms = whole(&read.limits).as_millis();
        let lock_wait_ms = LOCK_WAIT.as_millis();
        // The search path is the database's own: operators of its extensions are found by it.
        let begin = format!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
             SET LOCAL lock_timeout = {lock_wait_ms}; SET LOCAL statement_timeout = {whole_ms}; \
             SET LOCAL work_mem = '16MB'; SET LOCAL jit = off; \
             SET LOCAL max_parallel_workers_per_gather = 0; {lock}"
        );
        let begun = client.batch_execute(&begin).await;
        begun.map_err(|error| errors::of_lock(&error, &lock))?;
        let catalog = catalog::events(client, &read.tables).await?;
        if !catalog.is_as(&read.tables) {
            return Err(errors::shape_changed().into());
        }
        let checked = match checked {
            Some(checked) => checked,
            None => {
                let (columns, cost) = check::check(client, read, &self.role, &catalog).await?;
                self.checked.remember(key, CheckedRead { columns, cost, lock })
            }
        };
        Ok((checked, catalog))
    }

    /// Runs the SELECT. Its text was prepared before, so it is one statement.
    async fn rows(
        &self,
        client: &ClientWrapper,
        read: &LiveRead,
        checked: &CheckedRead,
    ) -> Result<JsonRows, ReadFailure> {
        let limits = &read.limits;
        role::act(client, &self.role, limits).await?;
        let failed = |error| errors::of_rows(&error, limits);
        let messages = client.simple_query_raw(&read.sql).await.map_err(failed)?;
        pin_mut!(messages);
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while let Some(message) = messages.next().await {
            let SimpleQueryMessage::Row(row) = message.map_err(failed)? else { continue };
            let mut values = Vec::with_capacity(checked.columns.len());
            for (index, (_, kind)) in checked.columns.iter().enumerate() {
                let text = row.get(index);
                // Before it is copied, because it may be immense. JSON has more bytes than the text, but for
                // bytes in hexadecimal digits and for quotes within quotes: half is left to those.
                let bytes_min = bytes + text.map_or(0, str::len) / 2;
                errors::within(rows.len() + 1, bytes_min, limits).map_err(ReadFailure::Overflow)?;
                let json = value::to_json(text, kind);
                bytes += json.len();
                values.push(RawValue::from_string(json).map_err(|_| errors::not_json())?);
            }
            rows.push(values);
            errors::within(rows.len(), bytes, limits).map_err(ReadFailure::Overflow)?;
        }
        Ok(rows)
    }
}
