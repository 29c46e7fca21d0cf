UPDATE main.tidewire_consumer_parked_keys SET redrive_at_ms = coalesce(redrive_at_ms, ?3)
WHERE group_id = ?1 AND key_hash = ?2
