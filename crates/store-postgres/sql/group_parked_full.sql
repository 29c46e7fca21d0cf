-- Stops a partition of a group that has as many letters as it may have.
UPDATE tidewire.consumer_offsets SET trouble = $4
WHERE group_id = $1 AND topic_id = 1 AND partition_id = $2 AND trouble IS NULL
  AND (SELECT count(*) FROM tidewire.consumer_dead_letters WHERE group_id = $1) >= $3::bigint
