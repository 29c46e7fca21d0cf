UPDATE main.tidewire_consumer_offsets
SET generation = generation + 1, lease_until_ms = ?3, leased_to = ?4, member = ?5,
    retry_at_ms = NULL
WHERE group_id = ?1 AND topic_id = 1 AND partition_id = ?2
