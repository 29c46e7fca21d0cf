//! TLS for the server's own port: rustls, TLS 1.2 and 1.3, HTTP/1.1 and HTTP/2 by ALPN.
//!
//! - [`certificate`]: from the PEM files to what rustls serves with
//! - [`reload`]: looks at the files now and then, and swaps in what has changed
//! - [`handshake`]: from an accepted socket to a [`Secure`] one
//! - [`secure`]: the encrypted socket, with the plain one's non-blocking calls
//! - [`trust`]: what clients make of the certificate

mod certificate;
mod handshake;
mod reload;
mod secure;
mod trust;

pub use certificate::{TlsError, TlsOptions};
pub use handshake::{Failed, shake_hands};
pub use reload::{CertificateReloader, Outcome};
pub use secure::Secure;
pub use trust::Trust;
use trust::{is_for, trust};
