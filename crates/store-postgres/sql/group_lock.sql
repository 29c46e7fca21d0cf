SELECT next_offset, generation, lease_until_ms, leased_to FROM tidewire.consumer_offsets
WHERE group_id = $1 AND topic_id = 1 AND partition_id = $2
FOR UPDATE
