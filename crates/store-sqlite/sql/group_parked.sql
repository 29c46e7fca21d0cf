SELECT host_id, user_id, from_offset
FROM main.tidewire_consumer_parked_keys
WHERE group_id = ?1 AND partition_id = ?2
