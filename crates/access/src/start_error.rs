//! Why a server could not be started.

use tidewire_store::StoreError;

use tidewire_wire::tls::TlsError;

/// The server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The listening socket is of no use.
    #[error("cannot listen: {0}")]
    Listen(#[from] std::io::Error),
    /// The store does not answer.
    #[error("cannot read the store: {0}")]
    Store(#[from] StoreError),
    /// The certificate is of no use.
    #[error("{0}")]
    Tls(#[from] TlsError),
    /// Tokens cannot be verified as the options say.
    #[error("cannot verify tokens: {0}")]
    Tokens(String),
    /// The scopes of tokens that have none are of no use.
    #[error("cannot use the scopes for tokens without any: {0}")]
    TokenScopes(String),
    /// The keys in the store are of no use.
    #[error("cannot use the signing key in the store: {0}")]
    SigningKey(String),
}
