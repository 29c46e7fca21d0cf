UPDATE tidewire.consumer_offsets SET trouble = $5
WHERE group_id = $1 AND topic_id = 1 AND partition_id = $2 AND next_offset = $3 AND generation = $4
