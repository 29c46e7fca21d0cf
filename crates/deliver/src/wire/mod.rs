//! Connections as bytes: sockets, TLS and WebSocket frames, how many there may be and how long one may be
//! idle. Knows nothing of Tidewire, and nothing else of this crate.
//!
//! - [`line`]: a connection's socket, plain or encrypted; [`tls`]: encryption on it; [`misread`]: the answer to
//!   what is no request
//! - [`websocket`]: frames and handshake
//! - [`peer`]: whose a request is; [`places`], [`seats`]: how many; [`idle`]: for how long
//! - [`clock`]: what time it is; [`exposition`]: numbers for those who watch them
//! - [`kept_body`]: something that lives as long as a body is being sent

pub(crate) mod clock;
pub(crate) mod exposition;
pub(crate) mod idle;
pub(crate) mod kept_body;
pub(crate) mod line;
mod misread;
pub(crate) mod peer;
pub(crate) mod places;
pub(crate) mod seats;
pub(crate) mod tls;
pub(crate) mod websocket;
