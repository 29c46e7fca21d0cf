//! What the verifier accepts and refuses, with real keys.
//!
//! - `issuer`: makes keys and signs whatever it is told to
//! - `refusals`: every reason to refuse; `confusion`: keys and algorithms that do not belong together
//! - `key_sets`: keys that are left out; `mutations`: tokens with any change
//! - `rotation`: key sets that change, in a file or at a URL; `server`: that URL

mod confusion;
mod issuer;
mod key_sets;
mod mutations;
mod refusals;
mod rotation;
mod server;
