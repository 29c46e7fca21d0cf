UPDATE tidewire.consumer_offsets
SET lease_until_ms = floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + $4::bigint
WHERE group_id = $1 AND topic_id = 1 AND partition_id = $2 AND generation = $3
  AND lease_until_ms IS NOT NULL
