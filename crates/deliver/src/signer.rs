//! The key that signs webhooks, and the secret behind callback tokens. Both lie in the store, so
//! that every node signs alike and a restart changes nothing.

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use tidewire_store::SharedStore;

use crate::access::secret;
use crate::access::start_error::StartError;

const SIGNING_KEY: &str = "webhook-ed25519";
const TOKEN_KEY: &str = "subscription-token";

/// Signs webhooks and tokens.
pub(crate) struct Signer {
    pair: Ed25519KeyPair,
    key_id: String,
    token_key: hmac::Key,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

impl Signer {
    /// Takes the keys from the store, making them if it has none.
    pub(crate) async fn load(store: &SharedStore) -> Result<Signer, StartError> {
        let seed = secret::shared(store, SIGNING_KEY).await?;
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed)
            .map_err(|_| StartError::SigningKey("it is not an Ed25519 seed".to_owned()))?;
        let token_secret = secret::shared(store, TOKEN_KEY).await?;
        let digest =
            aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, pair.public_key().as_ref());
        let key_id = format!("ds_{}", URL_SAFE_NO_PAD.encode(&digest.as_ref()[..12]));
        Ok(Signer { pair, key_id, token_key: hmac::Key::new(hmac::HMAC_SHA256, &token_secret) })
    }

    /// Names the key.
    pub(crate) fn key_id(&self) -> &str {
        &self.key_id
    }

    /// The public key as a JSON Web Key Set.
    pub(crate) fn jwks(&self) -> Value {
        json!({
            "keys": [{
                "kty": "OKP",
                "crv": "Ed25519",
                "alg": "EdDSA",
                "use": "sig",
                "kid": self.key_id,
                "x": URL_SAFE_NO_PAD.encode(self.pair.public_key().as_ref()),
            }]
        })
    }

    /// The `Webhook-Signature` header for a body sent at a time.
    pub(crate) fn signature(&self, at_s: i64, body: &str) -> String {
        let signature = self.pair.sign(format!("{at_s}.{body}").as_bytes());
        let signature = URL_SAFE_NO_PAD.encode(signature.as_ref());
        format!("t={at_s},kid={},ed25519={signature}", self.key_id)
    }

    /// The token that proves who works on a generation of a subscription.
    pub(crate) fn token(&self, subscription: &str, generation: u64) -> String {
        let tag = hmac::sign(&self.token_key, token_subject(subscription, generation).as_bytes());
        format!("{generation}.{}", URL_SAFE_NO_PAD.encode(tag.as_ref()))
    }

    /// The generation a token was made for, if this is a token of the subscription.
    pub(crate) fn verify_token(&self, subscription: &str, token: &str) -> Option<u64> {
        let (generation, tag) = token.split_once('.')?;
        let generation = generation.parse::<u64>().ok()?;
        let tag = URL_SAFE_NO_PAD.decode(tag).ok()?;
        let subject = token_subject(subscription, generation);
        // Compared in constant time.
        hmac::verify(&self.token_key, subject.as_bytes(), &tag).ok().map(|()| generation)
    }

    /// The proof that a lease of a consumer group is what it says.
    pub(crate) fn lease_tag(&self, subject: &str) -> Vec<u8> {
        hmac::sign(&self.token_key, subject.as_bytes()).as_ref().to_vec()
    }

    /// Whether it is that proof. Compared in constant time.
    pub(crate) fn is_lease_tag(&self, subject: &str, tag: &[u8]) -> bool {
        hmac::verify(&self.token_key, subject.as_bytes(), tag).is_ok()
    }
}

fn token_subject(subscription: &str, generation: u64) -> String {
    format!("subscription\n{generation}\n{subscription}")
}
