UPDATE main.tidewire_consumer_offsets
SET next_offset = ?3, generation = generation + 1, lease_until_ms = NULL, leased_to = NULL,
    retry_at_ms = NULL, trouble = NULL, moved_at_ms = ?4
WHERE group_id = ?1 AND topic_id = 1 AND (?2 IS NULL OR partition_id = ?2)
