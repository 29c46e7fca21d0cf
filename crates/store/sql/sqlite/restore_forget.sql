-- Servers and their leases, who was connected and what they had read, tickets that may have been used
-- since, and orders that were carried out.
DELETE FROM tidewire_nodes;
DELETE FROM tidewire_session_offsets;
DELETE FROM tidewire_session_subscriptions;
DELETE FROM tidewire_stream_subscriber_counts;
DELETE FROM tidewire_sessions;
DELETE FROM tidewire_tickets;
DELETE FROM tidewire_control;
