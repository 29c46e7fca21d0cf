//! Reloads the certificate while the server runs.
//!
//! Whoever renews certificates replaces files and tells nobody, so the files are looked at now and
//! then. Connections keep what they were made with; those that come later get what is in force.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use rustls::ServerConfig;
use tokio_util::sync::CancellationToken;

use super::certificate::{Pem, TlsError, TlsOptions};

/// How often to look: soon enough for one who waits for it, and two small files cost nothing.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What became of a certificate that was found while running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Swapped,
    Refused,
}

impl Outcome {
    /// By which it is counted.
    pub fn label(self) -> &'static str {
        match self {
            Outcome::Swapped => "swapped",
            Outcome::Refused => "refused",
        }
    }
}

/// What new connections are served with.
pub struct CertificateReloader {
    files: TlsOptions,
    in_force: RwLock<InForce>,
}

/// What was read, and what was made of it.
struct InForce {
    pem: Pem,
    config: Arc<ServerConfig>,
}

impl std::fmt::Debug for CertificateReloader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").field("files", &self.files).finish_non_exhaustive()
    }
}

impl CertificateReloader {
    /// Reads the files for the first time.
    pub fn open(files: &TlsOptions) -> Result<CertificateReloader, TlsError> {
        let pem = Pem::read(files)?;
        let config = pem.server_config(files)?;
        Ok(CertificateReloader {
            files: files.clone(),
            in_force: RwLock::new(InForce { pem, config }),
        })
    }

    /// What is in force.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.in_force().config)
    }

    fn in_force(&self) -> RwLockReadGuard<'_, InForce> {
        self.in_force.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the files until told to stop, and notes what became of those that were new.
    pub async fn watch(&self, stop: CancellationToken, note: impl Fn(Outcome)) {
        let mut watch = Watch::default();
        let mut round = tokio::time::interval(LOOK_EVERY);
        round.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = round.tick() => {}
            }
            let files = self.files.clone();
            let Ok(read) = tokio::task::spawn_blocking(move || Pem::read(&files)).await else {
                return;
            };
            watch.take(self, read, &note);
        }
    }

    fn swap(&self, pem: Pem, config: Arc<ServerConfig>) {
        *self.in_force.write().unwrap_or_else(PoisonError::into_inner) = InForce { pem, config };
    }
}

/// What was seen in the files, and was of no use.
#[derive(Default)]
struct Watch {
    refused: Option<Refused>,
}

#[derive(PartialEq, Eq)]
struct Refused {
    /// None: a file could not be read.
    pem: Option<Pem>,
    said: bool,
}

impl Watch {
    fn take(
        &mut self,
        keeper: &CertificateReloader,
        read: Result<Pem, TlsError>,
        note: &impl Fn(Outcome),
    ) {
        let (pem, error) = match read {
            Ok(pem) if pem == keeper.in_force().pem => {
                self.refused = None;
                return;
            }
            Ok(pem) => match pem.server_config(&keeper.files) {
                Ok(config) => {
                    keeper.swap(pem, config);
                    self.refused = None;
                    note(Outcome::Swapped);
                    let file = keeper.files.certificate.display();
                    tracing::info!(%file, "new connections get the new certificate");
                    return;
                }
                Err(error) => (Some(pem), error),
            },
            Err(error) => (None, error),
        };
        match &mut self.refused {
            Some(refused) if refused.pem == pem => {
                // Two files are not replaced in one step: only what stays is worth a warning.
                if !std::mem::replace(&mut refused.said, true) {
                    note(Outcome::Refused);
                    tracing::warn!(%error, "could not load the new certificate; the old one stays in use");
                }
            }
            other => *other = Some(Refused { pem, said: false }),
        }
    }
}
