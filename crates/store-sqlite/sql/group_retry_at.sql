UPDATE main.tidewire_consumer_offsets SET retry_at_ms = ?3
WHERE group_id = ?1 AND topic_id = 1 AND partition_id = ?2
