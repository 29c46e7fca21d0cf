-- Ends a lease by moving on. The generation stays: by it an ack that is sent again is known.
UPDATE tidewire.consumer_offsets
SET next_offset = leased_to, lease_until_ms = NULL, retry_at_ms = NULL,
    moved_at_ms = floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
WHERE group_id = $1 AND topic_id = 1 AND partition_id = $2 AND generation = $3
  AND lease_until_ms IS NOT NULL
RETURNING next_offset
