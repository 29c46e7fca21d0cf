-- Servers and their leases, who was connected, what they subscribed to and what they had read, tickets
-- that may have been used since, and orders that were carried out. Of what goes here nobody is told.
UPDATE main.tidewire_entities_by_node SET by_node = 1;
DELETE FROM main.tidewire_rxdb_subscription;
UPDATE main.tidewire_entities_by_node SET by_node = 0;
DELETE FROM main.tidewire_live_queries;
DELETE FROM main.tidewire_nodes;
DELETE FROM main.tidewire_session_offsets;
DELETE FROM main.tidewire_session_subscriptions;
DELETE FROM main.tidewire_stream_subscriber_counts;
DELETE FROM main.tidewire_sessions;
DELETE FROM main.tidewire_tickets;
DELETE FROM main.tidewire_control;
-- What a group's members and leases were is of the old servers. How far it got, and its letters, are of the
-- same backup as the user's tables.
DELETE FROM main.tidewire_consumer_members;
UPDATE main.tidewire_consumer_offsets
SET generation = generation + 1, lease_until_ms = NULL, leased_to = NULL, retry_at_ms = NULL;
