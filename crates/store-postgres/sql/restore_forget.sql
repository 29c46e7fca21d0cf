-- Servers and their leases, who was connected, what they subscribed to and what they had read, tickets
-- that may have been used since, and orders that were carried out. Of what goes here nobody is told. Groups
-- of consumers go on from where they were: what their handlers wrote is of the same backup. But nobody has
-- any of it.
WITH entities AS (
         DELETE FROM tidewire.rxdb_subscription
         WHERE (SELECT set_config('tidewire.by_node', 'on', true)) = 'on'
     ),
     queries AS (DELETE FROM tidewire.live_queries),
     nodes AS (DELETE FROM tidewire.nodes),
     pointers AS (DELETE FROM tidewire.session_offsets),
     followed AS (DELETE FROM tidewire.session_subscriptions),
     counts AS (DELETE FROM tidewire.stream_subscriber_counts),
     sessions AS (DELETE FROM tidewire.sessions),
     consumers AS (DELETE FROM tidewire.consumer_members),
     held AS (
         UPDATE tidewire.consumer_offsets
         SET generation = generation + 1, lease_until_ms = NULL, retry_at_ms = NULL
     ),
     tickets AS (DELETE FROM tidewire.tickets)
DELETE FROM tidewire.control
