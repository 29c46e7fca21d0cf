INSERT INTO main.tidewire_consumer_parked_keys (
    group_id, partition_id, key_hash, host_id, user_id, from_offset, parked_at_ms
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (group_id, key_hash) DO UPDATE SET from_offset = min(from_offset, excluded.from_offset)
