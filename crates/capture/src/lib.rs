//! PostgreSQL to log: watch triggers, the sequencer, the WAL slot and its decoder.
//!
//! A reserved room: nothing is captured yet. What is written here will append to the log through
//! `tidewire-store` and meet `tidewire-deliver` nowhere but in the log.
