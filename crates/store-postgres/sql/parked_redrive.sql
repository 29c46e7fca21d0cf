-- All that are marked at once have one time. A key that waits already keeps its turn.
UPDATE tidewire.consumer_parked_keys
SET redrive_at_ms = coalesce(redrive_at_ms, floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint)
WHERE group_id = $1 AND ($2::bytea IS NULL OR key_hash = $2) AND partition_id = ANY($3)
