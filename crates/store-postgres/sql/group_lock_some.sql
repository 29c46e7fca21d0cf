SELECT partition_id, next_offset FROM tidewire.consumer_offsets
WHERE group_id = $1 AND topic_id = 1 AND partition_id = ANY($2)
ORDER BY partition_id
FOR UPDATE
