//! Connections for reads, and for the short transactions of upkeep and subscriptions.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use deadpool_postgres::{
    Connect, Hook, HookError, Manager, ManagerConfig, Object, PoolError, RecyclingMethod, Runtime,
};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Config, Error};

use super::connect::{Connector, Patience};
use super::error::broken;
use tidewire_store::error::StoreError;

/// A read that takes longer than this is given up by the server.
const SETTINGS: &str = "SET statement_timeout = '5s'";

/// The pool. Clones share its connections.
#[derive(Debug, Clone)]
pub(crate) struct Pool {
    inner: deadpool_postgres::Pool,
    connector: Arc<Connector>,
}

impl Pool {
    pub(crate) fn new(connector: &Arc<Connector>, connections: usize) -> Result<Pool, StoreError> {
        // Whether a connection is closed is known without asking the server. One that is found
        // broken in use is replaced by `read`, so asking before every read would buy nothing.
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let connect = PoolConnector(Arc::clone(connector));
        let manager = Manager::from_connect(connector.config().clone(), connect, recycling);
        let fence = Arc::clone(&connector.fence);
        let admit = Hook::async_fn(move |client, _| {
            let fence = Arc::clone(&fence);
            Box::pin(async move {
                let admitted = fence.admit(client).await;
                admitted.map_err(|error| HookError::message(error.to_string()))
            })
        });
        let inner = deadpool_postgres::Pool::builder(manager)
            .post_create(admit)
            .max_size(connections.max(1))
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(connector.timeout))
            .create_timeout(Some(connector.timeout))
            .build()
            .map_err(|error| StoreError::Refused(format!("cannot make a pool: {error}")))?;
        Ok(Pool { inner, connector: Arc::clone(connector) })
    }

    pub(crate) fn close(&self) {
        self.inner.close();
    }

    /// A connection. While the database is away it is waited for, within the timeout.
    async fn get(&self) -> Result<Object, StoreError> {
        let mut patience = Patience::new(self.connector.timeout);
        loop {
            let error = match self.inner.get().await {
                Ok(object) => return Ok(object),
                Err(PoolError::Closed) => return Err(StoreError::Closed),
                Err(PoolError::Timeout(_)) => {
                    let text = format!("no connection in {:?}", self.connector.timeout);
                    return Err(StoreError::Unavailable(text));
                }
                Err(PoolError::Backend(error)) => broken("connect to PostgreSQL")(error),
                Err(error) => StoreError::Unavailable(error.to_string()),
            };
            if self.connector.fence.is_replaced() {
                return Err(StoreError::Replaced(error.to_string()));
            }
            if !error.temporary() || !patience.wait().await {
                return Err(error);
            }
        }
    }

    /// Runs single statements. If the connection turns out to be broken they are run once more, on
    /// another one.
    pub(crate) async fn read<T, F>(
        &self,
        work: impl Fn(PooledConnection) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let client = Arc::new(self.get().await?);
        match work(Arc::clone(&client)).await {
            Err(StoreError::Unavailable(_)) if client.simple_query("").await.is_err() => {
                drop(client);
                work(Arc::new(self.get().await?)).await
            }
            other => other,
        }
    }

    /// Runs a transaction, which `work` begins and commits. If the connection breaks before the
    /// commit it is run once more, on another one.
    pub(crate) async fn write<T, F>(
        &self,
        work: impl Fn(PooledConnection) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let (result, alive) = self.transact(&work).await?;
        if !alive && matches!(result, Err(StoreError::Unavailable(_))) {
            return self.transact(&work).await?.0;
        }
        result
    }

    /// Runs a transaction once, and says besides whether the connection still answers.
    async fn transact<T, F>(
        &self,
        work: &impl Fn(PooledConnection) -> F,
    ) -> Result<(Result<T, StoreError>, bool), StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let unclean = UncleanConnection(Some(Arc::new(self.get().await?)));
        let Some(lent) = &unclean.0 else {
            return Err(StoreError::Closed);
        };
        let result = work(Arc::clone(lent)).await;
        let alive = result.is_ok() || lent.batch_execute("ROLLBACK").await.is_ok();
        if alive {
            unclean.give_back();
        }
        Ok((result, alive))
    }
}

/// A connection of the pool, for as long as someone holds on to it.
pub(crate) type PooledConnection = Arc<Object>;

/// A connection that may be in a transaction. Unless it is known not to be, because the caller saw
/// the end of it, it is closed rather than given back: the transaction may hold the offset lock.
struct UncleanConnection(Option<PooledConnection>);

impl UncleanConnection {
    fn give_back(mut self) {
        self.0 = None;
    }
}

impl Drop for UncleanConnection {
    fn drop(&mut self) {
        // Nobody else holds on to it: the work it was lent to is dropped before.
        if let Some(object) = self.0.take().and_then(Arc::into_inner) {
            drop(Object::take(object));
        }
    }
}

/// How the pool connects: as everyone does here, so that the tasks are owned.
struct PoolConnector(Arc<Connector>);

impl Connect for PoolConnector {
    fn connect(
        &self,
        _config: &Config,
    ) -> Pin<Box<dyn Future<Output = Result<(Client, JoinHandle<()>), Error>> + Send + '_>> {
        Box::pin(async {
            let (client, task, _ended) = self.0.open(SETTINGS).await?;
            Ok((client, task))
        })
    }
}
