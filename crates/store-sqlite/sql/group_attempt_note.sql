INSERT INTO main.tidewire_consumer_attempts (
    group_id, partition_id, key_hash, host_id, user_id, first_offset, attempts, verdict, error, failed_at_ms
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7, ?8, ?9)
ON CONFLICT (group_id, partition_id, key_hash) DO UPDATE SET
    first_offset = excluded.first_offset, attempts = attempts + 1, verdict = excluded.verdict,
    error = excluded.error, failed_at_ms = excluded.failed_at_ms
