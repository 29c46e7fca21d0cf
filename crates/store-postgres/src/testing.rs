//! Databases for tests, here and in other crates: each test has one of its own.

use tokio_postgres::{Client, NoTls};

/// The variable that names the server tests use; `./test` sets it.
pub const SERVER_VARIABLE: &str = "TIDEWIRE_TEST_DATABASE_URL";

/// A database of a test's own. Empty at first; left behind if it is not dropped.
#[derive(Debug)]
pub struct TestDatabase {
    server: String,
    /// What it is called on its server.
    pub name: String,
    /// Where it is, as `--database` takes it.
    pub url: String,
}

/// Makes an empty database with a name of its own on the server that
/// [`SERVER_VARIABLE`] names. Panics, and says why, if that cannot be done.
pub async fn fresh_database() -> TestDatabase {
    let Ok(server) = std::env::var(SERVER_VARIABLE) else {
        panic!("this test needs PostgreSQL: run ./test, or set {SERVER_VARIABLE}");
    };
    fresh_database_on(server).await
}

/// The same on a server of the test's own, whose URL it is.
pub async fn fresh_database_on(server: String) -> TestDatabase {
    let name = format!("tidewire_test_{}", uuid::Uuid::now_v7().simple());
    let url = with_database(&server, &name);
    let database = TestDatabase { server, name, url };
    database.run_on_server(&format!("CREATE DATABASE {}", database.name)).await;
    database
}

/// How often a database is dropped that somebody holds on to.
const DROPS_MAX: usize = 20;

impl TestDatabase {
    /// Removes the database, whoever is still connected to it, and its replication slots, without
    /// which it could not be.
    pub async fn drop_database(self) {
        let slots = format!(
            "DO $$ BEGIN
                FOR attempt IN 1..500 LOOP
                    PERFORM pg_terminate_backend(active_pid) FROM pg_replication_slots
                    WHERE database = '{0}' AND active_pid IS NOT NULL;
                    PERFORM pg_drop_replication_slot(slot_name) FROM pg_replication_slots
                    WHERE database = '{0}' AND active_pid IS NULL;
                    EXIT WHEN NOT EXISTS (
                        SELECT FROM pg_replication_slots WHERE database = '{0}'
                    );
                    PERFORM pg_sleep(0.01);
                END LOOP;
            END $$",
            self.name
        );
        let drop = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        // Whoever still captures its changes may make its slot anew between both.
        for _ in 0..DROPS_MAX {
            self.run_on_server(&slots).await;
            if connect(&self.server).await.simple_query(&drop).await.is_ok() {
                return;
            }
        }
        self.run_on_server(&drop).await;
    }

    /// Runs statements in the database, on a connection of their own, and returns the first column
    /// of the last result's rows as text.
    pub async fn run(&self, sql: &str) -> Vec<String> {
        run(&self.url, sql).await
    }

    /// A connection that is driven until the client is dropped.
    pub async fn connect(&self) -> Client {
        connect(&self.url).await
    }

    /// Runs a statement elsewhere on the server, where the database may be the object of it.
    pub async fn run_on_server(&self, sql: &str) {
        run(&self.server, sql).await;
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls)
        .await
        .unwrap_or_else(|error| panic!("cannot connect to {SERVER_VARIABLE}: {error:?}"));
    // Ends with its client, and a test's runtime ends whatever is left.
    tokio::spawn(connection);
    client
}

async fn run(url: &str, sql: &str) -> Vec<String> {
    let messages = connect(url).await.simple_query(sql).await;
    let messages = messages.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let rows = messages.iter().filter_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    rows.map(|row| row.get(0).unwrap_or_default().to_owned()).collect()
}

/// The server's URL with another database in it.
fn with_database(server: &str, name: &str) -> String {
    let (address, parameters) = server.split_once('?').unwrap_or((server, ""));
    let authority = address.find("://").map_or(0, |at| at + 3);
    let end = address[authority..].find('/').map_or(address.len(), |at| authority + at);
    let separator = if parameters.is_empty() { "" } else { "?" };
    format!("{}/{name}{separator}{parameters}", &address[..end])
}
