SELECT partition_id, next_offset, generation, member, moved_at_ms,
       lease_until_ms - floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, leased_to,
       retry_at_ms - floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, failing, parked,
       redrive, trouble
FROM tidewire.consumer_offsets
WHERE group_id = $1 AND topic_id = 1 AND partition_id = $2
