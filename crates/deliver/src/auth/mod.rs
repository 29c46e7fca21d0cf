//! Who someone is: what callers present, and how it is checked.

// The expectation is for the crate without its tests, where nothing calls the verifier.
#[cfg_attr(not(test), expect(dead_code, reason = "the door does not ask for tokens of end users"))]
pub(crate) mod jwt;
