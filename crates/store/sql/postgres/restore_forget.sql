-- Servers and their leases, who was connected and what they had read, tickets that may have been used
-- since, and orders that were carried out.
WITH nodes AS (DELETE FROM tidewire.nodes),
     pointers AS (DELETE FROM tidewire.session_offsets),
     followed AS (DELETE FROM tidewire.session_subscriptions),
     counts AS (DELETE FROM tidewire.stream_subscriber_counts),
     sessions AS (DELETE FROM tidewire.sessions),
     tickets AS (DELETE FROM tidewire.tickets)
DELETE FROM tidewire.control
