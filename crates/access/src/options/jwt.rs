//! Options of end users' tokens: which issuers are accepted. Filled in from the configuration by the binary.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use tidewire_options::{default_of, ms, text};

/// HS256 is as strong as its secret, and no stronger than 256 bits (RFC 7518, section 3.2).
const SECRET_BYTES_MIN: usize = 32;
/// Clocks that differ by more than this should be set, not tolerated.
const SKEW_MAX: Duration = Duration::from_secs(300);
/// A server that asks for the key set more often is a burden to whoever publishes it.
const JWKS_REFRESH_MIN: Duration = Duration::from_secs(10);
/// A key that was taken out of the set works for as long as this at most.
const JWKS_REFRESH_MAX: Duration = Duration::from_secs(24 * 3600);

/// Where the issuer's public keys are, as a JSON Web Key Set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JwksSource {
    /// In a file, which is read again when it changes.
    File(PathBuf),
    /// At an address: `https`, or `http` on this machine's loopback.
    Url(String),
}

/// A URL, or else a file; none where there is no text.
fn jwks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<JwksSource>, D::Error> {
    let source = |jwks: String| match jwks.contains("://") {
        true => JwksSource::Url(jwks),
        false => JwksSource::File(jwks.into()),
    };
    Ok(text(deserializer)?.map(source))
}

/// Whose tokens are accepted.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JwtOptions {
    /// The secret of HS256, its bytes as they are. Without one, HS256 is refused.
    #[serde(skip)]
    pub secret: Option<String>,
    /// The keys of RS256, ES256 and EdDSA. Without them, those are refused.
    #[serde(deserialize_with = "jwks")]
    pub jwks: Option<JwksSource>,
    /// How often the key set is fetched from its URL.
    #[serde(rename = "jwks_refresh_ms", deserialize_with = "ms")]
    pub jwks_refresh: Duration,
    /// What `iss` must be. Not looked at where none is given.
    #[serde(deserialize_with = "text")]
    pub issuer: Option<String>,
    /// One of these must be in `aud`. Not looked at where none is given: then every token of the
    /// issuer is accepted, also one that was made for another service.
    pub audience: Vec<String>,
    /// How far the issuer's clock and this one may be apart.
    #[serde(rename = "skew_ms", deserialize_with = "ms")]
    pub skew: Duration,
    /// The claim that names the user's host.
    pub host_claim: String,
    /// The claim that holds what the user may do.
    pub scopes_claim: String,
    /// Scopes of tokens that have none of their own, as JSON.
    #[serde(deserialize_with = "text")]
    pub scopes: Option<String>,
}

impl Default for JwtOptions {
    fn default() -> JwtOptions {
        default_of("jwt")
    }
}

impl std::fmt::Debug for JwtOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JwtOptions")
            .field("secret", &self.secret.as_ref().map(|_| "hidden"))
            .field("jwks", &self.jwks)
            .field("jwks_refresh", &self.jwks_refresh)
            .field("issuer", &self.issuer)
            .field("audience", &self.audience)
            .field("skew", &self.skew)
            .field("host_claim", &self.host_claim)
            .field("scopes_claim", &self.scopes_claim)
            .field("scopes", &self.scopes)
            .finish()
    }
}

impl JwtOptions {
    /// Whether there is something to verify tokens with. Else none are taken.
    pub fn takes_tokens(&self) -> bool {
        self.secret.is_some() || self.jwks.is_some()
    }

