//! The contract on PostgreSQL: every test has a database of its own, on the server that
//! `TIDEWIRE_TEST_DATABASE_URL` names. Without one the tests fail; they never pass unseen.

use async_trait::async_trait;
use tidewire_store::SharedStore;
use tidewire_store_contract::Opener;
use tidewire_store_postgres::PostgresOptions;
use tidewire_store_postgres::PostgresStore;
use tidewire_store_postgres::testing::{TestDatabase, fresh_database};

struct Database(TestDatabase);

#[async_trait]
impl Opener for Database {
    async fn open(&self) -> SharedStore {
        let options = PostgresOptions::new(&self.0.url);
        PostgresStore::open(options).await.expect("the database opens")
    }

    async fn run_sql(&self, sql: &str) -> Vec<String> {
        self.0.run(sql).await
    }

    async fn discard(self) {
        self.0.drop_database().await;
    }
}

async fn fresh() -> Database {
    Database(fresh_database().await)
}

tidewire_store_contract::contract_suite!(fresh().await);
tidewire_store_contract::contract_suite!(nodes: fresh().await);
tidewire_store_contract::contract_suite!(group_nodes: fresh().await);
