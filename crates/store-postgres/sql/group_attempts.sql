SELECT host_id, user_id, attempts, verdict FROM tidewire.consumer_attempts
WHERE group_id = $1 AND partition_id = $2
