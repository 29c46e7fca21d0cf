UPDATE main.tidewire_consumer_offsets
SET generation = generation + 1, lease_until_ms = NULL, leased_to = NULL, retry_at_ms = ?3
WHERE group_id = ?1 AND topic_id = 1 AND partition_id = ?2
