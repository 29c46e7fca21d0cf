//! Secrets that all nodes share: they lie in the store, and the first node that needs one makes it.

use aws_lc_rs::rand::{SecureRandom, SystemRandom};

use tidewire_store::SharedStore;

use crate::start_error::StartError;

const SECRET_BYTES: usize = 32;

/// The secret of a name.
pub async fn shared(store: &SharedStore, name: &str) -> Result<Vec<u8>, StartError> {
    let candidate = random::<SECRET_BYTES>()
        .ok_or_else(|| StartError::SigningKey("no randomness".to_owned()))?;
    Ok(store.secret(name, candidate.to_vec()).await?)
}

/// Bytes that nobody can guess.
pub fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(bytes)
}
