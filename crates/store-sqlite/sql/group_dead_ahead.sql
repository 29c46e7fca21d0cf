SELECT c_offset
FROM main.tidewire_consumer_dead_letters
WHERE group_id = ?1 AND partition_id = ?2 AND c_offset >= ?3 AND state = 'dead'
