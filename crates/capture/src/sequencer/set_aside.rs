//! Rows that cannot become events: they are set aside and tried again, and in the end given up, while
//! the rest goes on.

use tidewire_store::StoreError;
use tidewire_store_postgres::captured::broken;

use super::Sequencer;
use super::move_rows::RejectedRows;
use crate::query::{execute, sql};

impl Sequencer<'_> {
    /// Sets aside what failed and removes what is not needed, in a commit of its own.
    pub(super) async fn set_aside(&self, rejected: &RejectedRows) -> Result<(), StoreError> {
        let client = self.leadership.client();
        let (ids, reasons): (Vec<i64>, Vec<&str>) =
            rejected.failed.iter().map(|(id, reason)| (*id, reason.as_str())).unzip();
        let retry_ms = i64::try_from(self.options.retry.as_millis()).unwrap_or(i64::MAX);
        let attempts_max = i32::try_from(self.options.attempts_max).unwrap_or(i32::MAX);
        let set_aside = async {
            client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
            execute(client, sql!("discard"), &[&rejected.needless]).await?;
            execute(client, sql!("fail"), &[&ids, &reasons, &retry_ms]).await?;
            let dead = execute(client, sql!("bury"), &[&ids, &attempts_max]).await?;
            client.batch_execute("COMMIT").await?;
            Ok(dead)
        };
        let dead = set_aside.await.map_err(broken("set aside what cannot be published"))?;
        self.leadership.link.counters().failed(ids.len() as u64, dead);
        for (id, reason) in &rejected.failed {
            tracing::warn!(id, reason, "a staged row cannot be published");
        }
        if dead > 0 {
            tracing::error!(dead, "rows were given up: see tidewire.dead_letters");
        }
        Ok(())
    }
}
