//! What becomes of the log when its database is not the one that is noted: decided when a node opens
//! it, under the offset lock, by `postgres.failover`.

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::error::broken;
use super::identity::{Abilities, Identity, IdentityCheck, Verdict};
use super::load::OFFSET_LOCK;
use super::query::sql;
use crate::options::Failover;
use tidewire_store::backup::next_epoch;
use tidewire_store::error::StoreError;
use tidewire_store::offset::{Epoch, Offset};

const OPERATION: &str = "see which database this is";

/// What is noted and what is found.
pub(crate) async fn standing(
    client: &Client,
    abilities: Abilities,
) -> Result<IdentityCheck, StoreError> {
    let read = async {
        let row = client.query_one(&*abilities.fit(sql!("head")), &[]).await?;
        IdentityCheck::of_row(&row, 2)
    };
    read.await.map_err(broken(OPERATION))
}

/// Compares what is noted with what is found, sees to what follows from it, and returns the log's
/// epoch.
pub(crate) async fn settle(
    client: &Client,
    failover: Failover,
    abilities: Abilities,
) -> Result<Epoch, StoreError> {
    let seen = standing(client, abilities).await?;
    if seen.halted.is_none() && seen.noted.verdict(&seen.found) == Verdict::Same {
        return seen.epoch();
    }
    let settled = under_the_lock(client, failover, abilities).await;
    if settled.is_err() {
        // If this fails the connection is broken, and the server ends the transaction.
        let _ = client.batch_execute("ROLLBACK").await;
    }
    settled
}

async fn under_the_lock(
    client: &Client,
    failover: Failover,
    abilities: Abilities,
) -> Result<Epoch, StoreError> {
    begin(client).await?;
    // Another node may have seen to it meanwhile.
    let standing = standing(client, abilities).await?;
    if let Some(why) = &standing.halted {
        return Err(StoreError::Refused(halted(why)));
    }
    let (why, elsewhere) = match standing.noted.verdict(&standing.found) {
        Verdict::Same => return end(client, standing.epoch()?).await,
        Verdict::Unnoted => return note_first(client, &standing).await,
        Verdict::Promoted(why) => (why, false),
        Verdict::Elsewhere(why) => (why, true),
    };
    let epoch = match failover {
        Failover::Stop => return Err(StoreError::Refused(stopped(&why))),
        Failover::Lossless => {
            note(client, &standing.found).await?;
            standing.epoch()?
        }
        Failover::NewEpoch => {
            let next = next_epoch(standing.epoch()?, None, None)?;
            begin_anew(client, next, &standing.found, elsewhere).await?;
            next
        }
    };
    let epoch = end(client, epoch).await?;
    match failover {
        Failover::Lossless => tracing::warn!(
            why,
            epoch = epoch.number(),
            "the database failed over; postgres.failover is \"lossless\", so the log goes on"
        ),
        _ => tracing::error!(
            why,
            epoch = epoch.number(),
            tip = %standing.tip.in_epoch(epoch),
            "THE DATABASE FAILED OVER, and the newest events may be missing: the log begins a new \
             epoch. Offsets of before are answered 410, and clients begin anew. See BACKUP.md"
        ),
    }
    Ok(epoch)
}

/// Begins a transaction with the offset lock, whose commit is durable.
pub(crate) async fn begin(client: &Client) -> Result<(), StoreError> {
    let begin = async {
        client.batch_execute("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
        client
            .batch_execute("SET LOCAL synchronous_commit = on; SET LOCAL lock_timeout = '10s'")
            .await?;
        client.execute(sql!("lock"), &[&OFFSET_LOCK]).await.map(drop)
    };
    begin.await.map_err(broken("take the offset lock"))
}

async fn end(client: &Client, epoch: Epoch) -> Result<Epoch, StoreError> {
    client.batch_execute("COMMIT").await.map_err(broken(OPERATION))?;
    Ok(epoch)
}

async fn note(client: &Client, found: &Identity) -> Result<(), StoreError> {
    let noted = client.execute(sql!("identity_note"), &[&found.timeline, &found.system]).await;
    noted.map(drop).map_err(broken("note which database this is"))
}

/// A role that may use the log and not change its epoch leaves the noting to others.
async fn note_first(client: &Client, standing: &IdentityCheck) -> Result<Epoch, StoreError> {
    let found = &standing.found;
    let noted = client.execute(sql!("identity_note"), &[&found.timeline, &found.system]).await;
    match noted {
        Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            tracing::warn!(
                "this role may not UPDATE tidewire.log_epoch: a failover may go unnoticed"
            );
            client.batch_execute("ROLLBACK").await.map_err(broken(OPERATION))?;
            standing.epoch()
        }
        Err(error) => Err(broken("note which database this is")(error)),
        Ok(_) => end(client, standing.epoch()?).await,
    }
}

/// Gives the log a new epoch, in a transaction that holds the offset lock, and forgets what must not
/// outlast one. In another cluster, tables and transactions have other numbers besides.
pub(crate) async fn begin_anew(
    client: &Client,
    epoch: Epoch,
    found: &Identity,
    elsewhere: bool,
) -> Result<(), StoreError> {
    let work = async {
        let number = i16::try_from(epoch.number()).unwrap_or(i16::MAX);
        let raise = sql!("restore_epoch");
        client.execute(raise, &[&number, &found.timeline, &found.system]).await?;
        client.execute(sql!("restore_forget"), &[]).await?;
        if elsewhere {
            client.execute(sql!("restore_capture"), &[]).await?;
        }
        Ok(())
    };
    work.await.map_err(broken("begin a new epoch"))
}

/// Notes that nobody may give offsets, so that a node that is started again does not either.
pub(crate) async fn halt(client: &Client, why: &str) -> Result<(), StoreError> {
    let halt = async {
        client.batch_execute("SET synchronous_commit = on").await?;
        client.execute(sql!("identity_halt"), &[&why]).await.map(drop)
    };
    halt.await.map_err(broken("note that the log ends too early"))
}

/// What was seen when the log is shorter than it was.
pub(crate) fn shorter(tip: Offset, seen: Offset) -> String {
    format!("the log ends at {tip}, and this node has seen {seen}")
}

/// To the operator, of a log that is halted.
pub(crate) fn halted(why: &str) -> String {
    format!(
        "{why}: the database was replaced by an older state of itself, and its offsets would be \
         given again. Stop all nodes and run `tidewire restore --database URL`, which begins a new \
         epoch; see BACKUP.md"
    )
}

fn stopped(why: &str) -> String {
    format!(
        "the database failed over or is a copy ({why}), and postgres.failover is \"stop\". If the \
         newest events may be missing, run `tidewire restore --database URL` or set it to \
         \"new_epoch\"; if nothing is missing, set it to \"lossless\". See BACKUP.md"
    )
}
