-- Who had a lease that ran out before must not come back with it.
UPDATE tidewire.consumer_offsets
SET retry_at_ms = floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + $3::bigint,
    member = $4, generation = generation + (lease_until_ms IS NOT NULL)::integer, lease_until_ms = NULL
WHERE group_id = $1 AND topic_id = 1 AND partition_id = $2
