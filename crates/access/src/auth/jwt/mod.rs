//! JSON Web Tokens of end users: made elsewhere, verified here.
//!
//! - `refusal`: why a token is not accepted
//! - `check`: the whole decision about one token, as a pure function; `claims`: what a token says
//! - `keys`: a JSON Web Key Set as far as it can be trusted; `source`: where it is read
//! - `refresh`: the background task that keeps the set fresh
//!
//! What holds: **the key decides the algorithm.** Every key works with exactly one algorithm, fixed
//! when the key is configured or loaded, and a token that names another one is refused before any
//! signature is computed. Keys come from the configuration and from its JWKS alone; what a token
//! brings along (`jwk`, `jku`, `x5u`, `x5c`) is never looked at.
//!
//! A token's text is no identity: of an ES256 signature `(r, s)` the mirror `(r, n - s)` is as valid,
//! as the standard has it, so the same token has two spellings. Everything else has one: base64 with
//! padding or with stray bits at its end is refused.

mod check;
mod claims;
mod keys;
mod refresh;
mod refusal;
mod source;
#[cfg(test)]
mod tests;

use tokio_util::sync::CancellationToken;

use crate::options::JwtOptions;
use check::{Keys, Published, check};
pub use claims::Claims;
use keys::Key;
use refresh::{KeySetRefresher, RefreshSchedule};
pub use refusal::Refusal;

use tidewire_wire::clock::now_ms;

/// Verifies tokens. To be shared in an `Arc`.
#[derive(Debug)]
pub(crate) struct Verifier {
    /// Without the secret, which `secret` holds.
    options: JwtOptions,
    secret: Option<Key>,
    keeper: Option<KeySetRefresher>,
}

impl Verifier {
    /// Checks the options. Reads nothing yet: [`Verifier::keep`] does.
    pub(crate) fn new(options: &JwtOptions) -> Result<Verifier, String> {
        Verifier::with_pace(options, None)
    }

    fn with_pace(options: &JwtOptions, pace: Option<RefreshSchedule>) -> Result<Verifier, String> {
        options.check()?;
        let keeper = match &options.jwks {
            Some(jwks) => {
                let pace = pace.unwrap_or_else(|| RefreshSchedule::of(jwks, options.jwks_refresh));
                Some(KeySetRefresher::new(jwks, pace)?)
            }
            None => None,
        };
        let secret = options.secret.as_deref().map(Key::shared);
        Ok(Verifier { options: JwtOptions { secret: None, ..options.clone() }, secret, keeper })
    }

    /// Says who presents this token. Waits only where its key is not known, and then only while the
    /// key set is being read again.
    pub(crate) async fn verify(&self, token: &str) -> Result<Claims, Refusal> {
        let Some(keeper) = &self.keeper else { return self.check(token, Published::Nowhere) };
        let known = keeper.keys();
        match self.check(token, Published::of(known.as_deref())) {
            Err(refusal @ (Refusal::UnknownKey | Refusal::KeysUnavailable)) => {
                match keeper.newer_than(known.as_ref()).await {
                    Some(keys) => self.check(token, Published::Known(&keys)),
                    None => Err(refusal),
                }
            }
            decided => decided,
        }
    }

    /// Loads the key set and keeps it fresh, until it is told to stop. One task does this for all;
    /// while none does, tokens of unknown keys are refused after a wait.
    pub(crate) async fn keep(&self, stop: CancellationToken) {
        match &self.keeper {
            Some(keeper) => keeper.keep(stop).await,
            None => stop.cancelled().await,
        }
    }

    fn check(&self, token: &str, published: Published<'_>) -> Result<Claims, Refusal> {
        let keys = Keys { secret: self.secret.as_ref(), published };
        check(token, &keys, &self.options, now_ms().div_euclid(1000))
    }
}
