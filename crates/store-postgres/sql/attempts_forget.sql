DELETE FROM tidewire.consumer_attempts
WHERE group_id = $1 AND ($2::integer IS NULL OR partition_id = $2)
