//! Finds a row that the log does not take, by trying halves of its transaction.

use tidewire_store::StoreError;

use super::batch::Waiting;
use super::moving::{Rows, Unfit};
use super::{Done, Sequencer};

impl Sequencer<'_> {
    /// Sets one row of a transaction aside that the log does not take. There may be more of them: the
    /// next look finds those.
    pub(super) async fn single_out(&self, transaction: &Waiting) -> Result<Done, StoreError> {
        let mut suspects = transaction.clone();
        loop {
            let half = suspects.rows.div_ceil(2);
            let second = if suspects.rows > 1 {
                self.id_after(&suspects, suspects.first_id, half).await?
            } else {
                None
            };
            let first_half = Waiting {
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
                    self.settle(&Unfit { failed, ..Unfit::default() }).await?;
                    return Ok(Done::LookAgain);
                }
                // It was refused before and is not any more.
                (None, None) => return Ok(Done::LookAgain),
                (Some(_), _) => suspects = first_half,
                (None, Some(id)) => {
                    suspects.first_id = id;
                    suspects.rows -= half;
                }
            }
            // An id for which there is a row, so that the last suspect is named by it.
            match self.id_after(&suspects, suspects.first_id, 0).await? {
                Some(id) => suspects.first_id = id,
                None => return Ok(Done::LookAgain),
            }
        }
    }

    /// Tries rows without committing them, and returns why they are refused, if they are.
    async fn refused(&self, rows: &Waiting) -> Result<Result<Option<String>, Done>, StoreError> {
        let head = match self.begin().await? {
            Ok(head) => head,
            Err(end) => return Ok(Err(Done::Ended(end))),
        };
        let tried = self.write(head, &Rows::of(std::slice::from_ref(rows))).await;
        self.roll_back().await?;
        match tried {
            Ok(Ok(_)) => Ok(Ok(None)),
            Ok(Err(unfit)) => {
                self.settle(&unfit).await?;
                Ok(Err(Done::LookAgain))
            }
            Err(StoreError::Broken { reason, .. }) => Ok(Ok(Some(reason))),
            Err(error) => Err(error),
        }
    }
}
