//! `tidewire restore`: replaces the embedded store by a backup, or finishes a restored PostgreSQL database.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use tidewire_store::{RestoreOptions, Restored};

use crate::config::{Settings, StoreOptions};
use crate::server::store::place;

/// Restores, and says what those will see who were there before.
pub(crate) async fn run(
    settings: &Settings,
    file: Option<&Path>,
    restore: RestoreOptions,
) -> anyhow::Result<ExitCode> {
    let options = settings.store();
    let restored = match (&options, file) {
        (StoreOptions::Sqlite(options), Some(file)) => {
            tidewire_store_sqlite::restore(file, &options.folder, &restore)?
        }
        (StoreOptions::Sqlite(_), None) => {
            bail!("name the backup: tidewire restore FILE --data DIR")
        }
        (StoreOptions::Postgres(_), Some(_)) => bail!(
            "a PostgreSQL database is restored with pg_restore or the like first; after that, \
             `tidewire restore --database URL` without a file finishes it. See BACKUP.md"
        ),
        (StoreOptions::Postgres(_), None) if restore.replace => {
            bail!("--replace is for the embedded store: it does not move a database aside")
        }
        (StoreOptions::Postgres(options), None) => {
            tidewire_store_postgres::restore(options, &restore).await?
        }
    };
    write!(std::io::stdout().lock(), "{}", report(&restored, &place(&options)))?;
    Ok(ExitCode::SUCCESS)
}

fn report(restored: &Restored, place: &str) -> String {
    let Restored { epoch_before, epoch, tip, replaced } = restored;
    let mut text = format!(
        "The store {place} is restored up to offset {}.\n\
         Its epoch is {}; the backup's was {}. Offsets of any other epoch are answered 410\n\
         (offset_of_another_epoch), and their clients start afresh. Sessions and tickets are gone.\n\
         Keys are as they were: revoke again what was revoked since (tidewire keys list).\n\
         If this backup was restored before and used, start over with an --epoch above that one's.\n",
        tip.in_epoch(*epoch),
        epoch.number(),
        epoch_before.number(),
    );
    if let Some(replaced) = replaced {
        text += &format!("The store that was there is {}.\n", replaced.display());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_store::{Epoch, Position};

    #[test]
    fn the_report_says_what_clients_will_see() {
        let restored = Restored {
            epoch_before: Epoch::FIRST,
            epoch: Epoch::new(2).expect("in range"),
            tip: Position::new(42),
            replaced: Some("data/tidewire.replaced-1.db".into()),
        };
        insta::assert_snapshot!(report(&restored, "in data"));
    }
}
