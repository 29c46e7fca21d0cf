//! Fresh databases, and SQL on them.

use std::ops::Deref;

use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};

/// A database of the cluster that `./test` started, empty, for one server or several. It need not be
/// dropped: the whole cluster goes when the run is over.
pub async fn fresh_database() -> String {
    let cluster = cluster();
    let name = format!("story_{}", uuid::Uuid::new_v4().simple());
    let sql = Sql::connect(&cluster)
        .await
        .unwrap_or_else(|error| panic!("cannot reach {cluster}: {error}"));
    sql.batch_execute(&format!("CREATE DATABASE {name}")).await.expect("CREATE DATABASE");
    with_database(&cluster, &name)
}

/// Drops a database, with the connections that servers have left behind.
pub async fn drop_database(url: &str) {
    let url = reqwest::Url::parse(url).expect("a database's URL");
    let name = url.path().trim_start_matches('/');
    let sql = Sql::connect(&cluster()).await.expect("a connection");
    sql.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await.expect("DROP DATABASE");
}

fn cluster() -> String {
    std::env::var("TIDEWIRE_TEST_DATABASE_URL").unwrap_or_else(|_| {
        panic!(
            "TIDEWIRE_TEST_DATABASE_URL is not set: run ./test, which starts a PostgreSQL cluster \
             and sets it"
        )
    })
}

/// A database's URL, for another database of the same cluster.
fn with_database(url: &str, name: &str) -> String {
    let mut url = reqwest::Url::parse(url).expect("TIDEWIRE_TEST_DATABASE_URL is a URL");
    url.set_path(name);
    url.to_string()
}

/// A connection for a test's own questions. Closed when dropped.
#[derive(Debug)]
pub struct Sql {
    client: Client,
    _connection: JoinSet<()>,
}

impl Sql {
    /// Connects.
    pub async fn connect(url: &str) -> Result<Sql, tokio_postgres::Error> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        let mut task = JoinSet::new();
        task.spawn(async move {
            // A broken connection shows in the next question.
            let _ = connection.await;
        });
        Ok(Sql { client, _connection: task })
    }

    /// Asks for one number.
    pub async fn number(&self, question: &str) -> i64 {
        let row = self.client.query_one(question, &[]).await;
        row.unwrap_or_else(|error| panic!("{question}: {error:?}")).get(0)
    }
}

impl Deref for Sql {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}
