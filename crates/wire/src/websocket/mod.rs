//! WebSocket (RFC 6455) as this server speaks it: the handshake, frames in both directions, and
//! permessage-deflate (RFC 7692) without context takeover.
//!
//! Everything here is bytes to bytes; sockets are the hub's. The crates of this field each own their
//! socket and their buffers, encode for one connection at a time and cannot send a frame that was
//! compressed before; here a frame is encoded (and compressed) once and written to every socket that
//! is to get it, and a connection that is idle holds no buffer at all.
//!
//! - [`handshake`]: from a request to `101 Switching Protocols`
//! - [`frame`]: what the server sends; [`reader`]: what clients send
//! - [`deflate`]: compression, both ways

pub mod deflate;
pub mod frame;
pub mod handshake;
pub mod reader;

/// Why a connection is closed, as a number both sides know (RFC 6455, section 7.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CloseCode(pub(crate) u16);

impl CloseCode {
    pub const NORMAL: CloseCode = CloseCode(1000);
    pub const GOING_AWAY: CloseCode = CloseCode(1001);
    pub const PROTOCOL: CloseCode = CloseCode(1002);
    pub(crate) const UNSUPPORTED: CloseCode = CloseCode(1003);
    pub(crate) const NOT_TEXT: CloseCode = CloseCode(1007);
    pub const POLICY: CloseCode = CloseCode(1008);
    pub(crate) const TOO_BIG: CloseCode = CloseCode(1009);
    /// Another connection of the same user took its place.
    pub const NEW_CONNECTION: CloseCode = CloseCode(4000);
    pub const TRY_AGAIN: CloseCode = CloseCode(1013);
}
