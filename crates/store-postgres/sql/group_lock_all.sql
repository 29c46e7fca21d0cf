SELECT partition_id, next_offset, generation FROM tidewire.consumer_offsets
WHERE group_id = $1 AND topic_id = 1
ORDER BY partition_id
FOR UPDATE
