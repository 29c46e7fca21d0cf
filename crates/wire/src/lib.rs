//! Connections as bytes: sockets, TLS and WebSocket frames, how many there may be and how long one may be
//! idle. Knows nothing of Tidewire, and nothing else of this crate.
//!
//! - [`line`]: a connection's socket, plain or encrypted; [`tls`]: encryption on it; `bad_request`: hyper's own
//!   answer to what is no request
//! - [`websocket`]: frames and handshake
//! - [`peer`]: whose a request is; [`connection_slots`], [`keyed_permits`]: how many; [`idle`]: for how long
//! - [`clock`]: what time it is
//! - [`kept_body`]: something that lives as long as a body is being sent

mod bad_request;
pub mod clock;
pub mod connection_slots;
pub mod idle;
pub mod kept_body;
pub mod keyed_permits;
pub mod line;
pub mod peer;
pub mod tls;
pub mod websocket;
