//! Finds a row that the log does not take, by trying halves of its transaction.

use tidewire_store::StoreError;

use super::batch::WaitingTransaction;
use super::move_rows::{RejectedRows, StagedRange};
use super::{Sequencer, StepOutcome};

impl Sequencer<'_> {
    /// Sets one row of a transaction aside that the log does not take. There may be more of them: the
    /// next look finds those.
    pub(super) async fn single_out(
        &self,
        transaction: &WaitingTransaction,
    ) -> Result<StepOutcome, StoreError> {
        let mut suspects = transaction.clone();
        loop {
            let half = suspects.rows.div_ceil(2);
            let second = if suspects.rows > 1 {
                self.id_after(&suspects, suspects.first_id, half).await?
            } else {
                None
            };
            let first_half = WaitingTransaction {
                last_id: second.map_or(suspects.last_id, |id| id - 1),
                rows: if second.is_some() { half } else { suspects.rows },
                ..suspects.clone()
            };
            let refused = match self.refused(&first_half).await? {
                Ok(refused) => refused,
                Err(done) => return Ok(done),
            };
            match (refused, second) {
                (Some(reason), None) if first_half.rows <= 1 => {
                    let failed = vec![(first_half.first_id, reason)];
                    self.set_aside(&RejectedRows { failed, ..RejectedRows::default() }).await?;
                    return Ok(StepOutcome::LookAgain);
                }
                // It was refused before and is not any more.
                (None, None) => return Ok(StepOutcome::LookAgain),
                (Some(_), _) => suspects = first_half,
                (None, Some(id)) => {
                    suspects.first_id = id;
                    suspects.rows -= half;
                }
            }
            // An id for which there is a row, so that the last suspect is named by it.
            match self.id_after(&suspects, suspects.first_id, 0).await? {
                Some(id) => suspects.first_id = id,
                None => return Ok(StepOutcome::LookAgain),
            }
        }
    }

    /// Tries rows without committing them, and returns why they are refused, if they are.
    async fn refused(
        &self,
        rows: &WaitingTransaction,
    ) -> Result<Result<Option<String>, StepOutcome>, StoreError> {
        let head = match self.begin().await? {
            Ok(head) => head,
            Err(end) => return Ok(Err(StepOutcome::Ended(end))),
        };
        let tried = self.write(head, &StagedRange::of(std::slice::from_ref(rows))).await;
        self.roll_back().await?;
        match tried {
            Ok(Ok(_)) => Ok(Ok(None)),
            Ok(Err(rejected)) => {
                self.set_aside(&rejected).await?;
                Ok(Err(StepOutcome::LookAgain))
            }
            Err(StoreError::Broken { reason, .. }) => Ok(Ok(Some(reason))),
            Err(error) => Err(error),
        }
    }
}
