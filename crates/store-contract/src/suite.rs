//! The list of the contract's tests, by topic.

/// Makes a test of every function of the contract that a store with a database passes by itself.
/// `$fresh` is evaluated in each, and gives an [`Opener`](crate::Opener) of empty data.
///
/// ```ignore
/// mod postgres {
///     tidewire_store::contract_suite!(fresh().await);
///     tidewire_store::contract_suite!(nodes: fresh().await);
/// }
/// ```
///
/// A store that has less names the parts that it passes, by trait:
///
/// | part | what it is about |
/// |---|---|
/// | `log:` | `Log`, and what of a store outlives it |
/// | `subscriptions:` | `Subscriptions` |
/// | `sessions:` | `Sessions` and `Nodes` |
/// | `access:` | `Keys`, `Tickets` and `ControlChannel` |
/// | `entities:` | `Entities` |
/// | `tables:` | what is seen or done in the store's tables by SQL, for all of these; `Retention` |
/// | `groups:` | `Grouped` |
///
/// Beside them, `nodes:` and `group_nodes:` are for stores that can be opened more than once at a time,
/// and `sql:` is for those that capture what SQL changes: SQLite by itself, PostgreSQL with a node that
/// does.
#[macro_export]
macro_rules! contract_suite {
    (sql: $fresh:expr) => {
        $crate::contract_suite! { @each $fresh;
            group_statements:
                what_a_handler_changes_is_in_the_log
                an_ack_runs_its_statements_with_the_advance
                an_ack_whose_statement_fails_does_nothing
                statements_of_a_lost_lease_do_not_run;
            invalidations:
                what_sql_says_of_an_entity_is_in_the_log
                what_is_undone_is_not_said_of_an_entity
                changes_of_rows_are_changes_of_entities
                an_entity_that_gets_another_id_is_told_by_both
                a_truncated_table_is_told_for_all_its_entities
                changes_of_entities_know_their_tenant
                what_nobody_can_subscribe_to_is_no_entity
                what_became_of_entities_is_found
                what_is_no_entity_is_refused;
            queries:
                a_watched_table_has_a_shape
                other_names_have_no_shape
                a_fingerprint_tells_shapes_apart
                a_read_has_its_place_in_the_log
                a_changed_table_is_not_read
                other_tables_are_not_read
                a_query_only_reads
                an_error_does_not_tell_of_rows
                a_live_result_may_be_too_large
                a_live_query_may_not_take_for_ever
                an_emptied_table_is_read_empty
                the_list_of_live_queries_is_read_by_sql;
            statements:
                a_select_gives_columns_and_rows
                several_statements_are_one_transaction
                a_failed_statement_undoes_the_others
                parameters_stand_for_values
                an_error_says_where_it_is
                a_result_may_be_too_large
                a_statement_may_not_take_for_ever
                transactions_are_not_made_by_hand
                an_answer_has_its_place_in_the_log;
            watching:
                changes_of_rows_come_into_the_log
                a_transactions_changes_lie_together
                what_is_undone_is_not_captured
                what_is_undone_to_a_savepoint_is_not_captured
                upserts_are_what_they_do
                cascades_are_captured
                keys_tell_rows_apart
                a_key_may_change
                events_know_their_tenant_and_user
                documents_are_published_in_their_place
                an_unwatched_table_is_not_captured
                watches_survive_a_restart
                what_cannot_be_watched_is_refused
                quoted_names_are_watched
                generated_columns_are_left_out
                a_changed_table_is_told
                a_table_that_is_watched_in_another_way_is_told
                a_renamed_table_keeps_its_stream
                a_dropped_table_ends_its_stream
                columns_are_known_by_the_tables_name
                collations_of_columns_are_known
                names_of_watched_tables_are_known;
        }
    };
    (nodes: $fresh:expr) => {
        $crate::contract_suite! { @each $fresh;
            nodes:
                nodes_give_offsets_in_one_order
                an_append_on_one_node_is_visible_on_the_others
                a_commit_on_one_node_wakes_the_others
                retries_on_other_nodes_take_effect_once
                nodes_announce_a_wake_once
                nodes_share_their_secrets
                changed_subscriptions_are_signalled_to_all_nodes
                nodes_change_sessions_one_after_the_other
                a_name_is_given_by_one_node
                a_session_goes_from_node_to_node
                control_messages_are_heard_on_all_nodes
                a_ticket_is_taken_on_one_node
                a_node_that_closes_leaves_the_others_at_work;
        }
    };
    (group_nodes: $fresh:expr) => {
        $crate::contract_suite! { @each $fresh;
            group_nodes:
                a_partition_is_worked_on_by_one_node
                racing_nodes_handle_each_event_once
                a_lease_goes_from_node_to_node
                comings_are_signalled_to_all_nodes;
        }
    };
    (log: $fresh:expr) => {
        $crate::contract_suite! { @each $fresh;
            appending:
                offsets_are_gapless_under_many_appenders
                an_acknowledged_append_is_visible_at_once
                appends_that_wait_together_share_commits
                appends_that_wait_together_keep_their_order
                a_refused_append_leaves_its_neighbours_alone
                json_messages_have_an_offset_each_and_share_their_append
                bytes_come_back_as_they_went_in
                the_content_type_must_be_the_streams
                stream_seq_must_rise_bytewise
                an_append_to_no_stream_is_refused;
            closing:
                a_closed_stream_takes_nothing_more
                closing_twice_is_as_good_as_once
                an_empty_stream_can_be_closed
                a_stream_may_be_closed_from_the_start
                the_closing_producers_retry_succeeds
                a_producer_may_close_without_content
                a_stale_epoch_is_told_apart_from_a_closed_stream
                one_of_racing_closers_wins;
            creating:
                an_empty_stream_is_at_the_start
                first_content_arrives_with_its_stream
                creating_the_same_again_confirms_it
                creating_with_another_configuration_is_refused
                racing_creations_make_one_stream
                a_deleted_stream_is_gone
                a_recreated_stream_does_not_show_its_predecessor
                a_stream_may_be_deleted_and_made_anew_in_one_commit
                positions_keep_rising_after_everything_is_deleted;
            following:
                a_follower_always_sees_a_prefix
                payloads_come_only_for_wanted_streams
                control_events_tell_what_became_of_streams
                the_log_is_followed_a_page_at_a_time
                the_log_tells_that_it_has_grown;
            fork_removal:
                a_deleted_source_is_kept_for_its_forks
                the_last_fork_takes_its_hidden_sources_along
                a_source_is_held_by_every_one_of_its_forks
                the_middle_of_a_chain_can_be_deleted
                an_expired_source_is_kept_for_its_forks
                an_expired_fork_releases_its_source;
            forks:
                a_fork_continues_where_its_source_stood
                a_fork_may_start_at_any_offset
                first_content_of_a_fork_follows_what_it_inherits
                a_fork_can_be_closed_where_it_starts
                forks_of_forks_see_through_all_their_sources
                a_sub_offset_cuts_bytes
                a_sub_offset_counts_json_messages
                a_fork_inherits_type_and_lifetime_only
                an_impossible_fork_is_refused
                a_chain_of_forks_has_a_limit;
            lifetimes:
                an_expired_stream_is_not_found
                an_expired_streams_name_can_be_used_again
                a_fixed_expiry_is_not_renewed
                a_sliding_lifetime_is_renewed_by_reads
                a_sliding_lifetime_is_renewed_by_appends
                a_renewal_that_changes_little_is_not_written
                a_stream_left_alone_expires
                the_sweep_tells_of_expired_streams
                an_immense_time_to_live_is_accepted;
            producers:
                a_producers_stamps_are_checked
                producers_do_not_know_of_each_other
                a_producer_may_start_at_any_epoch
                racing_retries_take_effect_once
                a_producer_may_pipeline
                a_retry_with_its_stream_seq_is_a_duplicate
                a_refused_append_does_not_move_its_producer;
            paging: names_are_listed_whole_in_pieces;
            reading:
                a_late_reader_sees_everything
                pages_join_without_gap_or_overlap
                a_page_ends_once_it_has_its_bytes
                a_page_says_how_far_it_looked
                a_stream_without_more_to_come_is_up_to_date
                control_events_do_not_show_in_a_stream
                reading_no_stream_finds_nothing
                names_are_paged_in_byte_order
                a_prefix_may_end_in_any_character;
            restart:
                the_log_survives_a_restart
                offsets_continue_after_a_restart
                streams_survive_a_restart
                a_duplicate_is_known_after_a_restart
                subscriptions_survive_a_restart
                sessions_survive_a_restart
                closing_finishes_what_waits
                a_closed_store_lets_go_of_its_data;
            tenants:
                a_tenant_uses_its_own_streams
                a_stream_out_of_reach_is_not_there
                a_name_out_of_reach_is_taken
                an_expired_name_goes_to_the_next_tenant
                shared_streams_are_of_no_tenant
                a_fork_belongs_to_its_maker;
        }
    };
    (subscriptions: $fresh:expr) => {
        $crate::contract_suite! { @each $fresh;
            pull_wake:
                a_wake_is_announced_exactly_once
                claimed_work_is_acknowledged_and_done
                work_that_arrived_meanwhile_is_the_next_wake
                released_work_goes_to_the_next_worker
                a_stale_worker_is_fenced_off
                an_ack_must_lie_between_cursor_and_end
                work_is_taken_back_when_its_lease_runs_out
                a_sign_of_life_renews_the_lease
                a_wake_that_cannot_be_announced_can_be_claimed;
            subscriptions:
                a_subscription_is_made_once
                a_deleted_subscription_is_not_found
                existing_streams_are_linked_at_their_ends
                later_streams_are_linked_before_their_first_append
                a_deleted_stream_leaves_its_patterns
                streams_are_added_and_removed_by_name
                interests_are_listed_and_their_changes_told
                forks_are_linked_at_their_ends
                a_secret_is_decided_once;
            webhooks:
                one_node_delivers_at_a_time
                a_dead_nodes_turn_passes_on
                a_failed_delivery_is_tried_again
                a_done_delivery_acknowledges_what_was_announced
                a_retry_announces_the_latest_ends
                an_accepted_delivery_is_leased
                a_late_answer_to_a_delivery_is_fenced_off
                a_webhook_cannot_be_claimed;
        }
    };
    (sessions: $fresh:expr) => {
        $crate::contract_suite! { @each $fresh;
            node_leases:
                nodes_are_listed_as_they_report
                a_lease_is_renewed
                a_node_that_comes_back_connects_its_sessions_again
                a_served_session_does_not_expire
                the_sessions_of_a_dead_node_live_on_for_a_while
                the_time_of_a_dead_nodes_sessions_ends
                a_dead_node_takes_no_time_from_its_sessions
                a_dead_node_is_forgotten_with_its_last_session
                an_unknown_node_keeps_no_session
                only_the_node_that_serves_a_session_disconnects_it
                a_disconnected_session_lives_on_for_a_while
                a_node_that_goes_leaves_its_sessions;
            pointers:
                a_pointer_moves_only_forwards
                the_greatest_acknowledgement_of_a_commit_counts
                an_acknowledgement_of_an_old_epoch_changes_nothing
                an_old_pointer_cannot_be_brought_back
                where_a_subscription_went_live_is_kept_once
                an_append_moves_no_pointer;
            session_upkeep:
                counts_follow_subscriptions
                expired_sessions_are_swept
                a_sweep_is_bounded
                stale_subscriptions_are_swept;
            sessions:
                a_session_is_there_until_it_expires
                a_foreign_id_is_no_session
                an_expired_session_takes_no_change
                a_session_is_opened_once
                signs_of_life_keep_a_session
                what_a_session_follows_is_listed
                subscribing_twice_changes_nothing
                resubscribing_moves_the_pointer_and_raises_the_epoch
                a_stream_has_one_name_in_a_session
                a_name_is_one_streams_in_a_session
                unsubscribing_ends_a_subscription
                a_session_follows_a_limited_number_of_streams
                a_refused_change_leaves_its_neighbours_alone
                changes_at_the_same_time_are_made_one_after_the_other
                changed_subscriptions_are_signalled;
        }
    };
    (access: $fresh:expr) => {
        $crate::contract_suite! { @each $fresh;
            control:
                every_reader_hears_every_message_once
                a_reader_begins_where_it_likes
                messages_sent_at_once_are_heard_once
                a_message_is_signalled
                a_message_that_is_no_json_is_refused
                changed_keys_are_told;
            keys:
                a_key_is_found_as_it_was_made
                an_unknown_key_is_not_found
                a_key_that_cannot_be_kept_is_refused
                an_immense_time_is_accepted_for_a_key
                a_revoked_key_is_not_valid
                an_expired_key_is_not_valid
                a_rotated_key_is_valid_for_the_overlap
                a_rotated_key_expires_no_later_than_before
                a_key_is_rotated_once
                uses_of_keys_are_noted
                keys_survive_a_restart;
            tickets:
                a_ticket_is_taken_once
                one_of_racing_takers_gets_the_ticket
                an_unknown_ticket_is_not_taken
                tickets_survive_a_restart;
        }
    };
    (entities: $fresh:expr) => {
        $crate::contract_suite! { @each $fresh;
            entities:
                a_connection_subscribes_to_entities
                edits_are_made_in_their_order
                one_connections_edits_leave_the_others_alone
                edits_are_made_all_or_none
                subscriptions_are_counted
                subscriptions_of_dead_nodes_are_swept
                many_subscriptions_are_swept_a_piece_at_a_time
                subscriptions_to_entities_survive_a_restart;
        }
    };
    (tables: $fresh:expr) => {
        $crate::contract_suite! { @each $fresh;
            control:
                keys_changed_by_hand_are_told
                old_messages_are_swept
                expired_tickets_are_swept
                a_sweep_of_the_channel_is_bounded
                messages_survive_a_restart;
            entities:
                what_sql_changes_is_told
                a_connection_is_told_of_once
                what_nodes_change_is_not_told
                a_node_takes_up_what_sql_subscribed
                a_node_adopts_what_sql_subscribed
                stale_subscriptions_of_no_node_are_swept;
            keys:
                ids_of_keys_are_not_given_twice
                a_key_can_be_made_by_hand;
            live_queries:
                a_query_is_listed_while_it_is_followed
                edits_of_the_list_are_made_in_their_order
                changes_of_a_query_are_counted
                queries_of_dead_nodes_are_swept
                odd_names_are_listed;
            node_leases: a_lease_ends_unless_it_is_renewed;
            paging:
                ordinary_rows_are_read_whole
                rows_that_compress_well_fill_a_page_as_texts
                streams_are_read_whole_in_pieces
                the_log_is_followed_whole_in_pieces
                groups_read_the_log_whole_in_pieces
                letters_are_listed_whole_in_pieces
                letters_that_are_due_come_in_whole_units
                what_became_of_entities_is_read_whole_in_pieces
                what_is_too_much_is_given_up_whole_in_pieces;
            restart: pointers_into_another_epoch_are_a_fresh_start;
            retention:
                rows_past_their_age_are_given_up
                given_up_rows_are_removed_after_a_while
                many_rows_are_removed_a_piece_at_a_time
                the_oldest_rows_go_while_there_are_too_many_bytes
                archived_rows_are_in_the_archive
                a_session_that_lags_is_waited_for
                whoever_lags_past_the_hard_limit_is_named
                a_subscription_that_lags_is_waited_for
                what_a_node_has_not_read_stays
                the_tip_is_never_removed
                an_emptied_stream_ends_where_it_ended
                streams_with_a_rule_have_an_age_of_their_own
                sources_of_forks_are_kept
                a_fork_has_lost_what_its_source_lost
                a_table_watched_anew_is_another_stream
                rows_of_a_deleted_table_go
                old_news_go_with_the_rows
                appends_go_on_meanwhile;
            session_upkeep:
                what_was_used_lately_is_not_stale
                wrong_counts_are_put_right
                all_counts_are_looked_at_in_turn
                subscriptions_say_when_they_expire
                orphans_are_swept;
            tenants: tenants_survive_a_restart;
            tickets: an_expired_ticket_is_not_taken;
        }
    };
    (groups: $fresh:expr) => {
        $crate::contract_suite! { @each $fresh;
            groups:
                a_group_is_made_once
                a_group_that_is_otherwise_is_told
                what_cannot_be_a_group_is_refused
                groups_are_limited
                a_group_begins_where_it_is_told
                rows_from_before_a_group_are_taken_over
                a_group_is_changed
                a_paused_group_hands_nothing_out
                a_reset_fences_who_was_there
                a_reset_forgets_failures
                a_removed_group_leaves_nothing
                groups_survive_a_restart;
            group_pages:
                a_page_has_all_headers_and_the_wanted_events
                a_filter_leaves_events_out_but_not_their_headers
                events_are_told_whole
                a_page_of_a_group_ends_once_it_has_its_bytes
                removed_events_are_holes
                partitions_of_hosts_stay;
            group_work:
                a_partition_is_worked_on_by_one
                work_and_advance_are_one_commit
                abandoned_work_leaves_nothing
                a_partition_that_moved_is_told
                a_keys_work_is_undone_alone
                without_a_savepoint_nothing_is_undone
                a_failed_statement_is_undone_with_its_key
                a_handler_reads_what_it_wrote
                a_handler_cannot_end_the_transaction
                a_partition_is_moved_past_what_others_have
                a_partition_in_trouble_stands_still
                racing_members_handle_each_event_once;
            group_failures:
                failed_attempts_are_counted_by_key
                a_failed_partition_waits
                handled_keys_are_settled
                failures_of_what_moved_are_not_noted
                errors_are_cut;
            group_letters:
                a_dead_letter_parks_its_key
                letters_are_whole
                letters_are_listed_in_order
                a_letter_is_written_once
                a_redriven_key_is_worked_off_in_order
                a_key_with_letters_is_not_freed
                letters_that_fail_again_wait
                a_parked_letter_may_die
                dropped_letters_let_the_others_go_on
                a_key_may_be_dropped_with_all_it_has
                what_waits_behind_a_letter_is_dropped_with_it
                skipped_letters_are_worked_off_too
                letters_wait_until_their_events_are_passed
                letters_are_worked_off_once
                too_many_letters_stop_a_group
                letters_are_cut_as_the_log_is
                letters_of_no_group_are_not_there;
            group_members:
                members_are_listed_as_they_report
                a_silent_member_is_gone
                members_long_dead_are_swept
                a_member_leaves
                comings_and_goings_are_signalled
                what_cannot_be_a_member_is_refused
                names_over_http_keep_no_library_out;
            group_leases:
                a_lease_is_acknowledged
                a_repeated_ack_changes_nothing
                an_expired_lease_goes_to_others
                a_lease_ends_with_its_group
                a_late_ack_is_taken
                work_over_an_expired_lease_fences_it
                a_lease_is_extended
                a_lease_is_given_back
                a_nack_counts_failures
                a_nack_sets_dead_events_aside
                a_nack_parks_nothing_where_dead_events_are_skipped
                one_of_racing_workers_gets_the_lease
                letters_are_worked_off_by_lease;
            group_partitions:
                partitions_are_changed_at_a_barrier
                what_is_known_of_keys_goes_along
                a_change_fences_leases
                a_change_to_the_same_number_is_none;
            group_retention:
                a_group_that_lags_is_waited_for
                a_group_holds_what_it_reads
                progress_without_a_group_is_waited_for
                a_group_past_the_hard_limit_stops
                a_group_that_begins_in_a_trimmed_log_lost_nothing;
            group_order: events_of_a_key_take_effect_in_order;
        }
    };
    ($fresh:expr) => {
        $crate::contract_suite!(log: $fresh);
        $crate::contract_suite!(subscriptions: $fresh);
        $crate::contract_suite!(sessions: $fresh);
        $crate::contract_suite!(access: $fresh);
        $crate::contract_suite!(entities: $fresh);
        $crate::contract_suite!(tables: $fresh);
        $crate::contract_suite!(groups: $fresh);
    };
    (@each $fresh:expr; $($topic:ident: $($test:ident)+;)+) => {
        $($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                let data = $fresh;
                $crate::$topic::$test(&data).await;
                $crate::Opener::discard(data).await;
            }
        )+)+
    };
}

