//! Stories told to the real binary over real databases: of failures, one file each, and of what
//! PROTOCOL.md promises, a file for each part.
//!
//! A story that concerns the log is told on both stores. Doc comments cite the invariants of the
//! design by number (I1 is the first).

mod a_backup_is_restored;
mod a_certificate_is_replaced;
mod a_connection_is_lost;
mod a_herd_returns;
mod a_key_is_revoked;
mod a_newer_schema_is_refused;
mod a_node_dies;
mod a_page_is_read_again;
mod a_reader_stalls;
mod a_second_server_wants_the_folder;
mod a_server_is_killed;
mod a_slow_event_source_is_cut_off;
mod a_tab_sleeps_and_returns;
mod a_webhook_survives_a_restart;
mod access_matrix;
mod all_nodes_restart_one_by_one;
mod an_append_writes_one_row;
mod bad_messages;
mod compression;
mod connections;
mod encrypted_connections;
mod entities;
mod every_limit_has_a_name;
mod expired_rows_are_swept;
mod keys_command;
mod live_clients_outlast_postgres;
mod live_metrics;
mod notify;
mod old_rows_are_retired;
mod one_address_wants_everything;
mod orders_to_all_nodes;
mod other_systems_names;
mod payloads;
mod pointers;
mod postgres_restarts;
mod protocol_examples;
mod rates;
mod readers_come_under_load;
mod reading_by_sse;
mod reading_own_writes;
mod resuming;
mod secrets_stay_secret;
mod session_ids;
mod session_keys;
mod sessions;
mod slow_clients;
mod sql;
mod sql_command;
mod subscribing_under_load;
mod table_subscriptions;
mod tenants;
mod the_disk_is_full;
mod the_door_is_shut;
mod the_server_is_told_to_stop;
mod tickets_and_cookies;
mod tokens;
mod two_nodes_start_at_once;
mod watched_tables;
mod what_of_a_table_is_seen;