    /// Refuses what cannot work, or would not be safe. The source of the keys checks itself.
    pub fn check(&self) -> Result<(), String> {
        if !self.takes_tokens() {
            return Err("there is nothing to verify tokens with: give a secret for HS256, or the \
                        file or URL of a JSON Web Key Set"
                .to_owned());
        }
        if let Some(secret) = &self.secret {
            check_secret(secret)?;
        }
        if self.skew > SKEW_MAX {
            return Err(format!(
                "the skew of token times is {} s, but at most {} s are allowed: set the clocks, \
                 and give a smaller one",
                self.skew.as_secs(),
                SKEW_MAX.as_secs()
            ));
        }
        if !(JWKS_REFRESH_MIN..=JWKS_REFRESH_MAX).contains(&self.jwks_refresh) {
            return Err(format!(
                "the key set would be fetched every {} s, but {} to {} s are allowed: keys that \
                 are withdrawn must stop working, and its server must not be flooded",
                self.jwks_refresh.as_secs(),
                JWKS_REFRESH_MIN.as_secs(),
                JWKS_REFRESH_MAX.as_secs()
            ));
        }
        let names = [&self.host_claim, &self.scopes_claim].into_iter();
        if names.chain(&self.issuer).chain(&self.audience).any(String::is_empty) {
            return Err(
                "a token's issuer, audience or claim name is empty: give a name, or leave \
                        the setting out"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

fn check_secret(secret: &str) -> Result<(), String> {
    if secret.len() < SECRET_BYTES_MIN {
        return Err(format!(
            "the secret for tokens has {} bytes, but HS256 needs at least {SECRET_BYTES_MIN} that \
             nobody can guess: make one with `openssl rand -base64 32`",
            secret.len()
        ));
    }
    // Whoever knows a public key could sign with it, if it were taken for a secret.
    if secret.contains("-----BEGIN") {
        return Err("the secret for tokens is a PEM key or certificate, which is not a secret of \
                    HS256: give the issuer's public keys as a JSON Web Key Set"
            .to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_secret(secret: &str) -> JwtOptions {
        JwtOptions { secret: Some(secret.to_owned()), ..JwtOptions::default() }
    }

    fn refusal(options: &JwtOptions) -> String {
        options.check().expect_err("the options are refused")
    }

    #[test]
    fn a_secret_of_less_than_32_bytes_is_refused() {
        assert!(refusal(&with_secret(&"s".repeat(31))).contains("31 bytes"));
        assert_eq!(with_secret(&"s".repeat(32)).check(), Ok(()));
    }

    #[test]
    fn a_public_key_is_no_secret() {
        let pem = "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A\n";
        assert!(refusal(&with_secret(pem)).contains("PEM"));
    }

    #[test]
    fn what_verifies_nothing_or_tolerates_too_much_is_refused() {
        let good = with_secret(&"s".repeat(32));
        assert!(refusal(&JwtOptions::default()).contains("nothing to verify"));
        let skew = JwtOptions { skew: Duration::from_secs(301), ..good.clone() };
        assert!(refusal(&skew).contains("301 s"));
        assert_eq!(JwtOptions { skew: SKEW_MAX, ..good.clone() }.check(), Ok(()));
        let hasty = JwtOptions { jwks_refresh: Duration::from_secs(9), ..good.clone() };
        assert!(refusal(&hasty).contains("every 9 s"));
        let lazy = JwtOptions { jwks_refresh: JWKS_REFRESH_MAX * 2, ..good.clone() };
        assert!(refusal(&lazy).contains("withdrawn"));
        for empty in [
            JwtOptions { issuer: Some(String::new()), ..good.clone() },
            JwtOptions { audience: vec![String::new()], ..good.clone() },
            JwtOptions { host_claim: String::new(), ..good.clone() },
            JwtOptions { scopes_claim: String::new(), ..good.clone() },
        ] {
            assert!(refusal(&empty).contains("empty"));
        }
    }

    #[test]
    fn keys_come_from_a_url_or_a_file_or_nowhere() {
        let url = "https://issuer.example/jwks.json";
        for (written, source) in [
            (url, Some(JwksSource::Url(url.to_owned()))),
            ("keys/jwks.json", Some(JwksSource::File("keys/jwks.json".into()))),
            ("", None),
        ] {
            let text = serde::de::value::StrDeserializer::<serde::de::value::Error>::new(written);
            assert_eq!(jwks(text), Ok(source));
        }
    }

    #[test]
    fn debugging_does_not_show_the_secret() {
        let shown = format!("{:?}", with_secret("a secret that must not be seen by anyone"));
        assert!(shown.contains("hidden"));
        assert!(!shown.contains("must not be seen"));
    }
}
