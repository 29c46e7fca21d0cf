//! The contract on SQLite: every test has a folder of its own.

use async_trait::async_trait;
use tempfile::TempDir;
use tidewire_store::contract::Opener;
use tidewire_store::sqlite::SqliteStore;
use tidewire_store::{SharedStore, SqliteOptions};

struct Folder(TempDir);

#[async_trait]
impl Opener for Folder {
    async fn open(&self) -> SharedStore {
        SqliteStore::open(SqliteOptions::new(self.0.path())).await.expect("the folder opens")
    }
}

fn fresh() -> Folder {
    Folder(tempfile::tempdir().expect("a temporary folder"))
}

tidewire_store::contract_suite!(fresh());
