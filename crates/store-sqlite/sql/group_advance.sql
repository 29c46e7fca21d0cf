UPDATE main.tidewire_consumer_offsets
SET next_offset = ?3, generation = generation + ?4, member = ?5, moved_at_ms = ?6, retry_at_ms = NULL,
    lease_until_ms = NULL
WHERE group_id = ?1 AND topic_id = 1 AND partition_id = ?2
