WITH parked AS (
    DELETE FROM tidewire.consumer_parked_keys
    WHERE group_id = $1 AND ($2::integer IS NULL OR partition_id = $2)
)
DELETE FROM tidewire.consumer_dead_letters
WHERE group_id = $1 AND ($2::integer IS NULL OR partition_id = $2)