#[cfg(test)]
mod tests {
    /// Every topic's source, by name.
    const TOPICS: &[(&str, &str)] = &[
        ("appending", include_str!("appending.rs")),
        ("closing", include_str!("closing.rs")),
        ("control", include_str!("control.rs")),
        ("creating", include_str!("creating.rs")),
        ("entities", include_str!("entities.rs")),
        ("following", include_str!("following.rs")),
        ("fork_removal", include_str!("fork_removal.rs")),
        ("forks", include_str!("forks.rs")),
        ("groups", include_str!("groups.rs")),
        ("group_pages", include_str!("group_pages.rs")),
        ("group_work", include_str!("group_work.rs")),
        ("group_failures", include_str!("group_failures.rs")),
        ("group_letters", include_str!("group_letters.rs")),
        ("group_members", include_str!("group_members.rs")),
        ("group_leases", include_str!("group_leases.rs")),
        ("group_partitions", include_str!("group_partitions.rs")),
        ("group_statements", include_str!("group_statements.rs")),
        ("group_retention", include_str!("group_retention.rs")),
        ("group_order", include_str!("group_order.rs")),
        ("group_nodes", include_str!("group_nodes.rs")),
        ("invalidations", include_str!("invalidations.rs")),
        ("keys", include_str!("keys.rs")),
        ("lifetimes", include_str!("lifetimes.rs")),
        ("live_queries", include_str!("live_queries.rs")),
        ("node_leases", include_str!("node_leases.rs")),
        ("nodes", include_str!("nodes.rs")),
        ("paging", include_str!("paging.rs")),
        ("pointers", include_str!("pointers.rs")),
        ("producers", include_str!("producers.rs")),
        ("pull_wake", include_str!("pull_wake.rs")),
        ("queries", include_str!("queries.rs")),
        ("reading", include_str!("reading.rs")),
        ("restart", include_str!("restart.rs")),
        ("retention", include_str!("retention.rs")),
        ("session_upkeep", include_str!("session_upkeep.rs")),
        ("sessions", include_str!("sessions.rs")),
        ("statements", include_str!("statements.rs")),
        ("subscriptions", include_str!("subscriptions.rs")),
        ("tenants", include_str!("tenants.rs")),
        ("tickets", include_str!("tickets.rs")),
        ("watching", include_str!("watching.rs")),
        ("webhooks", include_str!("webhooks.rs")),
    ];

    /// A test that is written but not in the list of `contract_suite!` would never run.
    #[test]
    fn every_test_of_the_contract_is_in_the_suite() {
        let (_, suite) = include_str!("suite.rs").split_once("@each").unwrap_or_default();
        for (topic, source) in TOPICS {
            let written: Vec<&str> = source
                .lines()
                .filter_map(|line| line.strip_prefix("pub async fn "))
                .filter_map(|rest| rest.split('(').next())
                .collect();
            let place = |test: &str| written.iter().position(|name| *name == test);
            let mut listed = Vec::new();
            // A topic may be in several parts.
            for part in suite.split(&format!(" {topic}:")).skip(1) {
                let part = part.split(';').next().unwrap_or_default().split_whitespace();
                let part: Vec<&str> = part.collect();
                assert!(part.iter().is_sorted_by_key(|test| place(test)), "{topic}: {part:?}");
                listed.extend(part);
            }
            listed.sort_by_key(|test| place(test));
            assert_eq!(listed, written, "the tests of contract/{topic}.rs");
        }
        let modules =
            include_str!("lib.rs").lines().filter(|line| line.starts_with("pub mod ")).count();
        assert_eq!(TOPICS.len(), modules, "a topic is missing");
    }
}
