//! The contract in memory, as far as it is about no tables: every test has data of its own.

use std::sync::Arc;

use async_trait::async_trait;
use tidewire_store::memory::{MemoryData, MemoryStore};
use tidewire_store::{Clock, SharedStore};
use tidewire_store_contract::Opener;

struct Data(Arc<MemoryData>);

#[async_trait]
impl Opener for Data {
    async fn open(&self) -> SharedStore {
        MemoryStore::open(&self.0)
    }

    async fn run_sql(&self, sql: &str) -> Vec<String> {
        panic!("there is no SQL here, but this was asked for: {sql}");
    }
}

fn fresh() -> Data {
    Data(MemoryData::new(Clock::system()))
}

tidewire_store_contract::contract_suite!(log: fresh());
tidewire_store_contract::contract_suite!(subscriptions: fresh());
tidewire_store_contract::contract_suite!(sessions: fresh());
tidewire_store_contract::contract_suite!(access: fresh());
tidewire_store_contract::contract_suite!(entities: fresh());
tidewire_store_contract::contract_suite!(nodes: fresh());
