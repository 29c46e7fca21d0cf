//! Stories told to the real binary over real databases: of failures, one file each, and of what
//! PROTOCOL.md promises, a file for each part.
//!
//! A story that concerns the log is told on both stores. Doc comments cite the invariants of the
//! design by number (I1 is the first).

mod a_connection_is_lost;
mod a_newer_schema_is_refused;
mod a_page_is_read_again;
mod a_second_server_wants_the_folder;
mod a_server_is_killed;
mod a_webhook_survives_a_restart;
mod an_append_writes_one_row;
mod bad_messages;
mod compression;
mod every_limit_has_a_name;
mod live_metrics;
mod notify;
mod payloads;
mod pointers;
mod postgres_restarts;
mod protocol_examples;
mod resuming;
mod session_ids;
mod session_keys;
mod sessions;
mod the_disk_is_full;
mod the_door_is_shut;
mod the_server_is_told_to_stop;
mod two_nodes_start_at_once;
