//! Room reserved.
