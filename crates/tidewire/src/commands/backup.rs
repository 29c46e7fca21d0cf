//! `tidewire backup`: a copy of the embedded store, also while a server writes to it.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use tidewire_store::{Backup, BackupProgress};

use crate::config::{Settings, StoreOptions};

/// Width of the bar.
const BAR_CELLS: u64 = 40;

/// Makes the backup, and says what is in it.
pub(crate) fn run(settings: &Settings, file: &Path) -> anyhow::Result<ExitCode> {
    let StoreOptions::Sqlite(options) = settings.store() else {
        bail!(
            "a PostgreSQL database is backed up with PostgreSQL's own tools, such as pg_dump; see \
             BACKUP.md. Leave `database` out to back up the embedded store"
        );
    };
    let mut bar = Bar::new();
    let made =
        tidewire_store_sqlite::backup(&options.folder, file, &mut |progress| bar.show(progress));
    bar.end();
    let Backup { epoch, tip, bytes } = made?;
    writeln!(
        std::io::stdout().lock(),
        "{}: the store in {} up to offset {}, {bytes} bytes, checked",
        file.display(),
        options.folder.display(),
        tip.in_epoch(epoch)
    )?;
    Ok(ExitCode::SUCCESS)
}

/// A bar on a terminal, and nothing elsewhere.
struct Bar {
    terminal: bool,
    shown: Option<u64>,
}

impl Bar {
    fn new() -> Bar {
        Bar { terminal: std::io::stderr().is_terminal(), shown: None }
    }

    fn show(&mut self, progress: BackupProgress) {
        let text = bar(progress);
        let percent = percent(progress);
        if self.terminal && self.shown != Some(percent) {
            self.shown = Some(percent);
            // Whoever closed the terminal does not stop the backup.
            let _ = write!(std::io::stderr(), "\r{text}");
        }
    }

    fn end(&self) {
        if self.shown.is_some() {
            let _ = writeln!(std::io::stderr());
        }
    }
}

fn percent(BackupProgress { done, total }: BackupProgress) -> u64 {
    (done * 100).checked_div(total).unwrap_or(100)
}

fn bar(progress: BackupProgress) -> String {
    let percent = percent(progress);
    let full = usize::try_from(percent * BAR_CELLS / 100).unwrap_or(0);
    let width = usize::try_from(BAR_CELLS).unwrap_or(0);
    format!("[{:<width$}] {percent:>3} %", "#".repeat(full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills() {
        let at = |done, total| bar(BackupProgress { done, total });
        assert_eq!(at(0, 10), format!("[{}]   0 %", " ".repeat(40)));
        assert_eq!(at(5, 10), format!("[{}{}]  50 %", "#".repeat(20), " ".repeat(20)));
        assert_eq!(at(10, 10), format!("[{}] 100 %", "#".repeat(40)));
        assert_eq!(at(0, 0), format!("[{}] 100 %", "#".repeat(40)), "there was nothing to do");
    }
}
