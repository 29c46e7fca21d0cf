-- Partitions that have letters of these, or parked keys.
SELECT DISTINCT partition_id FROM (
    SELECT partition_id FROM tidewire.consumer_dead_letters
    WHERE group_id = $1 AND ($2::bytea IS NULL OR key_hash = $2)
    UNION ALL
    SELECT partition_id FROM tidewire.consumer_parked_keys
    WHERE group_id = $1 AND ($2::bytea IS NULL OR key_hash = $2)
) AS those
ORDER BY partition_id
