SELECT group_id, total_partitions, wanted_partitions, barrier, tables, streams, max_attempts, on_dead,
       stopped, lost_to, created_at_ms
FROM tidewire.consumer_groups
WHERE group_id = $1
FOR UPDATE
