DELETE FROM main.tidewire_consumer_attempts WHERE group_id = ?1 AND partition_id = ?2 AND key_hash = ?3
