INSERT INTO main.tidewire_subscriptions (
    id, webhook_url, wake_stream, pattern, streams, lease_ttl_ms, description, created_at_ms,
    generation, wake_id, wake_snapshot, holder, lease_until_ms, retry_count, next_attempt_at_ms
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
ON CONFLICT (id) DO UPDATE SET
    generation = excluded.generation,
    wake_id = excluded.wake_id,
    wake_snapshot = excluded.wake_snapshot,
    holder = excluded.holder,
    lease_until_ms = excluded.lease_until_ms,
    retry_count = excluded.retry_count,
    next_attempt_at_ms = excluded.next_attempt_at_ms
