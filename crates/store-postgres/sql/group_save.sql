UPDATE tidewire.consumer_groups
SET total_partitions = $2, wanted_partitions = $3, barrier = $4, tables = $5, streams = $6,
    max_attempts = $7, on_dead = $8, stopped = $9, lost_to = $10
WHERE group_id = $1
