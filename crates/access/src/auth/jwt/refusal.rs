//! Why a token is refused. The texts go to whoever sent it, and tell nothing of what is in it.

use super::check::TOKEN_BYTES_MAX;

/// Why a token is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error(
        "the token is not a signed JSON Web Token that this server understands; send one in the \
         compact form, without critical header parameters"
    )]
    Malformed,
    #[error("the token is longer than {TOKEN_BYTES_MAX} bytes; put fewer claims into it")]
    TooLong,
    #[error(
        "the token's algorithm is not accepted, or does not fit its key; sign with HS256, RS256, \
         ES256 or EdDSA, as the server is configured"
    )]
    AlgorithmRefused,
    #[error(
        "no key of the server fits the token; sign with a key that is in the key set, and name it \
         in kid"
    )]
    UnknownKey,
    #[error("the token's signature is not valid; ask the issuer for another token")]
    BadSignature,
    #[error("the token has expired; ask the issuer for another one")]
    Expired,
    #[error("the token is not valid yet; check the clocks of the issuer and of the server")]
    NotYetValid,
    #[error("the token is of another issuer; use one of the issuer in the server's configuration")]
    WrongIssuer,
    #[error("the token is for another audience; ask the issuer for one that is for this server")]
    WrongAudience,
    /// Names the claim by its role, not by its configured name.
    #[error("the token's claim for `{0}` is missing or not acceptable; have the issuer correct it")]
    ClaimRefused(&'static str),
    /// Temporary.
    #[error("the keys to verify tokens with are not loaded yet; try again in a few seconds")]
    KeysUnavailable,
}

impl Refusal {
    /// Which refusal: stable, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Refusal::Malformed => "token_malformed",
            Refusal::TooLong => "token_too_long",
            Refusal::AlgorithmRefused => "token_algorithm_refused",
            Refusal::UnknownKey => "token_key_unknown",
            Refusal::BadSignature => "token_signature_invalid",
            Refusal::Expired => "token_expired",
            Refusal::NotYetValid => "token_not_yet_valid",
            Refusal::WrongIssuer => "token_issuer_wrong",
            Refusal::WrongAudience => "token_audience_wrong",
            Refusal::ClaimRefused(_) => "token_claim_refused",
            Refusal::KeysUnavailable => "token_keys_unavailable",
        }
    }

    /// Whether the same token may be accepted a little later, without anyone doing anything.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Refusal::KeysUnavailable)
    }
}
