-- Moves a partition on, in the transaction that took it and in no other. Whose lease had run out when it was
-- taken must not come back with it, so the generation rises then.
UPDATE tidewire.consumer_offsets
SET next_offset = $4, member = $5, retry_at_ms = NULL, lease_until_ms = NULL,
    moved_at_ms = floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint,
    generation = generation + (lease_until_ms IS NOT NULL)::integer
WHERE group_id = $1 AND topic_id = 1 AND partition_id = $2 AND next_offset = $3
  AND pg_catalog.pg_current_xact_id()::text = $6
